# SPDX-License-Identifier: Apache-2.0
"""
Reads and trims, from outside, processes that run in another world: another Debian with its own C
library and Python, in its own mount, pid and user namespaces. Kills flmem in the middle, too.

usage: run.py BUILD [--trims N] [--kills N] WORLD...

A world is a Debian suite, which tests/worlds/make unpacks. N are counts for each target.
"""
import argparse
import json
import os
import random
import select
import signal
import subprocess
import sys
from dataclasses import dataclass

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, ".."), os.path.join(HERE, "..", "soak")]

from harness import SKIPPED, command, proc, report, skip, victim  # noqa: E402
import entries  # noqa: E402
import kill  # noqa: E402
import trimming  # noqa: E402

MAKE_S = 1800  # limit for a slow mirror
RELEASED_MIN = 16 << 20  # part of the 64 MB that the target frees before each call
VICTIMS = os.path.join(HERE, "..", "victims")
PYTHON = ["/usr/bin/python3", "/tmp/victims/safe_python.py", "heap"]
BARE = "import os; os.write(1, b'ready %d\\n' % os.getpid())\nwhile True: pass"
CODE = ["/usr/bin/python3", "/tmp/victims/safe_python_code.py"]
# Prints facts as the target itself sees them, to be compared with flmem's.
FACTS = """
import glob, json, os, platform
mapped = {line.split()[-1] for line in open("/proc/self/maps") if "/" in line}
print(json.dumps({
    "libc": os.confstr("CS_GNU_LIBC_VERSION").split()[1],
    "libc_path": next(name for name in mapped if os.path.basename(name).startswith("libc")
                      and os.path.basename(name)[4] in ".-"),
    "python": platform.python_version(),
    "jemalloc": os.path.realpath(glob.glob("/usr/lib/*-linux-gnu/libjemalloc.so.2")[0]),
}))
"""


class Absent(Exception):
    """Raised when the world cannot be made on this machine."""


@dataclass
class World:
    name: str
    root: str
    libc: str = ""
    libc_path: str = ""
    python: str = ""
    jemalloc: str = ""

    @property
    def wrapper(self):
        return [os.path.join(HERE, "enter"), self.root, VICTIMS]

    def learn(self):
        done = subprocess.run(self.wrapper + ["/usr/bin/python3", "-c", FACTS], check=False,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE)
        if done.returncode != 0:
            raise Absent("it cannot be entered: " + last_line(done.stderr))
        for name, value in json.loads(done.stdout).items():
            setattr(self, name, value)


def last_line(output):
    return (output.decode(errors="replace").strip().splitlines() or ["no reason given"])[-1]


def make(name):
    """Unpacks the world if needed; raises Absent with the reason."""
    done = subprocess.run([os.path.join(HERE, "make"), name], stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, check=False, timeout=MAKE_S)
    said = last_line(done.stdout)
    if done.returncode == SKIPPED:
        raise Absent(said.split(": ", 2)[-1])
    if done.returncode != 0:
        raise Absent("tests/worlds/make failed")
    world = World(name, said)
    world.learn()
    return world


def descendants(pid):
    for child in proc.read(f"/proc/{pid}/task/{pid}/children").split():
        yield int(child)
        yield from descendants(child)


class WorldVictim(victim.Victim):
    """A victim in another world. `pid` is that of the target, seen from outside; `process` is the
    outermost process of its world."""

    def __init__(self, argv, **options):
        super().__init__(argv, **options)
        try:
            self.pid = self._outer_pid()
        except BaseException:
            self.close()
            raise

    def _outer_pid(self):
        for pid in descendants(self.process.pid):
            if proc.status(pid)["NSpid"].split()[1:] == [str(self.inner_pid)]:
                return pid
        raise RuntimeError(f"no process {self.inner_pid} in the world of {self.argv}")

    def refill(self):
        """Makes the target use and free memory again."""
        self.say(b"\n")
        ready, _, _ = select.select([self.process.stdout], [], [], victim.PROGRESS_S)
        if not ready or self.process.stdout.readline() != b"filled\n":
            raise RuntimeError(f"the target did not refill its heap: {self.problems()}")


