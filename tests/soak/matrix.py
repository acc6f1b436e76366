# SPDX-License-Identifier: Apache-2.0
"""
Trims every kind of target over and over and checks after each call that the target is unharmed.

usage: matrix.py BUILD [--trims N] [--groups blocked,busy,linked,traps,pythons,code]
                 [--allocators glibc,jemalloc,tcmalloc,mimalloc] [--jobs N] [--together N]
                 [--code-trims N] [--behind] [--row]

N is the number of trims altogether; each target gets its share, at least two. Trims with Python code
take a hundred times as long as others: with --code-trims each target of these gets so many of them,
and the others share the rest. An allocator may also be the path of a library to preload. Most of the
time passes in waits (for refusals, for rounds of a target), so --jobs runs several batches of targets
at the same time; a batch has --together targets, of which many compute all the time. --behind gives those a
tenth of what flmem and the tests beside it get of the processors: flmem finds their moments sooner. --row
prints the figures as a row of docs/safety.md, too, and the progress meanwhile.
"""
import argparse
import collections
import concurrent.futures
import ctypes
import multiprocessing
import os
import signal
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

from harness import command, proc, report, skip, victim  # noqa: E402
import entries  # noqa: E402

GROUPS = ("blocked", "busy", "linked", "traps", "pythons", "code")
TOGETHER = 10  # victims that live at the same time, by default
REFUSAL_TIMEOUT = "200ms"  # refusals are waited for; these targets do not get any better
# Some builds leave no page end behind their data that is large enough for a waiting text.
NO_ROOM = "unused bytes after its data"
# What a machine without a processor to spare may lead to; the target goes on and is checked later.
LATE = ("the call has not ended after", "the calls have returned, but ",
        "the code has not finished within")
LATE_THREAD_S = 60
LATE_TIMEOUTS = ("2s", "20s")  # and what it must not lead to then
CODE_TIMEOUT = "400ms"  # a program that only computes has no thread for the allocator's step
PTRACE_SEIZE, PTRACE_DETACH, PTRACE_INTERRUPT = 0x4206, 17, 0x4207

libc = ctypes.CDLL(None, use_errno=True)


class Tally:
    """What happened to one entry."""

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
        """Its code has to run, and did not within the short timeout."""
        if self.entry.code != entries.TRIM:
            return False
        step = (trim.result.get("steps") or [{}])[0]
        return (step.get("outcome") not in ("released", "nothing-to-release") and
                NO_ROOM not in (step.get("detail") or ""))

    def verdict(self):
        """The problems, with those that only show over all calls."""
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
        """What a process for a batch returns; entries hold functions, which cannot be sent."""
        return self.outcomes, self.reasons, self.problems, self.no_room

    @classmethod
    def of(cls, entry, figures):
        tally = cls(entry)
        tally.outcomes, tally.reasons, tally.problems, tally.no_room = figures
        return tally


