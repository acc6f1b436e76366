#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
Attaching and detaching in a loop, and a flmem that is killed at a random instant of an attach or
a detach: attach.py BUILD [--cycles N] [--kills N] [--stops N] [--seed N]

--stops: also kills it at each of the first N stops of its system calls (killat.c), of an attach and of
a detach; there are some 700 and 1,500.

The target has eight threads that allocate and compare checksums. After each cycle every entry of
its tables is as it was; after each kill another flmem detaches, and all goes on. At the end it prints
for how long a thread was borrowed (aim for attach: 20 ms, p99).
"""
import argparse
import glob
import json
import math
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, ".."))

from harness import SKIPPED, got, proc, pythons  # noqa: E402

VICTIM = os.path.join(HERE, "..", "victims", "sampled", "attached.py")
WAIT_S = 120  # a bound, not a measurement
NOT_SAMPLED, UNSAFE = 5, 6


class Target:
    def __init__(self, python):
        self.process = subprocess.Popen([python, "-B", VICTIM], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)
        self.expect("ready")
        self.files = {}
        self.before = got.Process(self.pid, self.files).state()

    @property
    def pid(self):
        return self.process.pid

    def expect(self, line):
        said = self.process.stdout.readline().strip()
        if said != line:
            raise AssertionError(f"it said {said!r}, not {line!r}; status {self.process.poll()}")

    def check(self, restored):
        self.process.stdin.write("check\n")
        self.process.stdin.flush()
        self.expect("sound")
        wrong = got.check(got.Process(self.pid, self.files), self.before) if restored else ""
        if wrong:
            raise AssertionError(wrong)

    def end(self):
        self.process.kill()
        self.process.wait()


class Flmem:
    def __init__(self, build, folder, target):
        self.killat = os.path.join(build, "tests", "killat")
        self.path = os.path.join(build, "cli", "flmem")
        self.output = os.path.join(folder, "p.prof")
        self.pid = str(target.pid)
        self.stopped_ms = {"attach": [], "detach": []}

    def words(self, verb):
        more = ["-o", self.output, "--force", "--limit", "1MiB", "--interval", "64KiB"]
        return [self.path, "profile", verb, "--json", "--pid", self.pid, "--timeout", "60s",
                *(more if verb == "attach" else [])]

    def run(self, verb, allowed=(0,)):
        done = subprocess.run(self.words(verb), stdin=subprocess.DEVNULL, check=False,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        if done.returncode not in allowed:
            raise AssertionError(f"{verb}: status {done.returncode}: {done.stderr}")
        stopped_us = json.loads(done.stdout)["stopped_us"]
        if stopped_us is not None:
            self.stopped_ms[verb].append(stopped_us / 1000)
        return done.returncode

    def kill(self, verb, after_s):
        """Kills flmem after a delay; true if it had not ended before."""
        with subprocess.Popen(self.words(verb), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL) as run:
            time.sleep(after_s)
            run.kill()
            return run.wait() < 0

    def kill_at(self, verb, stop):
        """Kills flmem at one stop; false if it had ended before."""
        done = subprocess.run([self.killat, str(stop), *self.words(verb)], stdin=subprocess.DEVNULL,
                              check=False, stdout=subprocess.PIPE, text=True)
        last = done.stdout.splitlines()[-1:]
        if not last or last[0].split()[0] not in ("killed", "ended"):
            raise AssertionError(f"killat said {done.stdout!r}")
        return last[0].startswith("killed")

    def settle(self):
        """Waits until no thread samples: the code of a killed flmem may run late."""
        until = time.monotonic() + WAIT_S
        quiet = 0
        while quiet < 3:
            status = self.run("detach", (0, NOT_SAMPLED, UNSAFE))
            quiet = quiet + 1 if status == NOT_SAMPLED else 0
            if time.monotonic() > until:
                raise AssertionError("it stays sampled")
            time.sleep(0.02)


def cycle(target, flmem, count):
    for number in range(count):
        flmem.run("attach")
        if number % 10 == 0:
            target.check(restored=False)
        flmem.run("detach")
        target.check(restored=True)


def kill(target, flmem, count, chance):
    killed = 0
    start = time.monotonic()
    flmem.run("attach")
    took = time.monotonic() - start
    flmem.run("detach")
    for _ in range(count):
        verb = chance.choice(("attach", "attach", "detach"))
        if verb == "detach":
            flmem.run("attach")
        killed += flmem.kill(verb, chance.uniform(0, 1.2 * took))
        target.check(restored=False)
        flmem.settle()
        target.check(restored=True)
    return killed


def kill_at_stops(target, flmem, stops):
    killed = 0
    for verb in ("attach", "detach"):
        for stop in range(1, stops + 1):
            if verb == "detach":
                flmem.run("attach")
            has_killed = flmem.kill_at(verb, stop)
            target.check(restored=False)
            flmem.settle()
            target.check(restored=True)
            if not has_killed:
                break
            killed += 1
    return killed


def created_s(pid):
    """Returns when a process began, in seconds of CLOCK_REALTIME; infinity if it has ended."""
    try:
        ticks = int(proc.read(f"/proc/{pid}/stat").rpartition(")")[2].split()[19])
    except proc.Gone:
        return math.inf
    return time.time() - time.clock_gettime(time.CLOCK_BOOTTIME) + ticks / os.sysconf("SC_CLK_TCK")


def is_flmem(pid):
    try:
        return os.path.basename(os.readlink(f"/proc/{pid}/exe")).startswith("flmem")
    except OSError:
        return False


def remove_libraries(since):
    """Returns files that a killed flmem could not delete: no running flmem began before they were
    written."""
    paths = [path for place in ("/tmp", "/var/tmp", "/dev/shm") for path in glob.glob(f"{place}/.flmem-*.so")]
    running = [created_s(pid) for pid in os.listdir("/proc") if pid.isdigit() and is_flmem(pid)]
    for path in paths:
        try:
            written = os.stat(path).st_mtime
            if since < written and written < min(running, default=math.inf):
                os.unlink(path)
        except FileNotFoundError:
            pass


def print_stopped(verb, values):
    values = sorted(values)
    print(f"{verb}: one thread borrowed for {statistics.median(values):.2f} ms (median), "
          f"{values[int(0.99 * len(values))]:.2f} ms (p99), {values[-1]:.2f} ms at most, of {len(values)}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build")
    parser.add_argument("--cycles", type=int, default=1000)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--stops", type=int, default=0)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    options = parser.parse_args()
    found = [one for one in pythons.every() if one.path]
    if not found or os.uname().machine not in ("x86_64", "aarch64"):
        print("no CPython, or neither x86-64 nor aarch64")
        sys.exit(SKIPPED)
    print(f"seed {options.seed}")
    chance = random.Random(options.seed)
    folder = tempfile.mkdtemp(prefix="flmem-attach-")
    killed = stopped_at = 0
    since = time.time()
    stopped = {"attach": [], "detach": []}
    try:
        for number, python in enumerate(found):
            share = [count // len(found) + (number < count % len(found))
                     for count in (options.cycles, options.kills)]
            if not any(share) and (number or not options.stops):
                continue
            target = Target(python.path)
            try:
                flmem = Flmem(options.build, folder, target)
                cycle(target, flmem, share[0])
                for verb, values in flmem.stopped_ms.items():
                    stopped[verb] += values
                killed += kill(target, flmem, share[1], chance) if share[1] else 0
                stopped_at += kill_at_stops(target, flmem, options.stops) if number == 0 else 0
            finally:
                target.end()
    finally:
        shutil.rmtree(folder)
        remove_libraries(since)
    for verb, values in stopped.items():
        if values:
            print_stopped(verb, values)
    print(f"{options.cycles} cycles, {options.kills} kills ({killed} before it ended), {stopped_at} at a "
          "system call: no problem")


if __name__ == "__main__":
    main()