class ComputingVictim(WorldVictim):
    """Returns the processor time as progress, since the program does not count rounds."""

    @property
    def rounds(self):
        return proc.user_ticks(self.pid)


@dataclass
class WorldEntry(entries.Entry):
    wrapper: tuple = ()
    victim: type = WorldVictim

    def start(self):
        return self.victim(self.argv, wrapper=self.wrapper, refill=self.refill,
                           blocks=self.blocks)


def targets(world):
    """Yields two targets: one is the first process of its pid namespace, as in most containers, one
    is not."""
    init = ["/bin/sh", "-c", '"$@"; exit $?', "init"]
    jemalloc = ["/usr/bin/env", f"LD_PRELOAD={world.jemalloc}"]
    return [
        WorldEntry(f"{world.name}, first process", PYTHON, wrapper=world.wrapper),
        WorldEntry(f"{world.name}, with an init", jemalloc + init + PYTHON, "jemalloc",
                   wrapper=world.wrapper),
    ]


def code_targets(world):
    """Yields Pythons in each state in which code can be run in them; their collector is run."""
    bare = ["/usr/bin/python3", "-c", BARE]
    cases = [WorldEntry(f"{world.name}, {name}", CODE + [mode], wrapper=world.wrapper)
             for name, mode, expect in entries.CODE_CASES if expect == entries.TRIM]
    cases.append(WorldEntry(f"{world.name}, computes without any library", bare, needs_room=True,
                            wrapper=world.wrapper, victim=ComputingVictim))
    for case in cases:
        case.steps, case.code, case.expect = ("--gc",), entries.TRIM, entries.EITHER
    return cases


class Running(trimming.Running):
    """A target that has something to release before every call, unless code is run in it."""

    def __init__(self, entry):
        super().__init__(entry)
        self.released = []
        self.stopped_us = []

    def refill(self):
        if not self.entry.steps:
            self.victim.refill()

    def trim(self, flmem):
        self.refill()
        trim = super().trim(flmem)
        if self.entry.steps:
            return
        if not trim.touched:
            return
        self.released.append(trim.result["released_bytes"])
        self.stopped_us.append(trim.result["stopped_us"])
        if self.released[-1] < RELEASED_MIN:
            self.tally.problems.append(f"it released only {self.released[-1]} bytes")


def compare(what, found, wanted):
    return [] if found == wanted else [f"detect: {what} is {found!r}, not {wanted!r}"]


def detect(flmem, world, running):
    """Returns false statements of `flmem detect`."""
    status, stdout, stderr, _ = flmem.run("detect", "--pid", str(running.victim.pid), "--json")
    if status != 0:
        return [f"detect ended with status {status}: {stderr.strip()[:500]}"]
    process = json.loads(stdout)["processes"][0]
    found = {one["name"]: one for one in process["allocators"] or []}
    problems = compare("Python", (process["python"] or {}).get("version"), world.python)
    problems += compare("what serves malloc",
                        [name for name, one in found.items() if one["serves_malloc"]],
                        [running.entry.allocator])
    glibc = found.get("glibc", {})
    problems += compare("glibc", glibc.get("version"), world.libc)
    problems += compare("glibc's path", glibc.get("path"), world.libc_path)
    if running.entry.allocator == "jemalloc":
        problems += compare("jemalloc's path", found.get("jemalloc", {}).get("path"),
                            world.jemalloc)
    return problems + judge(process, running.entry.allocator)


def judge(process, allocator):
    """Checks that the arenas of every Python, and of glibc's heap, are read, and that the classes
    add up to RSS."""
    arenas = process["python"]["arenas_bytes"]
    problems = [] if arenas and not process["python"]["error_bytes"] else \
        [f"detect: Python's arenas are {process['python']}"]
    classes = process["verdict"]["bytes"]
    total = sum(value for name, value in classes.items() if name not in ("unknown", "error_bytes"))
    problems += compare("the sum of the classes", total, process["memory"]["rss_bytes"])
    if allocator == "glibc" and process["verdict"]["class"] is None:
        problems.append(f"detect: no verdict: {process['verdict']}")
    return problems


