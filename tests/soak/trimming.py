# SPDX-License-Identifier: Apache-2.0
"""A started entry of entries.py, with the actions on it and their results."""
import collections
import concurrent.futures
import ctypes
import multiprocessing
import os
import signal
import time

from harness import proc, victim
import entries

REFUSAL_TIMEOUT = "200ms"  # short, as refusals are waited for; these targets stay as they are
# Some builds have no page end after their data that is large enough for a waiting text.
NO_ROOM = "unused bytes after its data"
# Messages that are allowed on a machine without a processor to spare; the target goes on and is
# checked later.
LATE = ("the call has not ended after", "the calls have returned, but ",
        "the code has not finished within")
MORE_CALLS = 8
LATE_TIMEOUTS = ("2s", "20s")  # timeouts after which these messages are not allowed
CODE_TIMEOUT = "400ms"  # a program that only computes has no thread for the allocator's step
PTRACE_SEIZE, PTRACE_DETACH, PTRACE_INTERRUPT = 0x4206, 17, 0x4207

libc = ctypes.CDLL(None, use_errno=True)


class Tally:
    """The results of one entry."""

    def __init__(self, entry):
        self.entry = entry
        self.outcomes = collections.Counter()
        self.reasons = collections.Counter()
        self.problems = []
        self.no_room = ""  # why its code has no place to wait in

    def add(self, trim, again=False):
        self.outcomes["trimmed" if trim.touched else "refused"] += 1
        if trim.released:
            self.outcomes["released"] += 1
        if self.entry.code and trim.result.get("steps"):
            step = trim.result["steps"][0]
            self.outcomes["code " + step["outcome"]] += 1
            if NO_ROOM in (step["detail"] or "") and not self.entry.needs_room:
                self.no_room = step["detail"]
        if not trim.touched:
            self.reasons[trim.reason] += 1
        if self.is_late(trim) and not again:
            self.outcomes["late"] += 1
        elif trim.status not in self.entry.statuses:
            self.problems += trim.broken()

    @staticmethod
    def is_late(trim):
        return trim.status == 7 and any(late in trim.reason for late in LATE)

    def lacks_code(self, trim):
        """Checks that the code ran, if it did not within the short timeout."""
        if self.entry.code != entries.TRIM:
            return False
        step = (trim.result.get("steps") or [{}])[0]
        return (step.get("outcome") not in ("released", "nothing-to-release") and
                NO_ROOM not in (step.get("detail") or ""))

    def verdict(self):
        """Returns the problems, with those that only show over all calls."""
        found = list(self.problems)
        if self.entry.expect == entries.TRIM and not self.outcomes["trimmed"]:
            found.append("never trimmed: " + "; ".join(self.reasons))
        if self.entry.expect == entries.REFUSE and self.outcomes["late"]:
            found.append(f"touched {self.outcomes['late']} times, must be refused")
        if self.entry.expect == entries.REFUSE and self.outcomes["trimmed"]:
            found.append(f"touched {self.outcomes['trimmed']} times, must be refused")
        code = self.outcomes["code released"] + self.outcomes["code nothing-to-release"]
        if self.entry.code == entries.TRIM and not code and not self.no_room:
            found.append("its code never ran")
        if self.entry.code == entries.REFUSE and code:
            found.append(f"its code ran {code} times, must be refused")
        return found


    def figures(self):
        """Returns what a batch's process sends back; entries hold functions, which cannot be
        sent."""
        return self.outcomes, self.reasons, self.problems, self.no_room

    @classmethod
    def of(cls, entry, figures):
        tally = cls(entry)
        tally.outcomes, tally.reasons, tally.problems, tally.no_room = figures
        return tally


