# SPDX-License-Identifier: Apache-2.0
"""
Has a target execute a set-id program while flmem stands at one of its system calls, and checks that
not a byte of that program is changed.

usage: exec.py BUILD [--stops N]

flmem is held at the end of each of the first N system calls from its first ptrace() on
(tests/soak/killat.c). Where it holds a thread that has to execute the program, that happens when it
goes on.
"""
import argparse
import collections
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

from harness import command, proc, report, skip, victim  # noqa: E402

NOBODY = "65534"
WAIT_S = 60  # a bound, not a measurement
HELD_S = 0.2  # limit for an exec that a held thread may delay
CALLS = ("0 ", "34 ")  # read, pause
WHO = ("alone", "main", "other")


def wait_until(condition):
    end = time.monotonic() + WAIT_S
    while not condition():
        if time.monotonic() > end:
            raise proc.Gone("it does not get ready")
        time.sleep(0.005)


def call_of(pid, tid):
    return proc.read(f"/proc/{pid}/task/{tid}/syscall")


def is_waiting(pid, program, threads):
    tids = os.listdir(f"/proc/{pid}/task")
    return (os.readlink(f"/proc/{pid}/exe") == program and len(tids) == threads and
            all(call_of(pid, tid).startswith(CALLS) for tid in tids))


def writable_memory(pid):
    found = []
    with open(f"/proc/{pid}/mem", "rb", 0) as memory:
        for line in proc.read(f"/proc/{pid}/maps").splitlines():
            place, rights = line.split()[:2]
            if "w" in rights:
                start, end = (int(word, 16) for word in place.split("-"))
                memory.seek(start)
                found.append((start, memory.read(end - start)))
    return found


class Round:
    """One target, and one flmem that is held at a place."""

    def __init__(self, who, first, second):
        self.who, self.problems = who, []
        self.running = subprocess.Popen(
            ["setpriv", "--reuid", NOBODY, "--clear-groups", first, who, second],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.pid = self.running.pid
        wait_until(lambda: is_waiting(self.pid, first, 1 if who == "alone" else 2))

    def has_said(self, word, limit_s):
        ready, _, _ = select.select([self.running.stdout], [], [], limit_s)
        return bool(ready) and self.running.stdout.read(1) == word

    def tell(self):
        self.running.stdin.write(b".")
        self.running.stdin.flush()

    def execute(self, window):
        """Executes the program; returns the state of its memory, or None where the held thread
        delays the exec."""
        self.tell()
        if not self.has_said(b"R", HELD_S if window else WAIT_S):
            return None
        wait_until(lambda: call_of(self.pid, self.pid).startswith(CALLS))
        return writable_memory(self.pid)

    def check(self, before):
        """Checks the memory after flmem has ended."""
        if before is None and not self.has_said(b"R", WAIT_S):
            self.problems.append("it has not executed the program")
        elif before not in (None, writable_memory(self.pid)):
            self.problems.append("the memory of the next program has changed")
        if proc.tracers(self.pid):
            self.problems.append("it is traced")
        self.tell()
        if not self.has_said(b"S", WAIT_S):
            self.problems.append(f"the next program ended with {self.running.wait(WAIT_S)}")

    def close(self):
        self.running.kill()
        self.running.wait()
        self.running.stdin.close()
        self.running.stdout.close()


def hold(killat, flmem, one, stop, counts):
    """Tries one place; true if flmem ended before it."""
    words = [*flmem.trim_words(one.pid, "300ms"), "--no-predict"]
    with subprocess.Popen([killat, "--hold", "stop", str(stop), *words], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          env=dict(os.environ, **command.ENVIRONMENT)) as running:
        said = running.stdout.readline().decode(errors="replace").split()
        while said and said[:1] not in (["held"], ["ended"]):
            said = running.stdout.readline().decode(errors="replace").split()
        if said[:1] != ["held"]:
            running.communicate()
            return True
        before = one.execute(int(said[3]))
        running.communicate(b"go on\n")
    counts["held" if before is not None else "went on"] += 1
    one.check(before)
    return False


def sweep(killat, flmem, who, programs, stops):
    counts, problems = collections.Counter(), []
    for stop in range(1, stops + 1):
        one = Round(who, *programs)
        try:
            if hold(killat, flmem, one, stop, counts):
                break
            problems += [f"{who}, place {stop}: {text}" for text in one.problems]
        finally:
            one.close()
    return counts, problems


def copy_programs(tests, directory):
    """Builds the victim that every user may run, and one that runs as root; skips where that is
    impossible."""
    source = os.path.join(tests, "victims", "safe_exec")
    os.chmod(directory, 0o755)
    programs = [os.path.join(directory, name) for name in ("first", "second")]
    for program, mode in zip(programs, (0o755, 0o4755)):
        shutil.copy(source, program)
        os.chmod(program, mode)
    if os.statvfs(directory).f_flag & os.ST_NOSUID:
        skip(f"'{directory}' runs no set-id programs")
    return programs


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build")
    parser.add_argument("--stops", type=int, default=60)
    options = parser.parse_args()
    if os.geteuid():
        skip("needs root, for a set-id program")
    victim.end_at_signals()
    flmem = command.Flmem(options.build)
    flmem.require("trim")
    tests = os.path.join(os.path.abspath(options.build), "tests")
    rows, problems = [], []
    with tempfile.TemporaryDirectory(prefix="flmem-exec-") as directory:
        programs = copy_programs(tests, directory)
        for who in WHO:
            counts, found = sweep(os.path.join(tests, "killat"), flmem, who, programs,
                                  options.stops)
            rows.append((who, counts["held"], counts["went on"], len(found)))
            problems += found
    report.table(("executes", "while flmem was held", "when it went on", "problems"), rows)
    for problem in problems[:10]:
        print(f"PROBLEM: {problem}")
    sys.exit(1 if problems or not sum(row[1] + row[2] for row in rows) else 0)


if __name__ == "__main__":
    main()