def kill_often(flmem, running, count):
    """Returns (how often flmem was killed, problems)."""
    target = kill.Target(running.entry, running.victim)
    rng = random.Random(f"{kill.SEED} {running.entry.name}")
    target.calibrate(flmem)
    for _ in range(count):
        if target.problems:
            break
        running.refill()
        kill.kill_after_delay(flmem, target, rng)
    return target.counts["killed"], target.problems


def run_target(flmem, world, entry, options):
    """Returns the line of the table, and problems."""
    running = Running(entry)
    tally = running.tally
    killed = 0
    try:
        if not entry.steps:
            tally.problems += detect(flmem, world, running)
        for _ in range(options.trims):
            running.trim(flmem)
        if options.kills:
            killed, problems = kill_often(flmem, running, options.kills)
            tally.problems += problems
        running.finish()
    except (proc.Gone, OSError, RuntimeError) as error:
        tally.problems.append(f"it is gone: {error!r} {running.victim.problems()}")
    finally:
        running.victim.close()
    if running.released:
        middle = f"{report.median(running.released) / (1 << 20):.0f}"
        stopped = f"{report.median(running.stopped_us) / 1000:.1f}"
    else:
        middle = stopped = "-"
    found = tally.verdict()
    if tally.no_room:
        print(f"SKIP: {entry.name}, {entry.allocator}: {tally.no_room}", flush=True)
    for problem in found[:5]:
        print(f"PROBLEM: {entry.name}, {entry.allocator}: {problem}", flush=True)
    return (entry.name, world.libc, world.python, entry.allocator, tally.outcomes["trimmed"],
            tally.outcomes["refused"], middle, stopped, killed, len(found))


def try_replaced(flmem, world):
    """Returns problems with a program in which a function that starts threads has been replaced."""
    with subprocess.Popen(world.wrapper + ["/usr/bin/python3", "/tmp/victims/safe_replaced.py", "pthread_create"],
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            if process.stdout.readline() != b"ready\n":
                return ["it does not start"]
            pid = list(descendants(process.pid))[-1]
            status, stdout, _, _ = flmem.run("trim", "--pid", str(pid), "--gc", "--timeout", "1s", "--json")
            problems = [] if "the code of pthread_create() in the C library" in stdout else \
                [f"it is not refused: status {status}, {stdout[-500:]}"]
            process.stdin.write(b"\n")
            process.stdin.flush()
            if not select.select([process.stdout], [], [], victim.PROGRESS_S)[0] or \
                    process.stdout.readline() != b"go on\n":
                problems.append("it does not go on")
            return problems
        finally:
            process.kill()


def run_replaced(flmem, world):
    """Runs a world's part with a replaced function; the result is that of run_target()."""
    problems = try_replaced(flmem, world)
    for problem in problems:
        print(f"PROBLEM: {world.name}, replaced pthread_create: {problem}", flush=True)
    return (f"{world.name}, replaced pthread_create", world.libc, world.python, "glibc", 0, int(not problems), "-", "-",
            0, len(problems))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build")
    parser.add_argument("worlds", nargs="+", metavar="WORLD")
    parser.add_argument("--trims", type=int, default=20)
    parser.add_argument("--kills", type=int, default=10)
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *unused: sys.exit(1))  # so that targets are ended
    flmem = command.Flmem(options.build)
    flmem.require("trim")
    flmem.require("detect")
    rows, absent = [], []
    for name in options.worlds:
        try:
            world = make(name)
        except Absent as reason:
            absent.append(f"{name}: {reason}")
            continue
        rows += [run_target(flmem, world, entry, options)
                 for entry in targets(world) + code_targets(world)]
        rows.append(run_replaced(flmem, world))
    if not rows:
        skip("; ".join(absent))
    report.table(("target", "glibc", "Python", "allocator", "trimmed", "refused", "median MiB",
                  "stopped ms", "killed", "problems"), rows)
    for reason in absent:
        print(f"SKIP: {reason}")
    bad = sum(row[-1] for row in rows)
    print(f"{sum(row[4] for row in rows)} trims and {sum(row[8] for row in rows)} kills of flmem "
          f"in {len(rows)} targets of {len(options.worlds) - len(absent)} worlds: {bad} problems")
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
