#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
Measures `flmem detect` and `trim` on a heap of glibc that is larger than this machine's memory: most
of its pages are alike, and the kernel merges them (KSM) while the heap grows. They count in RSS as
any others. Needs root for KSM's settings, which are put back, and some ten minutes for 100 GiB.

    vast.py BUILD [--gib 100] [--rounds 5] [--realtime]

Exit status 1 when a figure is missed, 77 where KSM cannot be had.
"""
import argparse
import json
import os
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.dont_write_bytecode = True
sys.path[:0] = [HERE, os.path.dirname(HERE)]

import figures  # noqa: E402
import stage  # noqa: E402
from harness import command  # noqa: E402

KSM = "/sys/kernel/mm/ksm"
# Settings in the order in which the kernel accepts them: max_page_sharing only changes while no
# page is shared.
FAST = (("max_page_sharing", 1000000), ("pages_to_scan", 50000), ("sleep_millisecs", 1))
STOP, RUN, UNMERGE = 0, 1, 2
CHANGED_KIB = 64
ROOM_MIB = 10 << 10
PATIENCE_S = 300


def ksm(name, value=None):
    with open(os.path.join(KSM, name), "r" if value is None else "w", encoding="ascii") as file:
        return int(file.read()) if value is None else file.write(str(value))


class Merging:
    """Runs KSM at full speed; afterwards restores its settings and switches it off."""

    def __enter__(self):
        self.before = [(name, ksm(name)) for name, _ in FAST]
        for name, value in FAST:
            ksm(name, value)
        ksm("run", RUN)
        return self

    def finish(self):
        """Waits until there is room for the other programs; then stops KSM, which takes a
        processor."""
        deadline = time.monotonic() + PATIENCE_S
        while stage.available_mib() < ROOM_MIB and time.monotonic() < deadline:
            time.sleep(1)
        ksm("pages_to_scan", 0)

    def __exit__(self, *unused):
        ksm("run", UNMERGE)
        for name, value in self.before:
            ksm(name, value)
        ksm("run", STOP)


def detect(tools, flmem, pid, *more):
    timing = tools.time(flmem, "detect", "--pid", str(pid), "--json", *more, keep=True)
    return timing, json.loads(timing.output)["processes"][0]["heap"]


def off(heap, held):
    """Returns (error of the figure of memory in use, error that it claims at most), in MiB."""
    return (abs(heap["in_use_bytes"] - held) / figures.MIB, heap["error_bytes"] / figures.MIB)


def read(tools, flmem, large, rounds):
    """Yields rows about detect."""
    large.say("")
    held = int(large.process.stdout.readline().split()[1])
    fields = ("VmRSS", "VmPTE")
    before = [stage.kibibytes(large.pid, field) for field in fields]
    runs = [detect(tools, flmem, large.pid) for _ in range(rounds)]
    timings = [timing for timing, _ in runs]
    yield figures.of_values("flmem detect --pid", [t.wall_us / figures.MS for t in timings],
                            limit=1000)
    yield figures.peak("peak memory of it", timings, limit=64)
    for budget, heaps in (("1s", [heap for _, heap in runs]),
                          ("10s", [detect(tools, flmem, large.pid, "--budget", "10s")[1]])):
        errors, said = zip(*(off(heap, held) for heap in heaps))
        yield figures.of_values(f"in use, off by, --budget {budget}", errors, unit="MiB",
                                limit=min(said), judged="p99")
        yield figures.of_values(f"in use, said to be off by, --budget {budget}", said, unit="MiB")
    for field, old in zip(fields, before):
        new = stage.kibibytes(large.pid, field)
        yield figures.of_values(f"{field} grew by", [new - old], unit="KiB",
                                limit=CHANGED_KIB if field == "VmRSS" else old / 100)


def trim(tools, flmem, large):
    """Yields rows about one trim, which takes as long as malloc_trim does."""
    timing = tools.time(flmem, "trim", "--pid", str(large.pid), "--json", "--timeout", "60s", keep=True)
    result = json.loads(timing.output)["results"][0]
    yield figures.of_values("flmem trim: the thread was stopped besides malloc_trim",
                            [result["overhead_us"] / figures.MS])
    released = result["released_bytes"] / figures.MIB
    yield figures.of_values("released", [released], unit="MiB")
    yield figures.of_values("predicted in a quarter second, off by",
                            [abs(result["predicted_bytes"] / figures.MIB - released)], unit="MiB")


def main():
    parser = argparse.ArgumentParser(description="A heap that is larger than memory.")
    parser.add_argument("build", help="the build directory, for example build/release")
    parser.add_argument("--gib", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--realtime", action="store_true", help="measure at real-time priority")
    chosen = parser.parse_args()
    if os.geteuid() != 0 or not os.access(KSM, os.W_OK):
        print("SKIP: needs root, and a kernel with KSM")
        return 77
    flmem, tools = command.Flmem(chosen.build).path, stage.Tools(chosen.build)
    with Merging() as merging:
        stage.progress(f"the heap grows to {chosen.gib} GiB")
        with stage.Heap(tools, "vast", chosen.gib << 10) as large:
            merging.finish()
            if chosen.realtime:
                stage.prefer()
            rows = list(read(tools, flmem, large, chosen.rounds))
            rows += trim(tools, flmem, large)
    figures.print_table(rows)
    return 1 if any(row.met is False for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