class Running:
    """A started entry."""

    def __init__(self, entry):
        self.tally = Tally(entry)
        self.entry = entry
        self.tracer, self.traced = 0, []
        self.waits = False  # a call waits in it for what is held until it is released
        self.victim = entry.start()
        if entry.setup == "leaderless":
            while proc.status(self.victim.pid)["State"][0] != "Z":
                time.sleep(0.002)
        blocked = bool(entry.release) or not entry.rounds
        self.victim.learn_movers(0 if blocked else victim.LEARN_ROUNDS)
        self.at_start = proc.Snapshot(self.victim.pid, False, entry.own_mask)
        self._set_up()

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
        """Another process seizes a thread that is not the main one, or all, and holds none still."""
        pid = self.victim.pid
        self.traced = sorted(proc.threads(pid)) if everything else sorted(proc.threads(pid))[-1:]
        told, tell = os.pipe()
        self.tracer = os.fork()
        if self.tracer == 0:
            failed = any(libc.ptrace(PTRACE_SEIZE, tid, None, None) != 0 for tid in self.traced)
            os.write(tell, b"f" if failed else b"s")
            signal.pause()
            os._exit(0)
        said = os.read(told, 1)
        os.close(told)
        os.close(tell)
        if said != b"s":
            raise OSError("another process may not trace it")

    def _end_tracer(self):
        """It held its threads all the time, and no other one has been touched by anybody."""
        for tid in self.traced:
            if proc.status(self.victim.pid, tid)["TracerPid"] != str(self.tracer):
                self.tally.problems.append(f"its tracer lost thread {tid}")
        self.close()

    def close(self):
        """The tracer that this test has started; its threads go on without it."""
        if self.tracer:
            os.kill(self.tracer, signal.SIGKILL)
            os.waitpid(self.tracer, 0)
            self.tracer = 0

    def _undo(self):
        """Lets it run on after the last call, so that it can check itself."""
        pid = self.victim.pid
        if self.entry.setup == "stop":
            if proc.status(pid)["State"][0] != "T":
                self.tally.problems.append("it does not stand still any more")
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
            before = proc.Snapshot(pid, self._is_quiet(), self.entry.own_mask)
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
            if again:  # the code of the first one may end after that of the second
                before.await_threads(LATE_THREAD_S)
            self.tally.problems += self.victim.problems() + before.changes()
        return trim

    def _timeout(self):
        if self.entry.expect == entries.TRIM:
            return "10s"
        return CODE_TIMEOUT if self.entry.code == entries.TRIM else REFUSAL_TIMEOUT

    def _is_quiet(self):
        """The first call may still release mappings; from the second on nothing changes."""
        calls = self.tally.outcomes["trimmed"]
        return self.entry.quiet and not self.entry.refill and calls > 0

    def progress(self):
        if not self.victim.wait_for_rounds():
            self.tally.problems.append("it makes no progress any more")
        self._move()

    def _move(self):
        """Every thread that moved by itself before the first call still does."""
        if not self.entry.rounds:
            return  # it promises none: an interpreter that ends stops its threads
        stuck = self.victim.stuck()
        if stuck:
            self.tally.problems.append(f"threads {sorted(stuck)} do nothing any more")

    def finish(self):
        """Sees it make progress, and what it found wrong."""
        # Taken before it is let go: it may be done with all its rounds at once.
        wanted = self.victim.rounds + self.entry.rounds
        self._undo()
        if self.entry.rounds and not self.victim.wait_until_round(wanted):
            self.tally.problems.append("it makes no progress any more")
        elif not self.entry.release:
            self._move()
        self.tally.problems += self.victim.problems()
        if self.waits or not self.entry.release:
            # Leaving its handler changes the signal mask of its main thread.
            own = f"signals of thread {self.victim.pid} " if self.entry.release else "-"
            self.tally.problems += [change for change in self.at_start.changes()
                                    if not change.startswith(own)]


def run_batch(flmem, batch, trims):
    """Starts some entries, trims them in turn, ends them."""
    running = []
    try:
        for entry in batch:
            running.append(Running(entry))
        for number in range(trims):
            for one in running:
                guarded(one, lambda one=one: one.trim(flmem))
            if number % 20 == 19:  # relative timeouts begin anew with every call
                for one in running:
                    if one.entry.expect == entries.TRIM:
                        guarded(one, one.progress)
        for one in running:
            guarded(one, one.finish)
    finally:
        for one in running:
            one.close()
            one.victim.close()
    return [one.tally for one in running]


BATCHES = []  # inherited by the processes that run them


def run_batch_of(number, flmem, trims):
    return [tally.figures() for tally in run_batch(flmem, BATCHES[number], trims)]


