# SPDX-License-Identifier: Apache-2.0
"""
Memory of `flmem aggregate` for models of 8B and 70B parameters, whose values are generated: in files
where the disk has room for them, otherwise while they are read. And what a small tensor costs.
"""
import json
import os
import resource
import struct
import subprocess
import tempfile

import figures
import stage

PEAK_MIB, SPREAD = 64, 1.1
PARAMETERS_8B = 8_031_000_000
# Four inputs and the output, in the first type for which the disk has room.
FILES = 5
TYPES = (("bf16", 2), ("fp8-e4m3", 1))
MARGIN = 100_000_000  # bytes left for other files meanwhile
CLIENTS_8B, CLIENTS_70B = 4, 2
FEW, MANY, COST_RATIO = 10_000, 100_000, 2


def _aggregate(bench, *words):
    done = subprocess.run([bench.flmem, "aggregate", *words, "--json"], check=False,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode:
        raise stage.Failed(f"flmem aggregate {' '.join(words)}: {done.stderr}")
    return json.loads(done.stdout)


def _generated(bench, shape, clients):
    stage.progress(f"large: {clients} x {shape}, made while they are read, verified and not written")
    inputs = [f"generate:{shape}?seed=1&client={number + 1}" for number in range(clients)]
    return _aggregate(bench, "-o", "verify:", *inputs)


def _from_files(bench, folder, shape, dtype, clients):
    inputs = [os.path.join(folder, f"client-{number + 1}.safetensors") for number in range(clients)]
    for number, name in enumerate(inputs):
        stage.progress(f"large: writing {shape}, {dtype}, {number + 1} of {clients}")
        _aggregate(bench, "generate", "--shape", shape, "--dtype", dtype, "--seed", "1",
                   "--client", str(number + 1), "-o", name)
    stage.progress(f"large: {clients} x {shape}, from files")
    return _aggregate(bench, "-o", os.path.join(folder, "out.safetensors"), *inputs)


def _medium(bench):
    """Yields (name, result) of models in files, where the disk has room for them."""
    with tempfile.TemporaryDirectory(dir=os.environ.get("FLMEM_BENCH_DIR")) as folder:
        room = os.statvfs(folder)
        for dtype, width in TYPES:
            needed = FILES * width * PARAMETERS_8B + MARGIN
            if room.f_bavail * room.f_frsize >= needed:
                yield (f"{CLIENTS_8B} x 8B, files, {dtype}",
                       _from_files(bench, folder, "llama-3.1-8b", dtype, CLIENTS_8B))
                return
            stage.progress(f"large: SKIP: {folder} has no {needed / 1e9:.0f} GB for files of 8B models "
                           f"in {dtype} (FLMEM_BENCH_DIR)")


def large(bench):
    """Measures peaks for models that do not fit into memory."""
    generated = {what: _generated(bench, shape, clients) for what, shape, clients in
                 (("4 x ResNet-18, generated", "resnet18", CLIENTS_8B),
                  ("4 x 8B, generated", "llama-3.1-8b", CLIENTS_8B),
                  ("2 x 70B, generated", "llama-3.1-70b", CLIENTS_70B))}
    for what, result in (*generated.items(), *_medium(bench)):
        yield figures.of_values(f"anonymous memory, {what}",
                                [result["peak_anon_bytes"] / figures.MIB], unit="MiB", limit=PEAK_MIB)
    yield figures.of_values("anonymous memory, 70B / 8B, generated",
                            [generated["2 x 70B, generated"]["peak_anon_bytes"] /
                             generated["4 x 8B, generated"]["peak_anon_bytes"]], unit="x", limit=SPREAD)


def _write_small_tensors(path, count):
    header = {f"t.{number}": {"dtype": "F32", "shape": [3], "data_offsets": [number * 12, number * 12 + 12]}
              for number in range(count)}
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + bytes(12 * count))


def _processor_us(bench, *words):
    """Measures time in user mode, on which other programs act only through the caches."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    _aggregate(bench, *words)
    return (resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before) * 1e6


def small_tensors(bench):
    """Measures processor time per tensor and input; ten times as many tensors must cost ten times
    as much."""
    costs = {}
    with tempfile.TemporaryDirectory() as folder:
        name, out = os.path.join(folder, "in"), os.path.join(folder, "out")
        for count in (FEW, MANY):
            _write_small_tensors(name, count)
            stage.progress(f"small tensors: {count}")
            costs[count] = [_processor_us(bench, "-o", out, *[name] * 4) / count / 4
                            for _ in range(bench.count(5))]
            yield figures.of_values(f"per tensor and input, {count} tensors", costs[count], unit="us")
    yield figures.of_values("per tensor, 100,000 / 10,000 tensors",
                            [min(costs[MANY]) / min(costs[FEW])], unit="x", limit=COST_RATIO)
