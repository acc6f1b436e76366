# SPDX-License-Identifier: Apache-2.0
"""
The ways in which `flmem aggregate` could read and write (tests/bench/diskways.c): threads with pread and
pwrite, as it does, and io_uring, both through the page cache and with O_DIRECT.
"""
import os
import subprocess
import tempfile
import zlib

import averaging
import figures
import stage

SKIPPED = 77
NAMES = {"threads": "pread and pwrite", "threads-direct": "pread and pwrite, O_DIRECT",
         "threads-direct-output": "pread and pwrite, output O_DIRECT",
         "threads-direct-input": "pread and pwrite, inputs O_DIRECT",
         "threads-direct-input-huge": "pread and pwrite, inputs O_DIRECT, huge pages", "uring": "io_uring",
         "uring-direct": "io_uring, O_DIRECT", "uring-direct-output": "io_uring, output O_DIRECT"}


def _checksum(name):
    checksum = 0
    with open(name, "rb") as file:
        while block := file.read(1 << 22):
            checksum = zlib.crc32(block, checksum)
    return checksum


def _possible(bench, output, names):
    """Returns the ways that work here; all of them must write the same bytes."""
    ways, checksums = [], set()
    for way in NAMES:
        stage.progress(f"disk: {NAMES[way]}, once without measuring")
        done = subprocess.run([bench.tools.diskways, way, output, *names], check=False,
                              stderr=subprocess.PIPE, text=True)
        if done.returncode == SKIPPED:
            stage.progress(f"disk: SKIP: {NAMES[way]}: {done.stderr.strip()}")
            continue
        if done.returncode:
            raise stage.Failed(f"diskways {way}: {done.stderr}")
        ways.append(way)
        checksums.add(_checksum(output))
        os.unlink(output)
    if len(checksums) != 1:
        raise stage.Failed("the ways to read and write have different results")
    return ways


def _rounds(bench, ways, output, names, cold):
    seconds = {way: [] for way in ways}
    busy = {way: [] for way in ways}
    for number in range(bench.count(5)):
        first = number % len(ways)
        for way in ways[first:] + ways[:first]:
            stage.progress(f"disk, {'cold' if cold else 'warm'}: round {number + 1}, {NAMES[way]}")
            averaging.make_cold() if cold else averaging.make_warm(names)
            stage.touch_memory(averaging.TOUCHED_GIB)
            before = os.times()
            timing = bench.tools.time(bench.tools.diskways, way, output, *names)
            after = os.times()
            os.unlink(output)
            seconds[way].append(timing.wall_us / 1e6)
            busy[way].append(after.children_user + after.children_system -
                             before.children_user - before.children_system)
    return seconds, busy


def _rows(measured, state):
    seconds, busy = measured
    for way, values in seconds.items():
        yield figures.of_values(f"{NAMES[way]}, {state}", values, unit="s")
        yield figures.of_values(f"its processor time, {state}", busy[way], unit="s")
    for way, values in seconds.items():
        if way != "threads":
            yield figures.ratio(f"{NAMES['threads']} / {NAMES[way]}, {state}", seconds["threads"], values)


def disk(bench):
    """Reads four files of 1 GiB and writes their mean."""
    with tempfile.TemporaryDirectory(dir=os.environ.get("FLMEM_BENCH_DIR")) as folder:
        names = averaging.write_inputs(folder, "disk")
        output = os.path.join(folder, "out")
        ways = _possible(bench, output, names)
        yield from _rows(_rounds(bench, ways, output, names, cold=False), "warm")
        if averaging.make_cold():
            yield from _rows(_rounds(bench, ways, output, names, cold=True), "cold")
        else:
            stage.progress("disk: only root can empty the page cache; no cold runs")