def share(usable, options):
    """[(entries, trims of each)]: those that run Python code apart, if they have a number of their own."""
    coded = [entry for entry in usable if entry.code] if options.code_trims else []
    others = [entry for entry in usable if entry not in coded]
    left = options.trims - options.code_trims * len(coded)
    return [(some, trims) for some, trims in (
        (others, max(2, -(-left // max(1, len(others))))), (coded, options.code_trims)) if some]


def run_batches(flmem, shares, options):
    """All of them, `options.jobs` batches at a time; their tallies."""
    trims = []
    BATCHES.clear()
    for some, each in shares:
        for start in range(0, len(some), options.together):
            BATCHES.append(some[start:start + options.together])
            trims.append(each)
    tallies = []
    with concurrent.futures.ProcessPoolExecutor(
            options.jobs, multiprocessing.get_context("fork"),
            initializer=victim.end_at_signals, initargs=(True,)) as pool:
        results = [pool.submit(run_batch_of, number, flmem, each)
                   for number, each in enumerate(trims)]
        for batch, result in zip(BATCHES, results):
            tallies += [Tally.of(entry, figures)
                        for entry, figures in zip(batch, result.result())]
            if options.row:
                print(f"{len(tallies)} of {sum(map(len, BATCHES))} kinds of target", flush=True)
    return tallies


def guarded(one, action):
    try:
        action()
    except (proc.Gone, OSError) as error:
        one.tally.problems.append(f"it is gone: {error!r} {one.victim.problems()}")


def exiting(flmem, victims, count):
    """Targets that end by themselves, at any moment of the call; not a victim that is watched."""
    entry = entries.Entry("exits meanwhile", [], expect=entries.EITHER, statuses=(3, 5, 6))
    tally = Tally(entry)
    for number in range(count):
        argv = [os.path.join(victims, "safe_threads"), "-c", "2", "-i", "2", "-x",
                str(1 + 7 * number % 60)]
        with victim.Victim(argv) as target:
            trim = flmem.trim(target.pid)
            tally.add(trim)
            if not trim.touched and trim.status not in entry.statuses:
                tally.problems.append(f"refused with status {trim.status}: {trim.reason}")
            status = target.process.wait(timeout=victim.PROGRESS_S)
            if status != 0 or target.page.failures:
                tally.problems.append(f"it ended with {status}: {target.page.first_failure}")
    return tally


def choose(groups, victims, allocators):
    chosen = []
    if "blocked" in groups:
        chosen += entries.blocked(victims, allocators)
    if "busy" in groups:
        chosen += entries.busy(victims, allocators)
    if "linked" in groups:
        chosen += entries.linked(victims)
    if "traps" in groups:
        chosen += entries.traps(victims, allocators)
    if "pythons" in groups:
        chosen += entries.pythons()
    if "code" in groups:
        chosen += entries.code()
    return chosen


def show(tallies, missing):
    rows = []
    for tally in tallies:
        problems = tally.verdict()
        rows.append((tally.entry.name, tally.entry.allocator, tally.entry.expect,
                     tally.outcomes["trimmed"], tally.outcomes["released"],
                     tally.outcomes["refused"], len(problems),
                     next(iter(tally.reasons), "")[:90]))
    report.table(("target", "allocator", "expected", "trimmed", "released", "refused", "problems",
                  "first reason of a refusal"), rows)
    for tally in tallies:
        if tally.no_room:
            print(f"SKIP: {tally.entry.name}, {tally.entry.allocator}: {tally.no_room}")
        for problem in tally.verdict()[:5]:
            print(f"PROBLEM: {tally.entry.name}, {tally.entry.allocator}: {problem}")
    for entry in missing:
        print(f"SKIP: {entry.name}, {entry.allocator}: {entry.missing}")


def print_row(total, kinds, bad):
    """docs/safety.md, the first row of its table."""
    made, refused = total["trimmed"], total["refused"]
    found = "no problem" if not bad else f"{bad} problems"
    print(f"| trims | {made + refused:,} trims of {kinds} kinds of target | {made:,} made "
          f"({total['released']:,} of them gave memory back), {refused:,} refused, as they must be "
          f"or as no thread was idle; {found} |")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build")
    parser.add_argument("--trims", type=int, default=0)
    parser.add_argument("--groups", default=",".join(GROUPS))
    parser.add_argument("--allocators", default=",".join(entries.ALLOCATORS))
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--together", type=int, default=TOGETHER)
    parser.add_argument("--code-trims", type=int, default=0)
    parser.add_argument("--behind", action="store_true")
    parser.add_argument("--row", action="store_true")
    options = parser.parse_args()
    victim.end_at_signals()
    flmem = command.Flmem(options.build)
    flmem.require("trim")
    groups = options.groups.split(",")
    victims = os.path.join(os.path.abspath(options.build), "tests", "victims")
    chosen = choose(groups, victims, options.allocators.split(","))
    if not chosen:
        skip("no such group")
    usable = [entry for entry in chosen if not entry.missing]
    for entry in usable:
        entry.behind = options.behind and entry.computes
    shares = share(usable, options)
    tallies = run_batches(flmem, shares, options)
    if "busy" in groups:
        tallies.append(exiting(flmem, victims, max(10, shares[0][1])))
    show(tallies, [entry for entry in chosen if entry.missing])
    total = collections.Counter()
    for tally in tallies:
        total.update(tally.outcomes)
    bad = sum(len(tally.verdict()) for tally in tallies)
    if options.row:
        print_row(total, len(tallies), bad)
    print(f"{total['trimmed'] + total['refused']} trims of {len(tallies)} targets: "
          f"{total['released']} released memory, {total['refused']} were refused, {bad} problems")
    hopeful = any(tally.entry.expect == entries.TRIM for tally in tallies)
    if hopeful and not total["released"]:
        print("PROBLEM: nothing was released anywhere; this proves nothing")
        bad += 1
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
