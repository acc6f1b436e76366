# SPDX-License-Identifier: Apache-2.0
"""
Kills flmem in the middle of its work and checks that every target lives on, whole.

usage: kill.py BUILD [--runs N] [--stops N] [--late N] [--targets allocators|interpreters]
               [--allocators glibc,jemalloc,tcmalloc,mimalloc] [--dry-run] [--behind] [--jobs N]

--runs: kills after a random delay across the whole call, altogether.
--stops: kills at each of the first N system call stops after flmem has begun to touch the target
(tests/soak/killat.c), for each target, then at --late random ones up to the last.
--allocators: the first with all targets, the others with one; also paths of libraries to preload.
--dry-run: kills a dry run, which stops a thread and lets it go without calls.
--behind: as for matrix.py.
--jobs: so many targets at a time; much of the time is waited for.
"""
import argparse
import collections
import concurrent.futures
import os
import random
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

from harness import command, proc, report, skip, victim  # noqa: E402
import entries  # noqa: E402

LATE_STOPS = 10  # number of random stops after the first ones
CALIBRATIONS = 3
SPIN_S = 0.001  # how much too long a sleep may last
TIMEOUT = "30s"  # on a busy machine a target may have no idle thread for a while
REFILLED_BLOCKS = 400  # on such a machine this leaves little to do between two waits
MISSED_MAX = 10  # further trims of a target whose moments all trims have missed, as on a busy machine
CODE_TIMEOUT = "250ms"  # a program that only computes has no thread for the allocator's step
# Under a tracer flmem is too slow for the moment between two signals, and tries until the timeout.
SIGNALS_TIMEOUT = "500ms"
SEED = 20240229  # the same delays in every run; the machine's timing varies enough


def targets(victims, allocators):
    """Returns targets for every way in which an interrupted wait goes on, and busy programs."""
    def entry(name, program, *words, **more):
        blocks = REFILLED_BLOCKS if more.get("refill") else None
        return entries.Entry(name, [os.path.join(victims, program), *words],
                             **{"allocator": allocators[0], "blocks": blocks, **more})

    chosen = [
        entry("waits in read", "safe_blocked", "read-pipe", refill=True),
        entry("waits in epoll_wait", "safe_blocked", "epoll_wait", refill=True),
        entry("waits in nanosleep", "safe_blocked", "nanosleep", refill=True),
        entry("waits in ppoll", "safe_blocked", "ppoll", refill=True),
        entry("waits in futex", "safe_blocked", "futex", refill=True),
        entry("waits in semtimedop, limited", "safe_blocked", "semtimedop-limited", refill=True),
        entry("waits in rt_sigtimedwait", "safe_blocked", "rt_sigtimedwait", refill=True),
        # 100 MB, of which one fill writes nine tenths.
        entry("large heap", "safe_blocked", "epoll_wait-limited", refill=8, blocks=20000),
        entry("AMX tiles", "safe_blocked", "read-pipe", "tiles",
              missing="" if entries.have_tiles() else "this processor has no AMX"),
        entry("8 threads churn, 3 wait", "safe_threads", "-c", "8", "-i", "3", "-n", "60000"),
        entry("1000 signals a second", "safe_signals", "-a"),
    ]
    for allocator in allocators[1:]:
        chosen.append(entry("4 threads churn, 3 wait", "safe_threads", "-c", "4", "-i", "3", "-n",
                            "20000", allocator=allocator, missing=entries.available(allocator)))
    return chosen


def interpreters():
    """Returns targets for running the collector in the middle of a trim: interpreters that compute
    or wait."""
    return [one for one in entries.code() if one.argv[-1] in ("alone", "compete", "wait")]


# These calls return EINTR also when a process is stopped and continues without a handler
# (signal(7)), and the kernel has already decided that when a tracer gets hold of the thread. flmem
# undoes it with its first write; if it is killed before, it cannot, and the program gets a result
# that it has to expect anyway.
INTERRUPTIBLE = ("epoll_wait", "semtimedop-limited", "rt_sigtimedwait",
                 "epoll_wait-limited")


class Target:
    """A running target and what was done to it."""

    def __init__(self, entry, running=None, more=()):
        """running: its victim, when it has been started already; more: further words for flmem."""
        self.entry = entry
        self.more = more
        self.victim = running or entry.start()
        self.victim.learn_movers()
        self.before = proc.Snapshot(self.victim.pid, False, entry.own_mask)
        self.counts = collections.Counter()
        self.problems = []
        self.wall_s = 0.01
        self.interruptions = 0

    def calibrate(self, flmem):
        """Measures the time of a whole call."""
        walls = []
        for _ in range(CALIBRATIONS):
            self.victim.wait_for_rounds(1)
            walls.append(flmem.trim(self.victim.pid, timeout(self.entry),
                                    steps=[*self.entry.steps, *self.more]).wall_s)
        self.wall_s = report.median(walls)

    def allowed_interruptions(self):
        if not set(INTERRUPTIBLE) & set(self.entry.argv):
            return 0
        return self.counts["killed"] + self.counts["stopped at"]

    def check(self):
        """Compares with the very beginning, since a chain whose caller was killed runs on for a
        moment."""
        self.before.await_threads()  # those with code may end late on a busy machine
        self.problems += self.before.changes()
        if not self.victim.wait_for_rounds(2):
            self.problems.append("it makes no progress any more")
        stuck = self.victim.stuck()
        if stuck:
            self.problems.append(f"threads {sorted(stuck)} do nothing any more")
        self.problems += self.victim.problems(self.allowed_interruptions())


