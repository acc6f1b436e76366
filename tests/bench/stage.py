# SPDX-License-Identifier: Apache-2.0
"""The means of the measurements: the built helpers, timed commands and the target."""
import collections
import contextlib
import mmap
import os
import subprocess
import sys
import time

from harness import command, victim

HERE = os.path.dirname(os.path.abspath(__file__))
PYTHON = "/usr/bin/python3"  # the interpreter that Debian's PyTorch belongs to
TARGET_THREADS = 20

Timing = collections.namedtuple("Timing", "wall_us peak_bytes status output errors")


class Failed(Exception):
    """Raised when a measured command did not do its work."""


@contextlib.contextmanager
def busy_processors():
    """Runs as many programs that only compute as there are processors."""
    running = [subprocess.Popen([PYTHON, "-c", "while True: pass"])
               for _ in range(os.cpu_count())]
    try:
        yield
    finally:
        for one in running:
            one.kill()
            one.wait()


def memory_folder():
    """Returns a folder in memory, so that no disk is measured; None: use the folder of temporary
    files."""
    return os.environ.get("FLMEM_BENCH_DIR") or ("/dev/shm" if os.access("/dev/shm", os.W_OK) else None)


def touch_memory(gib):
    """
    A virtual machine gives memory that nobody uses back to its host (balloon, free page reporting), and gets it back
    page by page: that is most of the time of a program that fills memory, and depends on what ran before. So as much is
    filled and freed just before each measurement that needs it, at most half of what is available.
    """
    block = bytes(16 << 20)
    with open("/proc/meminfo", encoding="ascii") as file:
        available = next(int(line.split()[1]) << 10 for line in file if line.startswith("MemAvailable:"))
    with mmap.mmap(-1, max(len(block), min(gib << 30, available // 2)), mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as memory:
        for _ in range(len(memory) // len(block)):
            memory.write(block)


class Tools:
    """Builds the C programs of this folder, and the victim with large heaps, into BUILD/bench."""

    def __init__(self, build):
        directory = os.path.join(os.path.abspath(build), "bench")
        os.makedirs(directory, exist_ok=True)
        self.gauge = os.path.join(directory, "gauge.so")
        self.stopwatch = os.path.join(directory, "stopwatch")
        self._compile("gauge.c", self.gauge, "-shared", "-fPIC", "-pthread")
        self._compile("stopwatch.c", self.stopwatch)
        self.counters = os.path.join(directory, "counters")
        self._compile("counters.c", self.counters)
        self.allocating = os.path.join(directory, "allocating")
        self._compile("allocating.c", self.allocating, "-pthread")
        self.torture = os.path.join(directory, "torture")
        self._compile("torture.c", self.torture, "-pthread")
        self.bareput = os.path.join(directory, "bareput")
        self._compile("bareput.c", self.bareput, "-Wl,--no-as-needed", "-lmicrohttpd")
        self.plaincopy = os.path.join(directory, "plaincopy")
        self._compile("plaincopy.c", self.plaincopy, "-pthread")
        self.diskways = os.path.join(directory, "diskways")
        self._compile("diskways.c", self.diskways, "-pthread", *self._ring_flags())
        self.heaps = os.path.join(directory, "heaps")
        self._compile("../victims/heaps/heaps.c", self.heaps, "-pthread", "-Wno-use-after-free")

    @staticmethod
    def _ring_flags():
        """Returns whether liburing can be used; without it the benchmark of io_uring is skipped."""
        words = [os.environ.get("CC", "cc"), "-E", "-include", "liburing.h", "-x", "c", "-"]
        found = not subprocess.run(words, check=False, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode
        return ["-Wl,--no-as-needed", "-luring"] if found else []

    @staticmethod
    def _compile(source, output, *flags):
        words = [os.environ.get("CC", "cc"), "-std=gnu11", "-D_GNU_SOURCE", "-O2", "-Wall", "-Wextra",
                 *flags, "-o", output, os.path.join(HERE, source)]
        if subprocess.run(words, check=False).returncode:
            raise SystemExit("bench: cannot build its helpers")

    def time(self, *words, keep=False, any_status=False):
        """Runs a command once; its standard output is kept or discarded."""
        reader, writer = os.pipe()
        try:
            done = subprocess.run(
                [self.stopwatch, str(writer), *words], pass_fds=(writer,), check=False,
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE if keep else subprocess.DEVNULL,
                stderr=subprocess.PIPE, timeout=command.HANG_S)
        finally:
            os.close(writer)
            with os.fdopen(reader) as file:
                line = file.read().split()
        errors = done.stderr.decode(errors="replace").strip()
        if len(line) != 3:
            raise Failed(f"{' '.join(words)}: {errors}")
        wall_ns, peak_kib, status = map(int, line)
        if status and not any_status:
            raise Failed(f"{' '.join(words)} ended with status {status}: {errors}")
        output = (done.stdout or b"").decode(errors="replace")
        return Timing(wall_ns / 1000, peak_kib * 1024, status, output, errors)


class Target(victim.Victim):
    """target.py as a running process."""

    def __init__(self, tools):
        super().__init__([PYTHON, os.path.join(HERE, "target.py"), tools.gauge])

    def ask(self, *words):
        """Sends a command; returns its answer, a number."""
        self.say((" ".join(map(str, words)) + "\n").encode())
        answer = self.process.stdout.readline()
        if not answer:
            raise Failed(f"the target died: {self.errors()}")
        return int(answer)

    def describe(self):
        with open(f"/proc/{self.pid}/maps", encoding="utf-8") as file:
            mappings = sum(1 for _ in file)
        threads = len(os.listdir(f"/proc/{self.pid}/task"))
        return f"{threads} threads, {mappings} mappings"


class Companion:
    """A program that prints `ready`, and ends with the block that uses it."""

    def __init__(self, *words):
        self.process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True)
        self.pid = self.process.pid
        if not self.process.stdout.readline().startswith("ready"):
            self.__exit__()
            raise Failed(f"{' '.join(words)} did not come up")

    def say(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()


class Heap(Companion):
    """A program whose heap holds so many MiB in this state of tests/victims/heaps/heaps.c."""

    def __init__(self, tools, state, mib):
        super().__init__(tools.heaps, state, str(mib))


class Allocating(Companion):
    """A thread that takes memory and returns it all the time, between begin() and end()."""

    def __init__(self, tools):
        super().__init__(tools.allocating)

    def begin(self, realtime):
        self.say("realtime" if realtime else "usual")

    def end(self):
        """Returns the longest turn in ms."""
        self.say("end")
        longest_ns, turns = map(int, self.process.stdout.readline().split())
        if not turns:
            raise Failed("the allocating thread did not run")
        return longest_ns / 1e6


def available_mib():
    """Returns a figure of this machine's memory."""
    with open("/proc/meminfo", encoding="ascii") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("MemAvailable:")) >> 10


def kibibytes(pid, name):
    """Returns a field of /proc/PID/status."""
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        return next(int(line.split()[1]) for line in file if line.startswith(name + ":"))


class Crowd:
    """Many small processes of mixed kinds; they are ended by their pids."""

    KINDS = (
        ["sleep", "600"],
        ["sh", "-c", "read line"],
        ["cat"],
        ["bash", "-c", "read line"],
        [PYTHON, "-S", "-I", "-c", "import sys; sys.stdin.read()"],
    )

    def __init__(self, count):
        reader, self._writer = os.pipe()  # processes that read it end with the benchmark
        self.processes = []
        try:
            for i in range(count):
                self.processes.append(subprocess.Popen(
                    self.KINDS[i % len(self.KINDS)], stdin=reader, stdout=subprocess.DEVNULL))
        except OSError:
            self.close()
            raise
        finally:
            os.close(reader)
        time.sleep(2)  # until the last process waits

    def close(self):
        os.close(self._writer)
        for process in self.processes:
            process.kill()
        for process in self.processes:
            process.wait()

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.close()


def busy_share(seconds=1.0):
    """Measures the share of all processors that was in use during the block."""
    def read():
        with open("/proc/stat", encoding="ascii") as file:
            ticks = list(map(int, file.readline().split()[1:9]))
        return sum(ticks), ticks[3] + ticks[4]

    total, idle = read()
    time.sleep(seconds)
    total_after, idle_after = read()
    return 1 - (idle_after - idle) / max(1, total_after - total)


def wait_for_quiet(limit_s, below=0.15):
    """Waits until other programs leave the processors alone, for a limited time; returns the
    load."""
    end = time.monotonic() + limit_s
    busy = busy_share()
    while busy > below and time.monotonic() < end:
        busy = busy_share()
    return busy


def prefer():
    """Gives the measurements priority over all other programs of this machine."""
    try:
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(2))
    except PermissionError:
        raise SystemExit("bench: --realtime needs root or CAP_SYS_NICE") from None


def progress(text):
    print(f"bench: {text}", file=sys.stderr, flush=True)
