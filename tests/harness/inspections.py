#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
Checks of `flmem aggregate inspect` and `diff` against NumPy, in the current directory, which is
empty:

    inspections.py FLMEM CHECK
"""
import json
import os
import resource
import subprocess
import sys

import numpy

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

from harness import tensors  # noqa: E402

FLMEM = sys.argv[1]


def run(*words, status=0):
    """The JSON object."""
    done = subprocess.run([FLMEM, "aggregate", *words, "--json"], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode != status:
        raise SystemExit(f"{words}: status {done.returncode}: {done.stdout}{done.stderr}")
    return json.loads(done.stdout)


def content(path):
    with open(path, "rb") as file:
        return file.read()


def expect_statistics(kind, array, found):
    if kind == "C64":
        assert found["statistics"] is None and found["no_statistics"], found
        return
    values, statistics = tensors.to_double(kind, array).ravel(), found["statistics"]
    finite = values[numpy.isfinite(values)]
    assert statistics["nans"] == numpy.isnan(values).sum(), found
    assert statistics["infinities"] == numpy.isinf(values).sum(), found
    if not finite.size:
        assert statistics["min"] is statistics["max"] is statistics["mean"] is None, found
        assert statistics["norm"] == 0, found
        return
    assert statistics["min"] == finite.min() and statistics["max"] == finite.max(), found
    assert numpy.isclose(statistics["mean"], finite.mean(), rtol=1e-12, atol=1e-15), found
    assert numpy.isclose(statistics["norm"], numpy.linalg.norm(finite), rtol=1e-12), found


def expect_tensors(model, found):
    assert [one["name"] for one in found["tensors"]] == sorted(model)
    assert found["tensor_count"] == len(model)
    assert found["parameters"] == sum(array.size for _, array in model.values())
    assert found["bytes"] == sum(array.nbytes for _, array in model.values())
    for one in found["tensors"]:
        kind, array = model[one["name"]]
        assert one["dtype"] == kind and tuple(one["shape"]) == array.shape, one
        assert one["elements"] == array.size and one["bytes"] == array.nbytes, one
        assert int(one["crc32c"], 16) == tensors.crc32c(array.tobytes()), one
        expect_statistics(kind, array, one)


def sample():
    model = tensors.sample(1, 100)
    model["special"] = ("F32", numpy.array([1, numpy.nan, -numpy.inf, numpy.inf, -3, 0], "f4"))
    model["nothing"] = ("F16", numpy.array([numpy.nan], "f2"))
    model["blocks"] = ("F64", numpy.random.default_rng(2).standard_normal(100001))
    return model


def inspected():
    """Also with an odd header, behind which elements are not aligned."""
    model = sample()
    tensors.write("one.safetensors", model)
    tensors.write("two.safetensors", dict(reversed(model.items())), {"a": "b"}, b" ")
    for path in ("one.safetensors", "two.safetensors"):
        found = run("inspect", "--stats", path)["models"][0]
        expect_tensors(model, found)
        assert int(found["files"][0]["crc32c"], 16) == tensors.crc32c(content(path))
    tensors.write("none.safetensors", {})
    found = run("inspect", "none.safetensors")["models"][0]
    assert int(found["files"][0]["crc32c"], 16) == tensors.crc32c(content("none.safetensors"))


def write_shards(folder, model, count):
    os.mkdir(folder)
    where = {}
    for number in range(count):
        name = f"model-{number + 1:05}-of-{count:05}.safetensors"
        part = {key: model[key] for key in list(model)[number::count]}
        where.update(dict.fromkeys(part, name))
        tensors.write(os.path.join(folder, name), part)
    with open(os.path.join(folder, "model.safetensors.index.json"), "w", encoding="utf-8") as file:
        json.dump({"metadata": {}, "weight_map": where}, file)


def shards():
    model = sample()
    write_shards("folder", model, 3)
    found = run("inspect", "--stats", "folder")["models"][0]
    assert found["format"] == "safetensors shards"
    expect_tensors(model, found)
    for file in found["files"]:
        assert int(file["crc32c"], 16) == tensors.crc32c(content(file["path"])), file


def same_checksums():
    tensors.write("one.safetensors", tensors.sample(1, 100))
    done = run("-o", "out.safetensors", "one.safetensors")
    found = run("inspect", "out.safetensors")["models"][0]
    assert done["crc32c"] == found["files"][0]["crc32c"]


def memory():
    """A model of 256 MiB, under a limit of 64 MiB for all that is allocated."""
    tensors.write("large.safetensors", {"w": ("F32", numpy.zeros(64 << 20, "f4"))})
    resource.setrlimit(resource.RLIMIT_DATA, (64 << 20, 64 << 20))
    run("inspect", "--stats", "large.safetensors")


def models():
    """Small files for the tests in the shell."""
    tensors.write("one.safetensors", {
        "w": ("F32", numpy.array([[1, 2, numpy.nan], [3, -2, -1]], "f4")),
        "phase": ("C64", numpy.ones(2, "c8"))})


if __name__ == "__main__":
    globals()[sys.argv[2]]()
