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
import signal
import subprocess
import sys

import numpy

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

from harness import digests, tensors  # noqa: E402

FLMEM = sys.argv[1]


def run(*words, status=0):
    """Returns the JSON object that a call prints."""
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
    assert found["size_bytes"] == sum(array.nbytes for _, array in model.values())
    for one in found["tensors"]:
        kind, array = model[one["name"]]
        assert one["dtype"] == kind and tuple(one["shape"]) == array.shape, one
        assert one["elements"] == array.size and one["size_bytes"] == array.nbytes, one
        assert int(one["crc32c"], 16) == digests.crc32c(array.tobytes()), one
        expect_statistics(kind, array, one)


def sample():
    model = tensors.sample(1, 100)
    model["special"] = ("F32", numpy.array([1, numpy.nan, -numpy.inf, numpy.inf, -3, 0], "f4"))
    model["nothing"] = ("F16", numpy.array([numpy.nan], "f2"))
    model["blocks"] = ("F64", numpy.random.default_rng(2).standard_normal(100001))
    return model


def inspected():
    """Compares with NumPy, also with an odd header, behind which elements are not aligned."""
    model = sample()
    tensors.write("one.safetensors", model)
    tensors.write("two.safetensors", dict(reversed(model.items())), {"a": "b"}, b" ")
    for path in ("one.safetensors", "two.safetensors"):
        found = run("inspect", "--stats", path)["models"][0]
        expect_tensors(model, found)
        assert int(found["files"][0]["crc32c"], 16) == digests.crc32c(content(path))
    tensors.write("none.safetensors", {})
    found = run("inspect", "none.safetensors")["models"][0]
    assert int(found["files"][0]["crc32c"], 16) == digests.crc32c(content("none.safetensors"))


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
        assert int(file["crc32c"], 16) == digests.crc32c(content(file["path"])), file


def same_checksums():
    tensors.write("one.safetensors", tensors.sample(1, 100))
    done = run("-o", "out.safetensors", "one.safetensors")
    found = run("inspect", "out.safetensors")["models"][0]
    assert done["crc32c"] == found["files"][0]["crc32c"]


def memory():
    """Tests a model of 256 MiB, under a limit of 64 MiB for all allocations."""
    tensors.write("large.safetensors", {"w": ("F32", numpy.zeros(64 << 20, "f4"))})
    resource.setrlimit(resource.RLIMIT_DATA, (64 << 20, 64 << 20))
    run("inspect", "--stats", "large.safetensors")
    run("diff", "large.safetensors", "large.safetensors")


def threads():
    """The results of one thread have the same bits as those of more, which work on parts of each tensor."""
    random, one = numpy.random.default_rng(7), {}
    for name, count in ("a", 1500001), ("b", 3), ("c", 1100000), ("d", 0), ("e", 70001):
        one[name] = ("F32", random.standard_normal(count).astype("f4"))
    two = {name: (kind, array * numpy.float32(1.0001)) for name, (kind, array) in one.items()}
    one["a"][1][[5, 1300000]] = numpy.nan, numpy.inf
    tensors.write("one.safetensors", one)
    tensors.write("two.safetensors", two)
    expect_tensors(one, run("inspect", "--stats", "--threads", "2", "one.safetensors")["models"][0])
    for words in (["inspect", "--stats", "one.safetensors"], ["diff", "one.safetensors", "two.safetensors"]):
        status = words[0] == "diff"
        alone = run(*words, "--threads", "1", status=status)
        for count in "2", "3", "32":
            assert run(*words, "--threads", count, status=status) == alone, (words, count)
    distance = numpy.abs(one["c"][1].astype("f8") - two["c"][1])
    assert by_name(alone)["c"]["element_index"] == distance.argmax(), alone
    assert not run("diff", "--threads", "2", "one.safetensors", "one.safetensors")["differing"]


def by_name(found):
    return {one["name"]: one for one in found["differing"]}


