#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
The algorithms of `flmem aggregate` against NumPy in float64, in the current directory, which is
empty:

    algorithms.py FLMEM CHECK
"""
import os
import sys

import numpy

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

from harness import aggregations, tensors  # noqa: E402

run = aggregations.run
REAL = ("F64", "F32", "F16", "BF16")


def refused(words, *names):
    message = run("-o", "none.safetensors", *names, status=2)["error"]["message"]
    assert words in message, message
    assert not os.path.exists("none.safetensors") and not os.path.exists("none.safetensors.part")


def sums():
    """Masks that add up to 0 modulo the size of the type disappear."""
    random = numpy.random.default_rng(1)
    kinds = {"I8": "u1", "U8": "u1", "I16": "u2", "U16": "u2", "I32": "u4", "U32": "u4",
             "I64": "u8", "U64": "u8"}
    models, expected = [{}, {}, {}, {}], {}
    for kind, unsigned in kinds.items():
        bits = 8 * numpy.dtype(unsigned).itemsize
        values = random.integers(0, 2**bits, (4, 3001), dtype=unsigned)
        masks = random.integers(0, 2**bits, (4, 3001), dtype=unsigned)
        masks[3] = -(masks[0] + masks[1] + masks[2])
        for model, array in zip(models, values + masks):
            model[kind] = (kind, array.view(tensors.TYPES[kind]))
        expected[kind] = (kind, values.sum(0, dtype=unsigned).view(tensors.TYPES[kind]))
    names = [f"{number}.safetensors" for number in range(4)]
    for name, model in zip(names, models):
        tensors.write(name, model)
    for words in ([], ["--chunk", "64K", "--threads", "3"]):
        run("-o", "out.safetensors", "-a", "sum", *words, *names)
        found, _ = tensors.read("out.safetensors")
        assert all(tensors.same(found[kind], expected[kind]) for kind in kinds)
    refused("does not use weights", "-a", "sum", "--weights", "1,2,3,4", *names)
    for algorithm in ("median", "trimmed-mean"):
        refused("secure aggregation", "-a", algorithm, "--non-float", "round", *names)
    tensors.write("real.safetensors", {"a": models[0]["I32"], "w": ("F32", numpy.ones(3, "f4"))})
    refused("tensor 'w' of 'real.safetensors' is F32", "-a", "sum", "real.safetensors")


CHECKS = (sums,)

if __name__ == "__main__":
    {check.__name__: check for check in CHECKS}[sys.argv[2]]()
