# SPDX-License-Identifier: Apache-2.0
"""
What the sampler of `flmem profile run` costs a program: loops that allocate, with and without it in
turn, by the processor time of the loops themselves (their start is not in it).
"""
import json
import os
import random
import subprocess
import tempfile
import time

import figures
import stage
import turns
from figures import MS
from harness import report

ROUNDS = 15
TURNS = 60
PREPARED = {"asleep": "--profile-ready", "listening": "--profile-socket"}
STARTS = 200
HEAPS_MIB = (0, 64, 1024)
PAIRS = 40  # millions of malloc and free in the C loop
OFTEN = "8KiB"  # 64 times as many samples as by default
# Loops; each defines turn(), which takes some 20 ms.
SMALL_OBJECTS = """
def turn():
    rows = []
    for i in range(60000):
        rows.append((i, str(i)))
        if len(rows) > 1000:
            rows = []
"""
NUMPY = """
import numpy
def turn():
    for _ in range(6000):
        a = numpy.empty(2000)
        a[:] = 1
        b = a * 0.5 + 1
"""
# The thresholds are fixed: otherwise the layout of the heap decides where glibc returns memory of
# large tensors and takes it again, and runs without a sampler had 108,000 to 189,000 page faults,
# which differ by more than samples cost. With fixed thresholds there are 2,000.
TORCH = """
import ctypes, torch
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
ctypes.CDLL(None).mallopt(M_TRIM_THRESHOLD, 1 << 30)
ctypes.CDLL(None).mallopt(M_MMAP_THRESHOLD, 32 << 20)
torch.set_num_threads(1)
torch.manual_seed(1)
net = torch.nn.Sequential(torch.nn.Conv2d(3, 16, 3), torch.nn.ReLU(), torch.nn.Flatten(),
                          torch.nn.Linear(16 * 30 * 30, 10))
optimizer = torch.optim.SGD(net.parameters(), 0.01)
def turn():
    updates = []
    for client in range(2):
        for batch in range(4):
            loss = net(torch.rand(16, 3, 32, 32)).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        updates.append({k: v.clone() for k, v in net.state_dict().items()})
    net.load_state_dict({k: sum(u[k] for u in updates) / 2 for k in updates[0]})
"""
TURN_BY_TURN = """
import sys, time
for _ in sys.stdin:
    begin = time.process_time_ns()
    turn()
    print((time.process_time_ns() - begin) // 1000, flush=True)
"""
WHOLE = """
import time
begin = time.process_time_ns()
for _ in range(TURNS):
    turn()
print((time.process_time_ns() - begin) // 1000)
"""


def whole(code, turns):
    """Returns a program that makes so many turns and prints their processor time in us."""
    return code + WHOLE.replace("TURNS", str(turns))


def _loops(bench):
    """Yields (name, command that makes turns, limit in percent, whether it has one thread)."""
    yield "C, 8 threads of malloc and free", [bench.tools.torture, "8", "0.1", "0", "turns"], 15, False
    yield "Python, small objects", [stage.PYTHON, "-c", SMALL_OBJECTS + TURN_BY_TURN], 2, True
    for name, module, code in (("NumPy, arrays of 16 KB", "numpy", NUMPY),
                               ("PyTorch, training and averaging", "torch", TORCH)):
        if subprocess.run([stage.PYTHON, "-c", f"import {module}"], stderr=subprocess.DEVNULL,
                          check=False).returncode:
            stage.progress(f"sample: not measured, as {module} is not there: {name}")
            continue
        yield name, [stage.PYTHON, "-c", code + TURN_BY_TURN], 2, True


def _spent_ms(words):
    done = subprocess.run(words, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, check=True)
    return int(done.stdout.split()[-1]) / MS


def _prepared(bench, option):
    """Returns a prefix of commands: the environment that `start` with this option gives a sampler,
    without its other settings."""
    names = ("LD_PRELOAD", "FLMEM_PROFILE_SOCKET")
    words = [bench.flmem, "start", "--role", "client", option, "--", "printenv", *names]
    values = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=False).stdout.split()
    return ["env"] + [f"{name}={value}" for name, value in zip(names, values)]


def _samples(bench, profile):
    done = subprocess.run([bench.flmem, "profile", "stats", "--json", profile], stdout=subprocess.PIPE, check=True)
    return json.loads(done.stdout)["profile"]["samples"]


