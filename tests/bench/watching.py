# SPDX-License-Identifier: Apache-2.0
"""
What watching costs: processor time per sample of all processes, beside a recorder with psutil, and
what a process notices of it.
"""
import os
import subprocess
import sys
import tempfile
import time

import figures
import stage

HERE = os.path.dirname(os.path.abspath(__file__))
INTERVAL_S = 0.02
TICKS = 200
# time in which processes are opened and the first samples with all their costs are taken
START_S = 0.5
WINDOW_S = 0.5
PAUSE_S = 0.3  # a thread at real-time priority that always runs is stopped for 50 ms in each second


def _words(bench, pids, directory):
    return [bench.flmem, "watch", "--pid", ",".join(map(str, pids)), "--quiet",
            "--interval", f"{INTERVAL_S * 1000:g}ms",
            "--duration", f"{START_S * 2 + INTERVAL_S * TICKS:g}s",
            "--record", os.path.join(directory, f"{len(pids)}.rec")]


def _spent_ms(pid):
    """Returns the processor time of all threads of a process so far: clock_getcpuclockid(3)."""
    return time.clock_gettime(~pid << 3 | 2) * 1000


def _flmem_tick(bench, pids, directory):
    """Returns ms per tick of a running watch: neither its start nor the trends of its summary
    count."""
    with subprocess.Popen(_words(bench, pids, directory), stdout=subprocess.DEVNULL) as process:
        time.sleep(START_S)
        began, before = time.monotonic(), _spent_ms(process.pid)
        time.sleep(INTERVAL_S * TICKS)
        spent = _spent_ms(process.pid) - before
        ticks = (time.monotonic() - began) / INTERVAL_S
    if process.returncode:
        raise stage.Failed(f"flmem watch ended with status {process.returncode}")
    return spent / ticks


def _bare_tick(bench, pids):
    """Returns ms per tick of only the reads that a sample consists of: the kernel's share."""
    output = subprocess.run(
        [bench.tools.counters, str(int(INTERVAL_S * 1e6)), str(TICKS),
         *map(str, pids)], check=True, capture_output=True, text=True)
    return int(output.stdout) / 1e6


def _psutil_tick(pids, directory):
    output = subprocess.run(
        [stage.PYTHON, "-B", os.path.join(HERE, "recorder.py"), str(INTERVAL_S),
         str(TICKS), os.path.join(directory, "psutil.csv"), *map(str, pids)],
        check=True, capture_output=True, text=True)
    return float(output.stdout)


def watch(bench):
    """Compares 100 processes in turn with psutil, then 1,000."""
    if subprocess.run([stage.PYTHON, "-c", "import psutil"], check=False,
                      stderr=subprocess.DEVNULL).returncode:
        raise stage.Failed("not installed: python3-psutil")
    stage.progress("watch")
    ours, theirs, bare = [], [], []
    with tempfile.TemporaryDirectory() as directory:
        with stage.Crowd(100) as crowd:
            pids = [process.pid for process in crowd.processes]
            for _ in range(bench.count(5)):
                ours.append(_flmem_tick(bench, pids, directory))
                theirs.append(_psutil_tick(pids, directory))
                bare.append(_bare_tick(bench, pids))
            timing = bench.tools.time(*_words(bench, pids, directory))
        yield figures.of_values("flmem watch --record, a sample of 100 processes", ours, limit=0.2)
        yield figures.of_values("recorder with psutil, the same", theirs)
        yield figures.ratio("psutil / flmem", theirs, ours, limit=30)
        yield figures.of_values("bare reads of the counters, the same", bare)
        yield figures.difference("flmem watch besides these reads", ours, bare)
        yield figures.ratio("psutil / bare reads", theirs, bare)
        yield figures.peak("peak memory of flmem watch, 100 processes", [timing], limit=8)
        stage.progress("watch, 1,000 processes")
        with stage.Crowd(1000) as crowd:
            pids = [process.pid for process in crowd.processes]
            yield figures.of_values("a sample of 1,000 processes",
                                    [_flmem_tick(bench, pids, directory)
                                     for _ in range(bench.count(3))])
    yield from _noticed(bench)


def _longest_turn(bench, allocating, realtime, watched):
    """Returns the longest turn of the allocating thread in a window, in ms."""
    words = [bench.flmem, "watch", "--pid", str(allocating.pid), "--quiet", "--interval", "10ms",
             "--duration", f"{WINDOW_S}s"]
    time.sleep(PAUSE_S)
    allocating.begin(realtime)
    if watched:
        bench.tools.time(*words)
    else:
        time.sleep(WINDOW_S)
    return allocating.end()


def _noticed(bench):
    """
    Whether a thread that needs the kernel's memory locks all the time is ever made to wait; at
    real-time priority, where that is allowed, other programs do not make it wait.
    """
    realtime = os.geteuid() == 0
    name = "real-time" if realtime else "plain"
    stage.progress(f"watch: what an allocating thread notices ({name})")
    alone, watched = [], []
    with stage.Allocating(bench.tools) as allocating:
        for _ in range(bench.count(10)):
            alone.append(_longest_turn(bench, allocating, realtime, False))
            watched.append(_longest_turn(bench, allocating, realtime, True))
    yield figures.of_values(f"longest turn of an allocating thread ({name}), not watched", alone)
    yield figures.of_values(f"longest turn of an allocating thread ({name}), watched", watched)
    yield figures.difference(f"watching adds to its longest turn ({name})", watched, alone, limit=1)


if __name__ == "__main__":
    sys.exit("part of tests/bench/run")
