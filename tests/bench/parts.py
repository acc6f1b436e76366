# SPDX-License-Identifier: Apache-2.0
"""The measurements. Each part is a generator of rows; values to be compared are measured in
turn."""
import json
import os
import shutil
import tempfile
import time

import attaching
import averaging
import collecting
import costing
import cuda
import diskways
import exchanging
import fetching
import figures
import large
import profilers
import reading
import recovering
import sampling
import stage
import transferring
import truth
import watching
from figures import MS

PEAK_MIB = 16
JOBS = os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "fixtures", "jobs")
# (state of tests/victims/heaps/heaps.c, MiB, name)
LARGE_HEAPS = (("pinned", 4096, "4 GiB of small chunks"),
               ("many", 8192, "8 GiB of chunks of 32 to 128 bytes"))
LARGE_PEAK_MIB = 64
GDB_TOO_OLD = "Couldn't write extended state"
WINDOW_PAUSE_S = 0.02


class Bench:
    """State that the parts share."""

    def __init__(self, flmem, tools, options):
        self.flmem = flmem.path
        self.tools = tools
        self.debugger = options.gdb
        self.rounds = options.rounds
        self.sizes, self.ways = options.sizes, options.ways
        self.realtime = options.realtime
        self._target = None

    @property
    def target(self):
        """Returns the target, which is started when a part first needs it."""
        if not self._target:
            stage.progress("starting the target")
            self._target = stage.Target(self.tools)
            stage.progress(f"target: {self._target.describe()}")
        return self._target

    def close(self):
        if self._target:
            self._target.close()

    def count(self, default):
        return self.rounds or default

    def trim(self, *more):
        """Returns (timing, result) of one trim of the target."""
        timing = self.tools.time(self.flmem, "trim", "--pid", str(self.target.pid), "--json",
                                 "--no-predict", *more, keep=True)
        return timing, json.loads(timing.output)["results"][0]

    def gdb(self):
        """Makes the same call with the debugger. Before version 14 it cannot make any where the
        processor has AMX: it attaches, reads all symbols, fails to write the registers and
        detaches."""
        timing = self.tools.time(self.debugger, "-p", str(self.target.pid), "-batch", "-ex",
                                 "call (int)malloc_trim(0)", any_status=True)
        if timing.status and GDB_TOO_OLD not in timing.errors:
            raise stage.Failed(f"{self.debugger}: {timing.errors}")
        return timing

    def settle(self):
        """Trims until nothing is left to release."""
        for _ in range(3):
            self.trim()


def inside_us(result):
    return sum(step["took_us"] for step in result["steps"])


def _trim_rounds(bench):
    """Returns timings in us outside the allocator, by program and by whether there is much to
    release."""
    trims = {"full": [], "spent": []}
    debuggers = {"full": [], "spent": []}
    for number in range(bench.count(8)):
        stage.progress(f"trim: round {number + 1}")
        bench.target.ask("refill")
        trims["full"].append(bench.trim())
        debuggers["spent"].append(bench.gdb())
        bench.target.ask("refill")
        debuggers["full"].append(bench.gdb())
        trims["spent"].append(bench.trim())
    return trims, debuggers