def sample(bench):
    """
    Each loop in turn with itself sampled, sampled more often, and with a dormant sampler.
    """
    with tempfile.TemporaryDirectory() as folder:
        profile = os.path.join(folder, "profile")
        run = [bench.flmem, "profile", "run", "--force", "-o", profile]
        prepared = {way: _prepared(bench, option) for way, option in PREPARED.items()}
        yield from _starts(bench, prepared)
        for name, words, limit, pinned in _loops(bench):
            stage.progress(f"sample: {name}")
            ways = {"sampled": run + ["--"], "often": run + ["--interval", OFTEN, "--"], "alone again": []}
            ways.update(prepared)
            took, more, samples = [], {way: [] for way in ways}, {"sampled": [], "often": []}
            for number in range(bench.count(ROUNDS)):
                for way, prefix in ways.items():
                    processor = number % os.cpu_count() if pinned else None
                    us, part = turns.compare(words, prefix + words, TURNS, processor)
                    took.append(us)
                    more[way].append(100 * part)
                    if way in samples:
                        samples[way].append(_samples(bench, profile) / (TURNS + 1))
            yield figures.of_values(f"{name}, a turn alone", [us / MS for us in took])
            yield _more(f"{name}: alone again", more["alone again"], None)
            yield _more(f"{name}: cost of sampling", more["sampled"], limit)
            yield _more(f"{name}: cost of a dormant sampler", more["asleep"], 1)
            yield _more(f"{name}: cost of a dormant sampler with its socket", more["listening"], 1)
            yield from _per_sample(name, report.median(took), more["often"], samples)


def sample_heaps(bench):
    """Measures the cost of sampling beside small and large heaps, with as many live samples as a
    large heap has."""
    order = random.Random(1)
    with tempfile.TemporaryDirectory() as folder:
        run = [bench.flmem, "profile", "run", "--force", "-o", os.path.join(folder, "profile"), "--limit", "256MiB"]
        for name, interval in (("default interval", []), (OFTEN, ["--interval", OFTEN])):
            stage.progress(f"sample-heaps: {name}")
            spent = {(mib, way): [] for mib in HEAPS_MIB for way in ("plain", "sampled")}
            for _ in range(bench.count(ROUNDS)):
                for mib in order.sample(HEAPS_MIB, len(HEAPS_MIB)):
                    words = [bench.tools.torture, "8", str(PAIRS // 8), str(mib)]
                    spent[mib, "plain"].append(_spent_ms(words))
                    spent[mib, "sampled"].append(_spent_ms(run + interval + ["--"] + words))
            ns = {mib: [(b - a) / PAIRS for a, b in zip(spent[mib, "plain"], spent[mib, "sampled"])] for mib in HEAPS_MIB}
            for mib in HEAPS_MIB:
                yield figures.of_values(f"{name}, beside {mib} MiB: a malloc and free", ns[mib], unit="ns")
            alone, beside = ns[HEAPS_MIB[0]], ns[HEAPS_MIB[-1]]
            what = f"{name}, beside {HEAPS_MIB[-1]} MiB to beside none"
            if interval:
                yield figures.of_values(what, [b / a for a, b in zip(alone, beside)], unit="x", limit=1.5)
            else:  # too little for a ratio
                yield figures.difference(what, beside, alone, unit="ns", limit=1)


def _starts(bench, prepared):
    """Measures a program that does nothing, with the environment that it inherits."""
    commands = {"without a sampler": ["env"], "with a dormant sampler": prepared["asleep"],
                "with one and its socket": prepared["listening"]}
    spent = {name: [] for name in commands}
    for _ in range(bench.count(STARTS)):
        for name, prefix in commands.items():
            begin = time.perf_counter()
            subprocess.run(prefix + ["/bin/true"], check=True)
            spent[name].append((time.perf_counter() - begin) * MS)
    for name, values in spent.items():
        yield figures.of_values(f"env and true, {name}", values)


def _more(what, values, limit):
    return figures.of_values(what, values, unit="%", limit=limit)


def _per_sample(name, turn_us, often, samples):
    """Yields the time of one sample, and that of all at the default interval, computed from it: the
    effect of few samples is below a machine's noise."""
    one = [part / 100 * turn_us / count for part, count in zip(often, samples["often"])]
    yield figures.of_values(f"{name}: one sample", one, unit="us")
    yield figures.of_values(f"{name}: all samples, from the cost of one",
                            [100 * us * count / turn_us for us, count in zip(one, samples["sampled"])], unit="%")
