#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
Compares the release that flmem predicts with the memory that the trim then releases, and checks that
reading a heap does not change it, for heaps in many states.

usage: heaps.py BUILD WHERE...

WHERE is "here", or a Debian suite that tests/worlds/make unpacks. At "here" a PyTorch process is
read, too, where PyTorch is installed. tests/worlds/glibcs.py does the same for releases of
glibc that were built from their sources.
"""
import json
import os
import select
import signal
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..")]

from harness import SKIPPED, command, proc, report, skip  # noqa: E402

STATES = ("fresh", "dense", "top", "fragmented", "pinned", "fastbins", "tcache", "mmapped", "released",
          "arenas", "small-pages")
# Facts about mp_ and the arenas that follow from what the program does, by state.
FACTS = {
    "fresh": {"trim_threshold_bytes": 128 << 10, "mmap_threshold_bytes": 128 << 10,
              "threshold_raised": False, "arenas": 1},
    "top": {"trim_threshold_bytes": 1 << 30, "mmap_threshold_bytes": 128 << 10,
            "threshold_raised": False, "arenas": 1},
    "mmapped": {"threshold_raised": True, "arenas": 1},
    "arenas": {"arena_max": 64, "threshold_raised": False, "arenas": 13},
}
START_S = 120
MAKE_S = 1800  # limit for a slow mirror
NEAR = 4 << 20
SAME_RSS = 64 << 10
# flmem reads a byte of each page below a stack pointer to find out whether the stack has room. That
# maps the zero page, and where a stack crosses a multiple of 2 MiB it takes a page table.
TABLE_OF_THREAD = 4 << 10
OWN_OF_ARENA = 64 << 10  # memory that C libraries and threads take for themselves
PYTHON = "/usr/bin/python3"
TORCH = """
import sys, torch
sizes = (16, 64, 128, 256, 512, 768)
tensors = [torch.ones(sizes[i % 6]) for i in range(100000)]
kept = tensors[::500]
del tensors
print("ready", flush=True)
sys.stdin.read()
"""


class Broken(Exception):
    """Raised when the target did not start."""


def descendants(pid):
    for child in proc.read(f"/proc/{pid}/task/{pid}/children").split():
        yield int(child)
        yield from descendants(int(child))


def sizes(pid):
    """Returns bytes by the names of /proc/PID/status."""
    status = proc.status(pid)
    return {name: int(status[name].split()[0]) * 1024 for name in ("RssAnon", "VmRSS", "VmPTE")}


class Target:
    def __init__(self, argv, program, env=None):
        self.said = []  # lines of the target before it was ready
        self.process = subprocess.Popen(argv, env=env, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE)
        try:
            ready, _, _ = select.select([self.process.stdout], [], [], START_S)
            line = self.process.stdout.readline() if ready else b""
            while line and not line.startswith(b"ready"):
                self.said.append(line.decode().strip())
                line = self.process.stdout.readline()
            if not line:
                raise Broken(f"{argv} does not come up")
            self.pid = self._find(program)
            self._settle()
        except BaseException:
            self.close()
            raise

    def _find(self, program):
        """Returns the pid as seen from outside; the target may run in its own pid namespace."""
        for pid in (self.process.pid, *descendants(self.process.pid)):
            if os.path.basename(proc.read(f"/proc/{pid}/cmdline").split("\0")[0]) == program:
                return pid
        raise Broken(f"no {program} below {self.process.pid}")

    def _settle(self):
        """
        Waits until the target has finished its work after that line and is blocked in its next read.
        The limit is a bound, not a measurement. A thread that waits for a processor also does nothing.
        """
        before = None
        for _ in range(3000):
            now = proc.activity(self.pid)
            states = {fields["State"][0] for _, fields in proc.each_status(self.pid)}
            if now and now == before and states == {"S"}:
                return
            before = now
            time.sleep(0.02)
        raise Broken("it does not come to rest")

    def held(self):
        """Returns the bytes of the blocks that the target holds, which it prints itself."""
        self.process.stdin.write(b"\n")
        self.process.stdin.flush()
        ready, _, _ = select.select([self.process.stdout], [], [], START_S)
        words = self.process.stdout.readline().split() if ready else []
        if not words or words[0] != b"held":
            raise Broken("it does not answer any more")
        return int(words[1])

    def close(self):
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()


def look(flmem, pid, words=(), same_rss=SAME_RSS, tells_all=True):
    """Returns (problems of reading alone, the heap that was read or None). With an allocator that
    does not report all, some figures are unknown."""
    before = sizes(pid)
    status, stdout, stderr, _ = flmem.run("detect", "--pid", str(pid), "--json", *words)
    after = sizes(pid)
    if status != 0:
        return [f"detect ended with status {status}: {stderr.strip()[:300]}"], None
    process = json.loads(stdout)["processes"][0]
    heap, rss = process["heap"], process["memory"]["rss_bytes"]
    classes = process["verdict"]["bytes"]
    problems = []
    total = sum(classes[name] for name in classes if name not in ("unknown", "error_bytes"))
    if abs(total - rss) > rss // 50:
        problems.append(f"the classes add up to {total}, RSS is {rss}")
    if tells_all and classes["unknown_bytes"] > rss // 50:
        problems.append(f"{classes['unknown_bytes']} bytes of {rss} are of no known class")
    if heap["trimmable_bytes"] is None:
        problems.append(f"detect does not know: {heap['unknown']}")
    if abs(after["VmRSS"] - before["VmRSS"]) > same_rss:
        problems.append(f"RSS changed from {before['VmRSS']} to {after['VmRSS']}")
    threads = len(os.listdir(f"/proc/{pid}/task"))
    if after["VmPTE"] > before["VmPTE"] * 1.01 + threads * TABLE_OF_THREAD:
        problems.append(f"page tables grew from {before['VmPTE']} to {after['VmPTE']}")
    return problems, heap


def compare(target, state, heap):
    """Compares the report about the heap with what the program knows of it."""
    if heap["in_use_bytes"] is None:
        return []
    held = target.held()
    problems = [f"{name} is {heap[name]}, not {value}" for name, value in FACTS.get(state, {}).items()
                if heap[name] != value]
    if abs(heap["in_use_bytes"] - held) > heap["arenas"] * OWN_OF_ARENA:
        problems.append(f"{heap['in_use_bytes']} bytes are said to be in use, the program holds {held}")
    return problems


def trim(flmem, pid):
    """Trims; returns (predicted bytes, released bytes, problems)."""
    before = sizes(pid)["RssAnon"]
    result = flmem.trim(pid)
    released = before - sizes(pid)["RssAnon"]
    predicted = result.result.get("predicted_bytes")
    if not result.touched:
        return predicted, released, [f"not trimmed: {result.reason}"]
    if predicted is None:
        return predicted, released, [f"not predicted: {result.result['unknown']}"]
    if abs(predicted - released) > max(released // 50, NEAR):
        return predicted, released, [f"said {predicted} bytes, released {released}"]
    return predicted, released, []


def run_one(flmem, where, name, argv, program, trimmed=True):
    """Returns the line of the table; a program without a name for malloc_trim is only read."""
    predicted = released = None
    try:
        target = Target(argv, program)
    except (Broken, OSError) as error:
        print(f"PROBLEM: {where}, {name}: {error}")
        return (where, name, "-", "-", "-", 1)
    try:
        problems, heap = look(flmem, target.pid)
        if heap and name in STATES:
            problems += compare(target, name, heap)
        if trimmed:
            predicted, released, more = trim(flmem, target.pid)
            problems += more
    finally:
        target.close()
    for problem in problems:
        print(f"PROBLEM: {where}, {name}: {problem}")
    if predicted is None:
        return (where, name, "-", "-" if released is None else released >> 10, "-", len(problems))
    return (where, name, predicted >> 10, released >> 10, (predicted - released) >> 10,
            len(problems))


def has_torch():
    return subprocess.run([PYTHON, "-c", "import torch"], check=False,
                          stderr=subprocess.DEVNULL).returncode == 0


def here(flmem, victims):
    rows = [run_one(flmem, "here", state, [os.path.join(victims, "heaps"), state], "heaps")
            for state in STATES]
    if has_torch():
        rows.append(run_one(flmem, "here", "PyTorch", [PYTHON, "-c", TORCH], "python3"))
    else:
        print("SKIP: PyTorch: not installed")
    return rows


def world(flmem, victims, suite):
    """Returns rows, or the reason why there are none."""
    done = subprocess.run([os.path.join(HERE, "make"), suite], stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, check=False, timeout=MAKE_S)
    said = (done.stdout.decode().strip().splitlines() or ["no reason given"])[-1]
    if done.returncode == SKIPPED:
        return said.split(": ", 2)[-1]
    if done.returncode != 0:
        raise SystemExit("tests/worlds/make failed")
    if not os.path.exists(os.path.join(victims, "heaps-portable")):
        return "the program for other C libraries is built on x86-64 only"
    enter = [os.path.join(HERE, "enter"), said, victims, "/tmp/victims/heaps-portable"]
    return [run_one(flmem, suite, state, [*enter, state], "heaps-portable") for state in STATES]


def main():
    if len(sys.argv) < 3:
        print(__doc__.strip().splitlines()[3], file=sys.stderr)
        sys.exit(2)
    signal.signal(signal.SIGTERM, lambda *unused: sys.exit(1))  # so that targets are ended
    flmem = command.Flmem(sys.argv[1])
    victims = os.path.join(os.path.abspath(sys.argv[1]), "tests", "victims", "heaps")
    rows, absent = [], []
    for where in sys.argv[2:]:
        found = here(flmem, victims) if where == "here" else world(flmem, victims, where)
        if isinstance(found, str):
            absent.append(f"{where}: {found}")
        else:
            rows += found
    if not rows:
        skip("; ".join(absent))
    report.table(("where", "heap", "said KiB", "released KiB", "apart", "problems"), rows)
    for reason in absent:
        print(f"SKIP: {reason}")
    bad = sum(row[-1] for row in rows)
    worst = max((abs(row[4]) for row in rows if row[4] != "-"), default=0)
    print(f"{len(rows)} heaps: {bad} problems, at worst {worst} KiB apart")
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
