# SPDX-License-Identifier: Apache-2.0
"""
For how long `flmem profile attach` and `detach` hold a thread of a Python process at a time, and in all at a first
attach: with idle processors, with processors that other programs use, and with those that the process itself uses.
"""
import contextlib
import json
import os
import subprocess
import tempfile

import figures
import stage
from figures import MS

LIMIT_MS = 20
FIRSTS = 10
# Some threads wait now and then, as a client's do; the others compute without the interpreter's
# lock.
TARGET = """
import sys, threading, time, zlib
block = bytes(32 << 20)
def compute():
    while True:
        zlib.crc32(block)
for _ in range(int(sys.argv[1])):
    threading.Thread(target=compute, daemon=True).start()
print(flush=True)
while True:
    kept = bytearray(1 << 18)
    time.sleep(0.005)
"""


@contextlib.contextmanager
def _target(computing):
    with subprocess.Popen([stage.PYTHON, "-c", TARGET, str(computing)], stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE) as process:
        try:
            process.stdout.readline()
            yield process.pid
        finally:
            process.kill()


class _Holds:
    """Times in ms: the longest hold of each run, and all holds of each first attach."""

    def __init__(self):
        self.attach, self.detach, self.first, self.refused = [], [], [], 0

    def run(self, bench, verb, pid, *more):
        """Returns the result of a verb; None where no thread could be borrowed."""
        timing = bench.tools.time(bench.flmem, "profile", verb, "--json", "--pid", str(pid), "--timeout", "30s",
                                  *more, any_status=True, keep=True)
        result = json.loads(timing.output)
        if timing.status:
            self.refused += 1
            return None
        getattr(self, verb).append(result["longest_stop_us"] / MS)
        return result

    def cycle(self, bench, pid, output):
        result = self.run(bench, "attach", pid, "-o", output, "--force", "--limit", "1MiB")
        if result and result["stops"] > 1:
            self.first.append(result["stopped_us"] / MS)
        if result and not self.run(bench, "detach", pid):
            raise stage.Failed("a process could not be detached")


def _measure(bench, computing):
    holds = _Holds()
    cycles = max(1, bench.count(200) // FIRSTS)
    with tempfile.TemporaryDirectory(dir=stage.memory_folder()) as folder:
        for _ in range(FIRSTS):
            with _target(computing) as pid:
                for _ in range(cycles):
                    holds.cycle(bench, pid, os.path.join(folder, "p.prof"))
    return holds


def _rows(name, holds):
    if holds.refused:
        stage.progress(f"attach: {holds.refused} refused, {name}")
    for verb in ("attach", "detach"):
        yield figures.of_values(f"longest hold of {verb}, {name}", getattr(holds, verb), limit=LIMIT_MS, judged="p99")
    yield figures.of_values(f"all holds of a first attach, {name}", holds.first)


def attach(bench):
    """Yields the time of each hold; a first attach holds a thread four times, and all of them are
    kept."""
    stage.progress("attach: idle")
    yield from _rows("idle", _measure(bench, 0))
    stage.progress("attach: all processors busy")
    with stage.busy_processors():
        yield from _rows("all processors busy", _measure(bench, 0))
    stage.progress("attach: computing")
    yield from _rows("computing on all processors", _measure(bench, os.cpu_count()))