class Running:
    """A started entry."""

    snapshot = proc.Snapshot

    def __init__(self, entry):
        self.tally = Tally(entry)
        self.entry = entry
        self.tracer, self.traced = 0, []
        self.waits = False  # a call waits in the target for a held thread until that is released
        self.victim = self.start()
        if entry.setup == "leaderless":
            while proc.status(self.victim.pid)["State"][0] != "Z":
                time.sleep(0.002)
        blocked = bool(entry.release) or not entry.rounds
        self.victim.learn_movers(0 if blocked else victim.LEARN_ROUNDS)
        self.at_start = self.snapshot(self.victim.pid, False, entry.own_mask)
        self._set_up()

    def start(self):
        return self.entry.start()

    def _set_up(self):
        if self.entry.setup == "stop":
            os.kill(self.victim.pid, signal.SIGSTOP)
            while proc.status(self.victim.pid)["State"][0] != "T":
                time.sleep(0.002)
        elif self.entry.setup == "trace":
            if libc.ptrace(PTRACE_SEIZE, self.victim.pid, None, None) != 0:
                raise OSError(ctypes.get_errno(), "PTRACE_SEIZE")
        elif self.entry.setup.startswith("trace-"):
            self._trace_from_outside(self.entry.setup == "trace-all")

    def _trace_from_outside(self, everything):
        """Lets another process seize a thread other than the main one, or all, without holding
        any."""
        pid = self.victim.pid
        self.traced = sorted(proc.threads(pid)) if everything else sorted(proc.threads(pid))[-1:]
        reading, writing = os.pipe()
        self.tracer = os.fork()
        if self.tracer == 0:
            failed = any(libc.ptrace(PTRACE_SEIZE, tid, None, None) != 0 for tid in self.traced)
            os.write(writing, b"f" if failed else b"s")
            signal.pause()
            os._exit(0)
        said = os.read(reading, 1)
        os.close(reading)
        os.close(writing)
        if said != b"s":
            raise OSError("another process may not trace it")

    def _end_tracer(self):
        """Checks that the tracer held its threads all the time, and that nobody touched another
        one."""
        for tid in self.traced:
            if proc.status(self.victim.pid, tid)["TracerPid"] != str(self.tracer):
                self.tally.problems.append(f"its tracer lost thread {tid}")
        self.close()

    def close(self):
        """Ends the tracer that this test has started; its threads go on without it."""
        if self.tracer:
            os.kill(self.tracer, signal.SIGKILL)
            os.waitpid(self.tracer, 0)
            self.tracer = 0

    def _undo(self):
        """Lets the target run on after the last call, so that it can check itself."""
        pid = self.victim.pid
        if self.entry.setup == "stop":
            if proc.status(pid)["State"][0] != "T":
                self.tally.problems.append("it is no longer stopped")
            os.kill(pid, signal.SIGCONT)
        elif self.entry.setup == "trace":
            if proc.tracers(pid) != {os.getpid()}:
                self.tally.problems.append("its tracer lost it")
            libc.ptrace(PTRACE_INTERRUPT, pid, None, None)
            os.waitpid(pid, 0x40000000)
            libc.ptrace(PTRACE_DETACH, pid, None, None)
        elif self.entry.setup.startswith("trace-"):
            self._end_tracer()
        if self.entry.release:
            self.victim.say(self.entry.release)

    def trim(self, flmem):
        pid = self.victim.pid
        before = None
        if self.entry.setup != "stop" and not self.entry.setup.startswith("trace"):
            before = self.snapshot(pid, self._is_quiet(), self.entry.own_mask)
        trim = flmem.trim(pid, self._timeout(), steps=self.entry.steps)
        self.tally.add(trim)
        again = False
        for timeout in LATE_TIMEOUTS:
            if not self.tally.is_late(trim) and not self.tally.lacks_code(trim):
                break
            again = True
            self.waits = self.tally.is_late(trim) and bool(self.entry.release)
            trim = flmem.trim(pid, timeout, steps=self.entry.steps)
            self.tally.add(trim, again=timeout == LATE_TIMEOUTS[-1])
        if not trim.touched and trim.status not in self.entry.statuses:
            self.tally.problems.append(f"refused with status {trim.status}: {trim.reason}")
        if before and trim.status != 7 and not self.waits:
            if again:  # the code of the first call may end after that of the second
                before.await_threads()
            self.tally.problems += self.victim.problems() + before.changes()
        return trim

    def trim_once(self, flmem):
        """Makes more calls while none has found a moment, as on a busy machine."""
        for _ in range(MORE_CALLS):
            if self.entry.expect != entries.TRIM or self.tally.outcomes["trimmed"]:
                return
            self.trim(flmem)

    def _timeout(self):
        if self.entry.expect == entries.TRIM:
            return "10s"
        return CODE_TIMEOUT if self.entry.code == entries.TRIM else REFUSAL_TIMEOUT

    def _is_quiet(self):
        """Takes the state to compare: the first call may still release mappings; from the second on
        nothing changes."""
        calls = self.tally.outcomes["trimmed"]
        return self.entry.quiet and not self.entry.refill and calls > 0

    def progress(self):
        if not self.victim.wait_for_rounds():
            self.tally.problems.append("it makes no progress any more")
        self._move()

    def _move(self):
        """Checks that every thread that moved by itself before the first call still does."""
        if not self.entry.rounds:
            return  # it promises no progress: an interpreter that ends stops its threads
        stuck = self.victim.stuck()
        if stuck:
            self.tally.problems.append(f"threads {sorted(stuck)} do nothing any more")

    def finish(self):
        """Waits for the target's progress, and reads the problems that it found."""
        # Read the round before the target is released: it may complete all its rounds at once.
        wanted = self.victim.rounds + self.entry.rounds
        self._undo()
        if self.entry.rounds and not self.victim.wait_until_round(wanted):
            self.tally.problems.append("it makes no progress any more")
        elif not self.entry.release:
            self._move()
        self.tally.problems += self.victim.problems()
        if self.waits or not self.entry.release:
            # When the main thread leaves its handler, its signal mask changes.
            own = f"signals of thread {self.victim.pid} " if self.entry.release else "-"
            self.tally.problems += [change for change in self.at_start.changes()
                                    if not change.startswith(own)]


def guarded(one, action):
    try:
        action()
    except (proc.Gone, OSError) as error:
        one.tally.problems.append(f"it is gone: {error!r} {one.victim.problems()}")


def run_batch(flmem, batch, trims):
    """Starts some entries, trims them in turn, ends them."""
    running = []
    try:
        for entry in batch:
            running.append(Running(entry))
        for number in range(trims):
            for one in running:
                guarded(one, lambda one=one: one.trim(flmem))
            if number % 20 == 19:  # relative timeouts start again with every call
                for one in running:
                    if one.entry.expect == entries.TRIM:
                        guarded(one, one.progress)
        for one in running:
            guarded(one, lambda one=one: one.trim_once(flmem))
            guarded(one, one.finish)
    finally:
        for one in running:
            one.close()
            one.victim.close()
    return [one.tally for one in running]


ACTIONS = []  # inherited by the processes that run the actions


def run_action(number):
    return ACTIONS[number]()


def run_beside(actions, jobs):
    """Returns each action's result in order; JOBS at a time, in processes that end their
    victims."""
    ACTIONS[:] = actions
    with concurrent.futures.ProcessPoolExecutor(
            jobs, multiprocessing.get_context("fork"),
            initializer=victim.end_at_signals, initargs=(True,)) as pool:
        yield from pool.map(run_action, range(len(ACTIONS)))
