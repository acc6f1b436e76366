#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
`flmem aggregate --shard-size`; in the current directory, which is empty:

    shard_checks.py FLMEM CHECK
"""
import json
import os
import random
import signal
import subprocess
import sys

import numpy

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

from harness import tensors  # noqa: E402
from harness.aggregate_calls import FLMEM, call, content, kill_begun, put, refused, run  # noqa: E402

INDEX = "model.safetensors.index.json"


def make_models(scale=1, count=2):
    for i in range(count):
        values = numpy.random.default_rng(i).normal
        tensors.write(f"{i}.safetensors", {
            "large": ("F32", values(size=(scale * 300, 10)).astype("f4")),
            **{f'layer.{n}."a\u00e9"': ("F32", values(size=scale * (n + 1) * 20).astype("f4")) for n in range(9)},
            "half": ("F16", values(size=scale * 77).astype("f2")),
            "steps": ("I64", numpy.array([7], "i8")),
            "none": ("F32", numpy.zeros((0, 3), "f4")),
        }, {"format": "pt"})
    return [f"{i}.safetensors" for i in range(count)]


def read_folder(folder):
    """Returns tensors by their names, found by the index as the transformers package does."""
    index = json.loads(content(f"{folder}/{INDEX}"))
    files = sorted(set(index["weight_map"].values()))
    assert files == [f"model-{i + 1:05}-of-{len(files):05}.safetensors" for i in range(len(files))]
    assert sorted(os.listdir(folder)) == sorted([*files, INDEX]), os.listdir(folder)
    found, total = {}, 0
    for name in files:
        here, notes = tensors.read(f"{folder}/{name}")
        assert notes == {"format": "pt"}, notes
        assert all(index["weight_map"][tensor] == name for tensor in here)
        found.update(here)
        total += sum(array.nbytes for _, array in here.values())
    assert index["metadata"] == {"total_size": total}
    assert set(found) == set(index["weight_map"])
    return found, files


def same(found, path):
    want = tensors.read(path)[0]
    assert set(found) == set(want)
    for name, (kind, array) in want.items():
        assert found[name][0] == kind and found[name][1].tobytes() == array.tobytes(), name
        assert found[name][1].shape == array.shape, name


def split():
    names = make_models()
    one = run("-o", "one", *names)
    for size in (1, 1000, 2000, 4000, 1 << 40):
        folder = f"s{size}"
        got = run("-o", folder + "/" * (size == 1000), "--shard-size", str(size), *names)
        found, files = read_folder(folder)
        same(found, "one")
        assert got["crc32c"] == one["crc32c"]
        assert got["output_bytes"] == sum(os.path.getsize(f"{folder}/{name}") for name in os.listdir(folder))
        for name in files:
            here = tensors.read(f"{folder}/{name}")[0]
            assert len(here) == 1 or sum(array.nbytes for _, array in here.values()) <= size
        run("-o", "again", folder)
        run("-o", "alone", "one")
        assert content("again") == content("alone")
    assert len(files) == 1
    os.mkdir("empty")
    assert call("convert", "-q", "--dtype", "f16", "--shard-size", "2KB", "-o", "empty", "one").returncode == 0
    assert call("convert", "-q", "--dtype", "f16", "-o", "half", "one").returncode == 0
    same(read_folder("empty")[0], "half")


def reference():
    """Checks that the package safetensors reads the files."""
    import safetensors.numpy
    names = make_models()
    run("-o", "one", *names)
    run("-o", "many", "--shard-size", "2000", *names)
    want = safetensors.numpy.load_file("one")
    for name in set(json.loads(content(f"many/{INDEX}"))["weight_map"].values()):
        for tensor, array in safetensors.numpy.load_file(f"many/{name}").items():
            assert array.tobytes() == want.pop(tensor).tobytes()
    assert not want


def refusals():
    """Checks that existing files stay, and that a failure leaves nothing."""
    names = make_models()
    size = ["--shard-size", "2000"]
    os.mkdir("full")
    put("full/mine", b"1")
    refused("exists and is not an empty folder", "-o", "full", *size, *names)
    put("file", b"2")
    refused("exists and is not an empty folder", "-o", "file", *size, *names)
    assert content("full/mine") == b"1" and content("file") == b"2"
    refused("name a folder without such a suffix", "-o", "x.safetensors", *size, *names)
    refused("name a folder without such a suffix", "-o", "x.npz", *size, *names)
    os.mkdir("other.part")
    put("other.part/mine", b"3")
    refused("is not from an unfinished aggregation", "-o", "other", *size, *names)
    os.mkdir("loading.part")
    for name in (f"{INDEX}.part", "model-00001-of-00009.safetensors", "model-00001-of-00002.safetensors"):
        put("loading.part/" + name, b"" if name.startswith(INDEX) else b"4")
    refused("is not from an unfinished aggregation", "-o", "loading", *size, *names)
    assert content("loading.part/model-00001-of-00009.safetensors") == b"4"
    assert content("loading.part/model-00001-of-00002.safetensors") == b"4"
    os.symlink("full", "link.part")
    refused("is not from an unfinished aggregation", "-o", "link", *size, *names)
    assert os.listdir("other.part") == ["mine"] and os.listdir("full") == ["mine"]
    os.mkdir("begun.part")
    run("-o", "begun", *size, *names)
    tensors.write("nan", {"w": ("F32", numpy.array([1, numpy.nan], "f4")), "x": ("F32", numpy.zeros(9, "f4"))})
    refused("has a NaN", "-o", "out", "--shard-size", "8", "nan")
    tensors.write("many", {f"t{i}": ("F32", numpy.zeros(1, "f4")) for i in range(501)})
    refused("give a larger --shard-size", "-o", "out", "--shard-size", "4", "many")
    tensors.write("empty", {})
    refused("'empty' contains no tensor", "-o", "out", *size, "empty")
    assert not [name for name in os.listdir(".") if name.startswith("out")], os.listdir(".")


def crashes():
    """Checks that a run killed at any instant and continued gives the same files, and never an
    incomplete folder."""
    names = make_models(4000)
    run("-o", "want", *names)
    words = ["-o", "out", "--shard-size", "100KB", "--chunk", "64KiB", "--threads", "2", *names]
    done = kills = 0
    chosen = random.Random(5)
    while not done:
        program = subprocess.Popen([FLMEM, "aggregate", "-q", *words, "--resume"], stderr=subprocess.PIPE, text=True)
        try:
            said = program.communicate(timeout=chosen.uniform(0, 0.02) * (1 + kills // 20))[1]
            assert program.returncode == 0, said
            done = 1
        except subprocess.TimeoutExpired:
            program.send_signal(signal.SIGKILL)
            program.communicate()
            kills += 1
            if os.path.exists("out"):
                read_folder_after_kill()
                done = 1
    same(read_folder("out")[0], "want")
    assert not os.path.exists("out.part")


def read_folder_after_kill():
    """Checks that the journal is removed last."""
    journal = f"out/{INDEX}.part.journal"
    if os.path.exists(journal):
        os.unlink(journal)


def renamed():
    """A crash between the renames of the index and of the folder leaves an index in the unfinished one."""
    names = make_models(400)
    words = ["-o", "out", "--shard-size", "10KB", *names]
    run(*words)
    files = {name: content(f"out/{name}") for name in os.listdir("out")}
    for more in ([], ["--resume"]):
        os.rename("out", "out.part")
        put(f"out.part/{INDEX}.part.journal", b"")
        run(*words, *more)
        assert {name: content(f"out/{name}") for name in os.listdir("out")} == files


def resized():
    """Shards of another size, left by a killed run, are not part of the result."""
    names = make_models(4000)
    run("-o", "want", *names)
    kill_begun(f"out.part/{INDEX}", "-o", "out", "--shard-size", "100KB", "--chunk", "64KiB", *names)
    left = [name for name in os.listdir("out.part") if name.endswith(".safetensors")]
    put("out.part/model-00001-of-00002.bin", b"")
    run("-o", "out", "--shard-size", "1MB", *names)
    os.unlink("out/model-00001-of-00002.bin")
    same(read_folder("out")[0], "want")
    assert left and not set(left) & set(os.listdir("out")), left


if __name__ == "__main__":
    globals()[sys.argv[2]]()