def timeout(entry):
    if entry.code:
        return CODE_TIMEOUT
    return SIGNALS_TIMEOUT if "safe_signals" in entry.argv[0] else TIMEOUT


def words(flmem, target):
    return [*flmem.trim_words(target.victim.pid, timeout(target.entry), target.entry.steps),
            "--no-predict", *target.more]


def dry_words(options):
    return ("--dry-run",) if options.dry_run else ()


def kill_after_delay(flmem, target, rng):
    delay = rng.uniform(0, 1.1 * target.wall_s)
    pid = os.posix_spawn(flmem.path, words(flmem, target),
                         dict(os.environ, **command.ENVIRONMENT),
                         file_actions=[(os.POSIX_SPAWN_OPEN, 1, "/dev/null", os.O_WRONLY, 0),
                                       (os.POSIX_SPAWN_OPEN, 2, "/dev/null", os.O_WRONLY, 0)])
    end = time.monotonic() + delay
    time.sleep(max(0, delay - SPIN_S))
    while time.monotonic() < end:
        pass
    os.kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    target.counts["killed" if os.WIFSIGNALED(status) else "ended before"] += 1
    target.check()


def kill_at_stop(killat, flmem, target, stop):
    """Kills at one place; returns the number of stops when the place is beyond the last one, else
    0."""
    done = subprocess.run([killat, str(stop), *words(flmem, target)], check=False,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          env=dict(os.environ, **command.ENVIRONMENT))
    last = done.stdout.decode(errors="replace").strip().splitlines()[-1:]
    said = last[0].split() if last else []
    if not said or said[0] not in ("killed", "ended"):
        target.problems.append(f"killat said {done.stdout!r} {done.stderr!r}")
        return 1
    target.counts["stopped at" if said[0] == "killed" else "ended before"] += 1
    target.check()
    return int(said[2]) if said[0] == "ended" else 0


def sweep(killat, flmem, target, options, rng):
    for stop in range(1, options.stops + 1):
        if kill_at_stop(killat, flmem, target, stop):
            return
    count = kill_at_stop(killat, flmem, target, 0) or options.stops
    for _ in range(options.late):
        kill_at_stop(killat, flmem, target, rng.randint(1, max(count, options.stops)))


def run_target(target, flmem, killat, options, share):
    rng = random.Random(f"{SEED} {target.entry.name} {target.entry.allocator}")
    if share:
        target.calibrate(flmem)
    for _ in range(share):
        if target.problems:
            return
        kill_after_delay(flmem, target, rng)
    if options.stops and not target.problems:
        sweep(killat, flmem, target, options, rng)
        # A dry run does not touch a thread whose timeout would start again.
        if target.more:
            return
        for _ in range(MISSED_MAX):
            if target.counts["stopped at"] or target.problems:
                return
            kill_at_stop(killat, flmem, target, 1)
        if not target.counts["stopped at"]:
            target.problems.append("flmem was never killed after it had begun to touch it")


def kill_target(entry, flmem, killat, options, share):
    """Runs one target from its start to its end; returns the actions and the problems."""
    entry.behind = options.behind and entry.computes
    target = Target(entry, more=dry_words(options))
    try:
        run_target(target, flmem, killat, options, share)
    except (proc.Gone, OSError) as error:
        target.problems.append(f"it is gone: {error!r} {target.victim.problems()}")
    finally:
        target.interruptions = target.victim.page.interruptions
        target.victim.close()
    for problem in target.problems[:5]:
        print(f"PROBLEM: {entry.name}, {entry.allocator}: {problem}", flush=True)
    return target


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build")
    parser.add_argument("--runs", type=int, default=60)
    parser.add_argument("--stops", type=int, default=0)
    parser.add_argument("--late", type=int, default=LATE_STOPS)
    parser.add_argument("--targets", choices=("allocators", "interpreters"), default="allocators")
    parser.add_argument("--allocators", default=",".join(entries.ALLOCATORS))
    parser.add_argument("--dry-run", action="store_true")
    parser.add_argument("--behind", action="store_true")
    parser.add_argument("--jobs", type=int, default=1)
    options = parser.parse_args()
    victim.end_at_signals()
    flmem = command.Flmem(options.build)
    flmem.require("trim")
    tests = os.path.join(os.path.abspath(options.build), "tests")
    killat = os.path.join(tests, "killat")
    chosen = (interpreters() if options.targets == "interpreters"
              else targets(os.path.join(tests, "victims"), options.allocators.split(",")))
    usable = [entry for entry in chosen if not entry.missing]
    if not usable:
        skip("no target can be run here")
    share = -(-options.runs // len(usable))
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        done = list(pool.map(lambda entry: kill_target(entry, flmem, killat, options, share), usable))
    rows = [(one.entry.name, one.entry.allocator, f"{one.wall_s * 1e3:.1f}", one.counts["killed"],
             one.counts["stopped at"], one.counts["ended before"], one.interruptions, len(one.problems))
            for one in done]
    bad = sum(len(one.problems) for one in done)
    killed = sum(one.counts["killed"] + one.counts["stopped at"] for one in done)
    report.table(("target", "allocator", "call ms", "killed", "killed at a stop", "ended before",
                  "EINTR", "problems"), rows)
    for entry in chosen:
        if entry.missing:
            print(f"SKIP: {entry.name}, {entry.allocator}: {entry.missing}")
    print(f"flmem was killed {killed} times; {bad} problems")
    sys.exit(1 if bad or not killed else 0)


if __name__ == "__main__":
    main()
