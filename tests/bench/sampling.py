# SPDX-License-Identifier: Apache-2.0
"""
What the sampler of `flmem profile run` costs a program: loops that allocate, with and without it in
turn, by the processor time of the loop itself (its start is not in it).
"""
import json
import os
import random
import subprocess
import tempfile
import time

import figures
import stage
from figures import MS

ROUNDS = 15
TORCH_ROUNDS = 160  # 5 s
WAYS = ("plain", "sampled", "often", "asleep", "listening")
PREPARED = {"asleep": "--profile-ready", "listening": "--profile-socket"}
STARTS = 200
HEAPS_MIB = (0, 64, 1024)
PAIRS = 40  # millions of malloc and free in the C loop
OFTEN = "8KiB"  # 64 times as many samples as by default
SMALL_OBJECTS = """
import time
begin = time.process_time()
rows = []
for i in range(2700000):
    rows.append((i, str(i)))
    if len(rows) > 1000:
        rows = []
print(int((time.process_time() - begin) * 1e6))
"""
NUMPY = """
import time, numpy
begin = time.process_time()
for _ in range(1080000):
    a = numpy.empty(2000)
    a[:] = 1
    b = a * 0.5 + 1
print(int((time.process_time() - begin) * 1e6))
"""
# Where glibc gives memory of large tensors back and takes it again depends on the layout of the heap: runs alone had
# 108,000 to 189,000 page faults, which differ by more than samples cost. Fixed thresholds leave 2,000.
TORCH = """
import ctypes, time, torch
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
ctypes.CDLL(None).mallopt(M_TRIM_THRESHOLD, 1 << 30)
ctypes.CDLL(None).mallopt(M_MMAP_THRESHOLD, 32 << 20)
torch.set_num_threads(1)
torch.manual_seed(1)
net = torch.nn.Sequential(torch.nn.Conv2d(3, 16, 3), torch.nn.ReLU(), torch.nn.Flatten(),
                          torch.nn.Linear(16 * 30 * 30, 10))
optimizer = torch.optim.SGD(net.parameters(), 0.01)
begin = time.process_time()
for _ in range(ROUNDS):
    updates = []
    for client in range(2):
        for batch in range(4):
            loss = net(torch.rand(16, 3, 32, 32)).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        updates.append({k: v.clone() for k, v in net.state_dict().items()})
    net.load_state_dict({k: sum(u[k] for u in updates) / 2 for k in updates[0]})
print(int((time.process_time() - begin) * 1e6))
"""


def torch_loop(rounds):
    return TORCH.replace("ROUNDS", str(rounds))


def _loops(bench):
    """(name, command, limit in percent)"""
    yield "C, 8 threads of malloc and free", [bench.tools.torture, "8", "5"], 15
    yield "Python, small objects", [stage.PYTHON, "-c", SMALL_OBJECTS], 2
    for name, module, code in (("NumPy, arrays of 16 KB", "numpy", NUMPY),
                               ("PyTorch, training and averaging", "torch", torch_loop(TORCH_ROUNDS))):
        if subprocess.run([stage.PYTHON, "-c", f"import {module}"], stderr=subprocess.DEVNULL,
                          check=False).returncode:
            stage.progress(f"sample: not measured, as {module} is not there: {name}")
            continue
        yield name, [stage.PYTHON, "-c", code], 2


def _spent_ms(words):
    done = subprocess.run(words, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, check=True)
    return int(done.stdout.split()[-1]) / MS


def _prepared(bench, option):
    """A prefix of commands: what `start` with this option gives a sampler, without the other settings that it makes."""
    names = ("LD_PRELOAD", "FLMEM_PROFILE_SOCKET")
    words = [bench.flmem, "start", "--role", "client", option, "--", "printenv", *names]
    values = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=False).stdout.split()
    return ["env"] + [f"{name}={value}" for name, value in zip(names, values)]


def _samples(bench, profile):
    done = subprocess.run([bench.flmem, "profile", "stats", "--json", profile], stdout=subprocess.PIPE, check=True)
    return json.loads(done.stdout)["profile"]["samples"]


def sample(bench):
    """Each loop plain, sampled, sampled more often, and with a dormant sampler, each round in another order."""
    order = random.Random(1)
    with tempfile.TemporaryDirectory() as folder:
        profile = os.path.join(folder, "profile")
        run = [bench.flmem, "profile", "run", "--force", "-o", profile]
        prepared = {way: _prepared(bench, option) for way, option in PREPARED.items()}
        yield from _starts(bench, prepared)
        for name, words, limit in _loops(bench):
            stage.progress(f"sample: {name}")
            spent, count, more = {way: [] for way in WAYS}, 0, 0
            commands = {"plain": words, "sampled": run + ["--"] + words,
                        "often": run + ["--interval", OFTEN, "--"] + words}
            commands.update({way: prefix + words for way, prefix in prepared.items()})
            for _ in range(bench.count(ROUNDS)):
                for way in order.sample(WAYS, len(WAYS)):
                    spent[way].append(_spent_ms(commands[way]))
                    if way == "sampled":
                        count = _samples(bench, profile)
                    elif way == "often":
                        more = _samples(bench, profile)
            plain, sampled, often, asleep, listening = (spent[way] for way in WAYS)
            more -= count
            yield figures.of_values(f"{name}, alone", plain)
            yield _cost(f"{name}: cost of sampling", plain, sampled, limit)
            yield _cost(f"{name}: cost of a dormant sampler", plain, asleep, 1)
            yield _cost(f"{name}: cost of a dormant sampler with its socket", plain, listening, 1)
            yield _per_sample(name, sampled, often, more)
            yield _share(name, plain, sampled, often, count / more)


def sample_heaps(bench):
    """The cost of sampling beside small and large heaps; with many samples that are live, as those of a large heap."""
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
    """A program that does nothing, with what it inherits."""
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


def _cost(what, plain, other, limit):
    """The median of the pairs: both ran within a second."""
    return figures.of_values(what, [100 * (b / a - 1) for a, b in zip(plain, other)], unit="%",
                             limit=limit)


def _per_sample(name, sampled, often, more):
    return figures.of_values(f"{name}: one sample", [(b - a) * MS / more for a, b in zip(sampled, often)], unit="us")


def _share(name, plain, sampled, often, factor):
    """What the samples at the default interval take, from the cost of many: that of few is below a machine's noise."""
    return figures.of_values(f"{name}: all samples, from the cost of one",
                             [100 * (c - b) * factor / a for a, b, c in zip(plain, sampled, often)], unit="%")
