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
SHORT_TICKS = 20
LONG_TICKS = 220
WINDOW_S = 0.5
PAUSE_S = 0.3  # a thread at real-time priority that always runs is stopped for 50 ms in a second


def _words(bench, pids, ticks, directory):
    return [bench.flmem, "watch", "--pid", ",".join(map(str, pids)), "--quiet",
            "--interval", f"{INTERVAL_S * 1000:g}ms",
            "--duration", f"{INTERVAL_S * 1000 * ticks:g}ms",
            "--record", os.path.join(directory, f"{ticks}-{len(pids)}.rec")]


def _flmem(bench, pids, ticks, directory):
    """Processor time in ms of a watch of so many ticks."""
    process = subprocess.Popen(_words(bench, pids, ticks, directory), stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise stage.Failed(f"flmem watch ended with status {process.returncode}")
    return (usage.ru_utime + usage.ru_stime) * 1000


def _flmem_tick(bench, pids, directory):
    """ms per tick, without start and summary."""
    spent = _flmem(bench, pids, LONG_TICKS, directory) - _flmem(bench, pids, SHORT_TICKS, directory)
    return max(0.001, spent / (LONG_TICKS - SHORT_TICKS))


def _bare_tick(bench, pids):
    """ms per tick of nothing but the reads that a sample is made of: what the kernel takes."""
    output = subprocess.run(
        [bench.tools.counters, str(int(INTERVAL_S * 1e6)), str(LONG_TICKS - SHORT_TICKS),
         *map(str, pids)], check=True, capture_output=True, text=True)
    return int(output.stdout) / 1e6


def _psutil_tick(pids, directory):
    output = subprocess.run(
        [stage.PYTHON, "-B", os.path.join(HERE, "recorder.py"), str(INTERVAL_S),
         str(LONG_TICKS - SHORT_TICKS), os.path.join(directory, "psutil.csv"), *map(str, pids)],
        check=True, capture_output=True, text=True)
    return float(output.stdout)


def watch(bench):
    """100 processes in turn with psutil, then 1,000."""
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
            timing = bench.tools.time(*_words(bench, pids, LONG_TICKS, directory))
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
    """Of the allocating thread in a window, in ms."""
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
