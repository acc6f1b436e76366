# SPDX-License-Identifier: Apache-2.0
"""What watching costs: processor time per sample of all processes, beside a recorder with psutil."""
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


def _bare_tick(pids):
    """ms per tick of nothing but the reads that a sample is made of: what the kernel takes."""
    files = [os.open(f"/proc/{pid}/statm", os.O_RDONLY) for pid in pids]
    try:
        before = time.process_time()
        for _ in range(LONG_TICKS - SHORT_TICKS):
            for file in files:
                os.pread(file, 192, 0)
            time.sleep(INTERVAL_S)
        return (time.process_time() - before) * 1000 / (LONG_TICKS - SHORT_TICKS)
    finally:
        for file in files:
            os.close(file)


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
                bare.append(_bare_tick(pids))
            timing = bench.tools.time(*_words(bench, pids, LONG_TICKS, directory))
        yield figures.of_values("flmem watch --record, a sample of 100 processes", ours, limit=0.2)
        yield figures.of_values("recorder with psutil, the same", theirs)
        yield figures.ratio("psutil / flmem", theirs, ours, limit=30)
        yield figures.of_values("bare reads of the counters from Python, the same", bare)
        yield figures.peak("peak memory of flmem watch, 100 processes", [timing], limit=8)
        stage.progress("watch, 1,000 processes")
        with stage.Crowd(1000) as crowd:
            pids = [process.pid for process in crowd.processes]
            yield figures.of_values("a sample of 1,000 processes",
                                    [_flmem_tick(bench, pids, directory)
                                     for _ in range(bench.count(3))])


if __name__ == "__main__":
    sys.exit("part of tests/bench/run")