def trim(bench):
    """Runs flmem trim and gdb making the same call, in both orders."""
    trims, debuggers = _trim_rounds(bench)
    yield figures.of_values("released by one trim",
                            [r["released_bytes"] / figures.MIB for _, r in trims["full"]],
                            unit="MiB")
    for state, name in (("full", "much to release"), ("spent", "nothing left")):
        inside = [inside_us(result) for _, result in trims[state]]
        typical = sorted(inside)[len(inside) // 2]
        ours = [(t.wall_us - inside_us(r)) / MS for t, r in trims[state]]
        called = [t for t in debuggers[state] if not t.status]
        theirs = [(t.wall_us - (typical if called else 0)) / MS for t in debuggers[state]]
        name_of_call = "gdb without it" if called else "gdb until it fails to make the call"
        yield figures.of_values(f"malloc_trim itself, {name}", [us / MS for us in inside])
        yield figures.of_values(f"flmem trim without malloc_trim, {name}", ours)
        yield figures.of_values(f"{name_of_call}, {name}", theirs)
        yield figures.ratio(f"gdb / flmem, {name}", theirs, ours, limit=100)
        yield figures.of_values(f"borrowed thread stopped, without malloc_trim, {name}",
                                [r["overhead_us"] / MS for _, r in trims[state]])
    yield figures.peak("peak memory of flmem trim", [t for s in trims.values() for t, _ in s],
                       limit=PEAK_MIB)


def _watched(bench):
    """Makes one trim whose thread is observed; returns the ms away besides the call, None when
    flmem took another thread."""
    planned = bench.trim("--dry-run")[1]["thread"]
    if bench.target.ask("watch", planned):
        return None
    _, result = bench.trim()
    away_us = bench.target.ask("watched") / 1000
    if not away_us or result["thread"] != planned:
        return None
    return (away_us - inside_us(result)) / MS


def _stall_ms(window_s=0.005):
    """Returns the longest time that this thread had no processor, or its clock stood, in a few
    ms."""
    longest, last = 0, time.monotonic()
    end = last + window_s
    while last < end:
        now = time.monotonic()
        longest, last = max(longest, now - last), now
    return longest * 1000


def stop(bench):
    """Measures by two clocks how long the borrowed thread is away besides the allocator's call."""
    bench.settle()
    stage.progress("stop")
    own, seen = [], []
    for _ in range(bench.count(100)):
        own.append(bench.trim()[1]["overhead_us"] / MS)
        seen.append(_watched(bench))
    away = [ms for ms in seen if ms is not None]
    if len(away) < len(seen):
        stage.progress(f"stop: {len(seen) - len(away)} runs borrowed another thread than the "
                       "watched one")
    if not away:
        raise stage.Failed("no run borrowed the thread that was watched")
    yield figures.of_values("borrowed thread held, idle machine", own, limit=0.15)
    yield figures.of_values("the same, its p99", own, limit=0.3, judged="p99")
    yield figures.of_values("the same, seen from inside", away, limit=0.3, judged="p99")
    yield figures.of_values("pause of a thread that flmem does not touch, meanwhile",
                            [_stall_ms() for _ in own])
    with stage.busy_processors():
        busy = [bench.trim()[1]["overhead_us"] / MS for _ in range(bench.count(100))]
    yield figures.of_values("borrowed thread held, all processors busy", busy, limit=1,
                            judged="p99")


def _window(bench, work, realtime):
    """Returns the longest gap in ms of the spinning thread while work() runs, and how long that
    took."""
    if bench.target.ask("spin", int(realtime)):
        return None, 0
    start = time.monotonic()
    work()
    took = time.monotonic() - start
    gap_ms = bench.target.ask("spun") / 1e6
    time.sleep(WINDOW_PAUSE_S)
    return gap_ms, took


def _gap_windows(bench, realtime):
    """Measures gaps without a trim and with one, in turn, in windows of the same length."""
    without, during = [], []
    for _ in range(bench.count(60)):
        gap, took = _window(bench, bench.trim, realtime)
        if gap is None:
            return None
        during.append(gap)
        without.append(_window(bench, lambda length=took: time.sleep(length), realtime)[0])
    return without, during


def gap(bench):
    """Measures what a thread that only reads the clock notices."""
    bench.settle()
    modes = ((False, "plain"), (True, "real-time"))
    for realtime, name in modes[1 if bench.realtime else 0:]:
        stage.progress(f"gap: {name}")
        windows = _gap_windows(bench, realtime)
        if not windows:
            stage.progress("gap: no right to use real-time priority, left out")
            continue
        without, during = windows
        yield figures.of_values(f"longest gap of a spinning thread ({name}), no trim", without)
        yield figures.of_values(f"longest gap of a spinning thread ({name}), trim", during)
        yield figures.difference(f"trim adds to its longest gap ({name})", during, without,
                                 limit=1.0)
    stage.progress("gap: gdb")
    stopped = [_window(bench, bench.gdb, False)[0] for _ in range(bench.count(5))]
    yield figures.of_values("longest gap of that thread, gdb", stopped)


def _commands(bench, rows, count):
    """Times several commands in turn: (name, words, limit in ms)."""
    timings = {name: [] for name, _, _ in rows}
    for _ in range(count):
        for name, words, _ in rows:
            timings[name].append(bench.tools.time(*words))
    for name, words, limit in rows:
        yield figures.of_values(name, [t.wall_us / MS for t in timings[name]], limit=limit)
        if words[0] == bench.flmem:
            yield figures.peak(f"peak memory of {name}", timings[name], limit=PEAK_MIB)


def start(bench):
    """Times commands that read nothing but their options, beside a program that does nothing."""
    stage.progress("start")
    yield from _commands(bench, [
        ("/bin/true (for comparison)", ["/bin/true"], None),
        ("flmem --version", [bench.flmem, "--version"], 3),
        ("flmem env --role client", [bench.flmem, "env", "--role", "client"], 3),
    ], bench.count(200))


def detect(bench):
    """Times detect of one process without its heap and with it, and of all processes with 500
    more."""
    words = [bench.flmem, "detect", "--pid", str(bench.target.pid)]
    stage.progress("detect --pid")
    yield from _commands(bench, [("flmem detect --pid --no-heap", words + ["--no-heap"], 5),
                                 ("flmem detect --pid", words, 30)], bench.count(100))
    stage.progress("detect --all")
    with stage.Crowd(500):
        yield from _commands(
            bench, [("flmem detect --all, 500 processes more", [bench.flmem, "detect", "--all"],
                     300)], bench.count(20))


def _fill(folder, count):
    """Writes the files of a large repository: one in a hundred is part of a job."""
    for index in range(count):
        parts = os.path.join(folder, f"{index // 100:03d}")
        os.makedirs(parts, exist_ok=True)
        suffix = ("txt", "json", "py", "yaml", "sh", "c", "md", "png")[index % 8]
        with open(os.path.join(parts, f"{index}.{suffix}"), "w", encoding="ascii") as file:
            file.write(f"# file {index}\n" + "nothing of interest: here\n" * 80)
        if index % 100 == 0:
            shutil.copytree(os.path.join(JOBS, "fedavg-default"), os.path.join(parts, "job"))


def recommend(bench):
    """Times recommend on the jobs of the tests, and on a folder of 10,000 files."""
    stage.progress("recommend")
    with tempfile.TemporaryDirectory() as folder:
        _fill(folder, 10000)
        for what, words, limit_ms, count in (
                ("flmem recommend, the jobs of the tests", [JOBS], 200, 40),
                ("flmem recommend, 10,000 files", [folder], 2000, 10)):
            timings = [bench.tools.time(bench.flmem, "recommend", *words)
                       for _ in range(bench.count(count))]
            yield figures.of_values(what, [t.wall_us / MS for t in timings], limit=limit_ms)
            yield figures.peak(f"peak memory of {what}", timings, limit=64)


def _read_heap(bench, pid, name, limit, peak_limit):
    """Reads one heap over and over; returns the time, and the effect on the process."""
    words = [bench.flmem, "detect", "--pid", str(pid)]
    before = [stage.kibibytes(pid, field) for field in ("VmRSS", "VmPTE")]
    timings = [bench.tools.time(*words) for _ in range(bench.count(20))]
    after = [stage.kibibytes(pid, field) for field in ("VmRSS", "VmPTE")]
    yield figures.of_values(f"flmem detect --pid, {name}", [t.wall_us / MS for t in timings],
                            limit=limit)
    yield figures.peak(f"peak memory of it, {name}", timings, limit=peak_limit)
    for field, old, new in zip(("RSS", "page tables"), before, after):
        yield figures.of_values(f"{field} of the target grew by it, {name}", [new - old],
                                unit="KiB", limit=64 if field == "RSS" else old / 100)


def heap(bench):
    """Times reading the state of the heap, of the usual target and of large heaps of small
    chunks."""
    stage.progress("heap: PyTorch")
    bench.target.ask("refill")
    yield from _read_heap(bench, bench.target.pid, "PyTorch", 30, PEAK_MIB)
    for state, mib, name in LARGE_HEAPS:
        stage.progress(f"heap: {name}")
        if stage.available_mib() < mib * 5 // 4:
            stage.progress(f"heap: not measured, as there is too little memory: {name}")
            continue
        with stage.Heap(bench.tools, state, mib) as large:
            yield from _read_heap(bench, large.pid, name, 1000, LARGE_PEAK_MIB)


ALL = {"recommend": recommend, "start": start, "trim": trim, "stop": stop, "gap": gap,
       "detect": detect, "watch": watching.watch, "heap": heap,
       "gc": collecting.collect, "attach": attaching.attach, "cuda": cuda.cuda, "average": averaging.average,
       "disk": diskways.disk,
       "fetch": fetching.fetch, "exchange": exchanging.exchange, "cost": costing.cost,
       "recover": recovering.recover,
       "transfer": transferring.transfer,
       "sample": sampling.sample, "sample-heaps": sampling.sample_heaps, "profilers": profilers.compare,
       "read-profile": reading.read, "truth": truth.truth,
       "large": large.large, "small-tensors": large.small_tensors}
