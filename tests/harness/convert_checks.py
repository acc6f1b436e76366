#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
Checks of `flmem aggregate convert` against NumPy, in the current directory, which is empty:

    convert_checks.py FLMEM CHECK
"""
import itertools
import json
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import time

import numpy

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

from harness import checkpoints, digests, tensors  # noqa: E402
from harness.file_sizes import size_of  # noqa: E402

FLMEM = sys.argv[1]
NUMBER = int(sys.argv[3]) if len(sys.argv) > 3 else 12
REAL = {"F64", "F32", "F16", "BF16"}


def call(*words):
    return subprocess.run([FLMEM, "aggregate", "convert", *words], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, check=False)


def convert(*words):
    done = call(*words)
    if done.returncode:
        raise SystemExit(f"{words}: status {done.returncode}: {done.stdout}{done.stderr}")
    return done.stdout


def refused(expected, *words):
    done = call(*words)
    assert done.returncode == 2, (words, done)
    assert expected in done.stderr, f"{words}: expected {expected!r} in {done.stderr!r}"


def content(path):
    with open(path, "rb") as file:
        return file.read()


def rounded(model, kind):
    return {name: (kind, tensors.from_double(kind, tensors.to_double(*one)).reshape(one[1].shape))
            if one[0] in REAL - {kind} else one for name, one in model.items()}


def expect(path, model):
    found, _ = tensors.read(path)
    assert set(found) == set(model)
    for name, one in model.items():
        assert tensors.same(found[name], one), name


def types():
    """Tests every type to every other, rounded once; the checksum is that of the file."""
    model = tensors.sample(1, 5000)
    model["special"] = ("F32", numpy.array([1, numpy.inf, -numpy.inf, -0.0, 1e-40], "f4"))
    tensors.write("in", model, {"a": "b"})
    for kind in sorted(REAL):
        text = convert("--dtype", kind.lower(), "-o", "out", "in")
        expect("out", rounded(model, kind))
        assert tensors.read("out")[1] == {"a": "b"}
        assert int(re.search("crc32c ([0-9a-f]{8})", text)[1], 16) == digests.crc32c(content("out")), text
        convert("--dtype", kind.lower(), "-o", "again", "out")
        assert content("again") == content("out")
    convert("-o", "out", "in")
    expect("out", model)
    convert("--dtype", "bf16", "-o", "in", "in")
    expect("in", rounded(model, "BF16"))
    tensors.write("nan", {"w": ("F32", numpy.array([0x7fc12345, 0xff800001], "u4").view("f4"))})
    convert("-o", "out", "nan")
    assert tensors.read("out")[0]["w"][1].tobytes() == tensors.read("nan")[0]["w"][1].tobytes()


def formats():
    """Tests each format to each other one that can represent it."""
    model = tensors.sample(1, 500)
    tensors.write("a.safetensors", model)
    checkpoints.write("a.pt", model, "state_dict")
    convert("-o", "out.safetensors", "--key", "state_dict", "a.pt")
    expect("out.safetensors", model)
    refused("'new.npz' cannot hold tensor 'embed.weight' (BF16)", "-o", "new.npz", "a.safetensors")
    convert("--dtype", "f32", "-o", "out.npz", "a.safetensors")
    with numpy.load("out.npz") as found:
        for name, (_, array) in rounded(model, "F32").items():
            assert found[name].tobytes() == array.tobytes() and found[name].shape == array.shape, name
    convert("--dtype", "f32", "-o", "b.safetensors", "a.safetensors")
    convert("-o", "c.safetensors", "out.npz")
    assert content("b.safetensors") == content("c.safetensors")
    convert("-o", "copy.pt", "--key", "state_dict", "a.pt")
    assert content("copy.pt") == content("a.pt")
    refused("whose pickle has the types; name a .safetensors file", "--dtype", "f64", "-o", "new.pt",
            "--key", "state_dict", "a.pt")
    refused("'a.safetensors' is not a PyTorch checkpoint", "-o", "new.pt", "a.safetensors")
    assert not [name for name in os.listdir() if name.startswith("new")]


def refusals():
    """Tests numbers that do not fit, and invalid command lines; the old output stays."""
    with open("out", "wb") as file:
        file.write(b"old")
    for kind, value in (("f16", 65520), ("bf16", 3.4e38)):
        tensors.write("in", {"w": ("F32", numpy.array([1, numpy.nan, numpy.inf, value], "f4"))})
        refused(f"has a number that is too large for {kind.upper()}: element 3", "--dtype", kind, "-o", "out", "in")
    tensors.write("in", {"w": ("F64", numpy.array([1e39]))})
    refused("has a number that is too large for F32: element 0", "--dtype", "f32", "-o", "out", "in")
    refused("name the file to write", "in")
    refused("name one model after the options, not 2", "-o", "out", "in", "in")
    refused("choose from bf16, f16, f32, f64", "--dtype", "i8", "-o", "out", "in")
    refused("checks means, and a conversion has none", "-o", "verify:", "in")
    refused("cannot read 'missing'", "-o", "out", "missing")
    tensors.write("in", {})
    refused("'in' contains no tensor, so there is nothing to convert", "-o", "out", "in")
    assert content("out") == b"old" and sorted(os.listdir()) == ["in", "out"]


def write_hole(mib):
    """Writes a model with a hole as its numbers."""
    header = b'{"w":{"dtype":"F64","shape":[%d],"data_offsets":[0,%d]}}' % (mib << 17, mib << 20)
    with open("large", "wb") as file:
        file.write(len(header).to_bytes(8, "little") + header)
        file.truncate(8 + len(header) + (mib << 20))


def stopped():
    """After Ctrl-C the old output stays, and what is written is kept for --resume."""
    write_hole(2048)
    with open("out", "wb") as file:
        file.write(b"old")
    with subprocess.Popen([FLMEM, "aggregate", "convert", "--dtype", "f16", "-o", "out", "large"],
                          stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as program:
        while not os.path.exists("out.part") and program.poll() is None:
            pass
        program.send_signal(signal.SIGINT)
        said = program.communicate()[1]
    assert program.returncode == 7 and "stopped before 'out' was complete; continue with --resume" in said, \
        (program.returncode, said)
    assert content("out") == b"old"
    assert sorted(os.listdir()) == ["large", "out", "out.part", "out.part.journal"], os.listdir()


def write_various(mib):
    """Writes tensors of several types that share chunks of the output, and some that fill more than
    one."""
    random = numpy.random.default_rng(7)
    model = {}
    for number in range(mib // 4):
        model[f"a{number}"] = ("F32", random.standard_normal(700001).astype("f4"))
        model[f"b{number}"] = ("F64", random.standard_normal(130003))
        model[f"c{number}"] = ("U8", random.integers(0, 255, 77, "u1"))
    tensors.write("in", model)


def kills():
    """Killed at any instant and resumed, it writes the same bytes; an old output stays meanwhile."""
    write_various(96)
    print("seed", seed := random.randrange(1 << 30))
    random.seed(seed)
    for words in (["-o", "out", "--dtype", "f64"], ["-o", "out.npz", "--dtype", "f16"],
                  ["-o", "folder", "--shard-size", "7M", "--dtype", "f32"]):
        kill_often([*words, "in"], words[1])


def kill_often(words, output):
    began = time.monotonic()
    convert(*words)
    took = time.monotonic() - began
    expected, resumed = all_of(output), 0
    for number in itertools.count():
        if number >= NUMBER and resumed:
            return
        assert number < 20 * NUMBER, "nothing was ever resumed"
        if output == "folder":
            shutil.rmtree(output, ignore_errors=True)  # an existing folder is never replaced
        elif number % 4 == 0:
            with open(output, "wb") as file:
                file.write(b"old")
        with subprocess.Popen([FLMEM, "aggregate", "convert", "--resume", *words],
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as program:
            time.sleep(random.random() * took * 1.1)
            program.kill()
        if os.path.exists(output):
            assert all_of(output) in (expected, {output: b"old"}), "a part of the output was seen"
        if number % 4 == 3 and not (output == "folder" and os.path.exists(output)):
            resumed += json.loads(convert("--json", "--resume", *words))["resumed_bytes"]
            assert all_of(output) == expected, words
            assert not os.path.exists(output + ".part") and not os.path.exists(output + ".part.journal")


def all_of(path):
    """Returns the contents by name, of a file or a folder."""
    names = [os.path.join(path, name) for name in os.listdir(path)] if os.path.isdir(path) else [path]
    return {name: content(name) for name in names}


def leave(*words):
    """Leaves the files of a run that is killed after it has written some chunks; tries again if it
    was too fast."""
    for _ in range(20):
        with subprocess.Popen([FLMEM, "aggregate", "convert", *words], stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL) as program:
            while program.poll() is None and size_of("out.part.journal") <= 100:
                pass
            program.kill()
        if os.path.exists("out.part"):
            return
    raise SystemExit("it was always too fast")


def damage():
    """Checks that a resumed run compares what is there: damaged chunks, another input and other
    options start over."""
    write_hole(512)
    words = ["-o", "out", "--dtype", "f16"]

    def resumed(*more):
        return json.loads(convert("--json", "--resume", *words, *more))
    convert(*words, "large")
    expected = content("out")
    os.unlink("out")
    leave(*words, "large")
    journal = content("out.part.journal")
    with open("out.part", "r+b") as file:
        file.seek(1 << 20)
        file.write(b"damaged!")
    with open("out.part.journal", "ab") as file:
        file.write(b"torn")
    result = resumed("large")
    assert 0 < result["resumed_bytes"] < result["output_bytes"] and not result["restarted"], result
    assert content("out") == expected, "a damaged chunk was taken"
    for change in (["--dtype", "bf16"], ["--key", "other"], []):
        leave(*words, "large")
        if not change:
            os.utime("large")
        result = resumed(*change, "large")
        assert result["resumed_bytes"] == 0 and result["restarted"], (change, result)
    leave(*words, "large")
    with open("out.part.journal", "wb") as file:
        file.write(journal[:8] + bytes(8) + journal[16:])
    assert resumed("large")["restarted"]
    assert json.loads(convert("--json", "--resume", *words, "large"))["resumed_bytes"] == 0


def memory():
    """Tests a model of 256 MiB, under a limit of 64 MiB for all allocations."""
    tensors.write("large", {"w": ("F32", numpy.zeros(64 << 20, "f4"))})
    resource.setrlimit(resource.RLIMIT_DATA, (64 << 20, 64 << 20))
    convert("--dtype", "bf16", "-o", "out", "large")
    convert("-o", "out.npz", "large")


if __name__ == "__main__":
    globals()[sys.argv[2]]()
