#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
The output of `flmem aggregate` has the same bits whatever the order of the clients, where each file
has its tensors, the format, the chunks and the threads. In the current directory, which is empty:

    bit_identity.py FLMEM [CASES [SEED [FIRST]]]

Cases are drawn from the seed. A failure names its seed, its number and its command line.
"""
import json
import os
import random
import sys

import numpy

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

from harness import checkpoints, tensors  # noqa: E402
from harness.aggregate_calls import content, run  # noqa: E402

CASES, SEED, FIRST = (int(word) for word in (sys.argv[2:] + ["100", "20261123", "0"][len(sys.argv) - 2:]))
CLIENTS = 5
SIZE = 20000
WEIGHTS = [1, 2, 3, 4, 7]


def exact(seed):
    """Returns multiples of 2^-8 below 1: their weighted sums are exact in float64, in any order."""
    model = {}
    for name, (kind, array) in tensors.sample(seed, SIZE).items():
        if kind in ("F64", "F32", "F16", "BF16"):
            values = numpy.random.default_rng(seed).integers(-127, 128, array.shape) / 256
            array = tensors.from_double(kind, numpy.asarray(values, "f8"))
        model[name] = (kind, array)
    return model


def masked(seed):
    """Returns payloads of secure aggregation."""
    draw = numpy.random.default_rng(seed)
    return {"a": ("I32", draw.integers(-1 << 31, 1 << 31, (SIZE, 31), "i4")),
            "b": ("I64", draw.integers(-1 << 63, (1 << 63) - 1, SIZE * 7, "i8")),
            "c": ("U8", draw.integers(0, 256, 12345, "u1"))}


def shuffled(model, draw):
    names = list(model)
    draw.shuffle(names)
    return {name: model[name] for name in names}


def write_folder(path, model, draw):
    os.mkdir(path)
    files = draw.randrange(1, 5)
    places = {name: f"part-{draw.randrange(files)}.safetensors" for name in model}
    for file in set(places.values()):
        tensors.write(os.path.join(path, file), {name: model[name] for name in model if places[name] == file})
    with open(os.path.join(path, "model.safetensors.index.json"), "w", encoding="ascii") as file:
        json.dump({"metadata": {}, "weight_map": places}, file)


def write(path, model, draw):
    """Writes a model in one of the formats, with the tensors in any order."""
    model = shuffled(model, draw)
    kind = draw.choice(("safetensors", "folder", "pt", "npz"))
    if kind == "npz" and any(one[0] == "BF16" for one in model.values()):
        kind = "safetensors"
    if kind == "safetensors":
        tensors.write(path, model, pad=b" " * draw.randrange(9))
    elif kind == "folder":
        write_folder(path, model, draw)
    elif kind == "pt":
        path += ".pt"
        checkpoints.write(path, model)
    else:
        path += ".npz"
        numpy.savez(path, **{name: array.astype("?") if kind == "BOOL" else array
                             for name, (kind, array) in model.items()})
    return path


# (words of the command line, models, whether the order of the clients may change, whether they have
# weights)
KINDS = (
    (["-a", "fedavg"], tensors.sample, False, True),
    (["-a", "fedavg"], exact, True, True),
    (["-a", "fedavg", "--non-float", "round"], exact, True, False),
    (["-a", "median"], tensors.sample, True, False),
    (["-a", "trimmed-mean", "--trim", "0.25"], tensors.sample, True, False),
    (["-a", "norm-clipped-mean", "--clip-norm", "0.5"], tensors.sample, False, True),
    (["-a", "krum", "--hostile", "1"], tensors.sample, True, False),
    (["-a", "sum"], masked, True, False),
)


def expected_of(number):
    """Returns the output of plain files in the first order, with one thread and one chunk."""
    words, make, _, weighted = KINDS[number]
    models = [make(seed) if make is not tensors.sample else make(seed, SIZE) for seed in range(CLIENTS)]
    names = []
    for client, model in enumerate(models):
        names.append(f"plain-{number}-{client}")
        tensors.write(names[-1], model)
    weights = ["--weights", ",".join(map(str, WEIGHTS))] if weighted else []
    run("-o", "expected", *words, *weights, "--threads", "1", "--chunk", "1G", *names)
    return models, content("expected")


def check_case(number, kept):
    draw = random.Random(SEED * 1000 + number)
    kind = draw.randrange(len(KINDS))
    if kind not in kept:
        kept[kind] = expected_of(kind)
    models, expected = kept[kind]
    words, _, any_order, weighted = KINDS[kind]
    order = list(range(CLIENTS))
    if any_order:
        draw.shuffle(order)
    folder = f"case-{number}"
    os.mkdir(folder)
    names = [write(os.path.join(folder, f"client-{client}"), models[client], draw) for client in order]
    if weighted:
        words = [*words, "--weights", ",".join(str(WEIGHTS[client]) for client in order)]
    words = ["-o", "out.safetensors", *words, "--chunk", str(draw.randrange(1, 70) * draw.choice((1000, 65536))),
             "--threads", str(draw.randrange(1, 17)), *names]
    run(*words)
    if content("out.safetensors") != expected:
        raise SystemExit(f"seed {SEED}, case {number}: other bits: flmem aggregate {' '.join(words)}\n"
                         f"repeat it with: bit_identity.py FLMEM 1 {SEED} {number}")
    for path in names:
        remove(path)
    os.rmdir(folder)


def remove(path):
    if os.path.isdir(path):
        for name in os.listdir(path):
            os.unlink(os.path.join(path, name))
        os.rmdir(path)
    else:
        os.unlink(path)


if __name__ == "__main__":
    found = {}
    for case in range(FIRST, FIRST + CASES):
        check_case(case, found)
    print(f"seed {SEED}: {CASES} cases of {len(found)} kinds have the same bits")