def compared():
    """Tests all types that have arithmetic, compared with NumPy; other types by their bytes."""
    one, two = sample(), sample()
    random = numpy.random.default_rng(3)
    for name in ("embed.weight", "layers.0.weight", "layers.0.bias", "layers.1.weight", "blocks"):
        kind, array = two[name]
        values = tensors.to_double(kind, array).copy()
        places = random.integers(0, values.size, 5)
        values.ravel()[places] *= random.uniform(-2, 2, 5)
        two[name] = (kind, tensors.from_double(kind, values))
    two["odd"] = ("U8", numpy.array([0, 1, 2, 3, 250], "u1"))
    two["phase"] = ("C64", numpy.array([1, 1, 2], "c8"))
    tensors.write("one.safetensors", one)
    tensors.write("two.safetensors", dict(reversed(two.items())))
    write_shards("folder", one, 3)
    assert not run("diff", "one.safetensors", "folder")["differing"]
    result = run("diff", "one.safetensors", "two.safetensors", status=1)
    found = by_name(result)
    assert result["tensors"] == len(one) and result["exceeding"] == len(found) == 7, result
    assert found["phase"]["absolute"] is None and found["phase"]["differing"] > 0, found
    for name in found.keys() - {"phase"}:
        a, b = (tensors.to_double(*model[name]).ravel() for model in (one, two))
        distance = numpy.abs(a - b)
        assert found[name]["absolute"] == distance.max(), (name, found[name])
        assert found[name]["element_index"] == distance.argmax(), (name, found[name])
        assert found[name]["differing"] == (a != b).sum(), (name, found[name])
        with numpy.errstate(invalid="ignore"):
            relative = numpy.nanmax(distance / numpy.maximum(abs(a), abs(b)))
        assert numpy.isclose(found[name]["relative"], relative, rtol=1e-15), (name, found[name])
    most = max(one["absolute"] or 0 for one in found.values())
    result = run("diff", "--tolerance", repr(most), "one.safetensors", "two.safetensors", status=1)
    assert result["exceeding"] == 1, result


def corners():
    """Tests differences that doubles would hide, and that no tolerance accepts."""
    large = 2**62
    tensors.write("one.safetensors", {
        "i": ("I64", numpy.array([large, -2**63], "i8")), "u": ("U64", numpy.array([2**64 - 1], "u8")),
        "nan": ("F32", numpy.array([numpy.nan, 1, numpy.inf], "f4")),
        "zero": ("F32", numpy.array([0.0], "f4")), "only": ("F32", numpy.zeros(1, "f4")),
        "shape": ("F32", numpy.zeros((2, 3), "f4")), "type": ("F32", numpy.ones(2, "f4"))})
    tensors.write("two.safetensors", {
        "i": ("I64", numpy.array([large + 1, 2**63 - 1], "i8")),
        "u": ("U64", numpy.array([2**64 - 2], "u8")),
        "nan": ("F32", numpy.array([numpy.nan, numpy.nan, numpy.inf], "f4")),
        "zero": ("F32", numpy.array([-0.0], "f4")), "other": ("F32", numpy.zeros(1, "f4")),
        "shape": ("F32", numpy.zeros((3, 2), "f4")), "type": ("F16", numpy.ones(2, "f2"))})
    result = run("diff", "--tolerance", "1e300", "one.safetensors", "two.safetensors", status=1)
    found = by_name(result)
    assert {name: about["difference"] for name, about in found.items()} == {
        "i": "values", "u": "values", "nan": "values", "only": "only in the first",
        "other": "only in the second", "shape": "shapes", "type": "types"}, found
    assert found["i"]["absolute"] == 2.0**64 and found["i"]["differing"] == 2, found
    assert found["u"]["absolute"] == 1, found
    assert found["nan"]["absolute"] == "infinite" and found["nan"]["differing"] == 1, found
    assert found["type"]["absolute"] == 0, found
    assert {name for name, about in found.items() if about["exceeds"]} == {
        "nan", "only", "other", "shape", "type"}, found


def models():
    """Writes small files for the tests in the shell."""
    tensors.write("one.safetensors", {
        "w": ("F32", numpy.array([[1, 2, numpy.nan], [3, -2, -1]], "f4")),
        "phase": ("C64", numpy.ones(2, "c8"))})
    tensors.write("two.safetensors", {
        "w": ("F32", numpy.array([[1, 2, numpy.nan], [3.5, -2, -1]], "f4")),
        "phase": ("C64", numpy.zeros(2, "c8"))})


def stopped():
    """Ctrl-C ends inspect and diff while they read. The model is a hole of 256 GiB."""
    header = b'{"w":{"dtype":"F64","shape":[34359738368],"data_offsets":[0,274877906944]}}'
    with open("large", "wb") as file:
        file.write(len(header).to_bytes(8, "little") + header)
        file.truncate(8 + len(header) + (256 << 30))
    for words in (["inspect", "large"], ["inspect", "--stats", "large"], ["diff", "large", "large"]):
        with subprocess.Popen([FLMEM, "aggregate", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              text=True) as program:
            while not any(os.path.basename(link) == "large" for link in open_files(program.pid)):
                assert program.poll() is None, program.communicate()
            program.send_signal(signal.SIGINT)
            out, said = program.communicate()
        assert (program.returncode, out) == (7, "") and "stopped before 'large' was" in said, (words, said)


def open_files(pid):
    """Returns the paths of open files; those that are closed meanwhile are left out."""
    for name in os.listdir(f"/proc/{pid}/fd"):
        try:
            yield os.readlink(f"/proc/{pid}/fd/{name}")
        except FileNotFoundError:
            pass


if __name__ == "__main__":
    globals()[sys.argv[2]]()
