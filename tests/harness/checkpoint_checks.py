#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
Checks of PyTorch checkpoints in `flmem aggregate` and its verbs, in the current directory, which is
empty:

    checkpoint_checks.py FLMEM CHECK

Checks whose name begins with torch need PyTorch.
"""
import os
import struct
import subprocess
import sys
import time
import zipfile
import zlib

import numpy

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

from harness import checkpoints, digests, tensors  # noqa: E402
from harness.aggregate_calls import FLMEM, content, kill_begun, put, refused, run  # noqa: E402


def expect(path, expected):
    found, _ = tensors.read(path)
    assert set(found) == set(expected), (set(found), set(expected))
    for name, one in expected.items():
        assert tensors.same(found[name], one), name


def means():
    """Tests all types, together with other formats, at the top level and below a key."""
    models = [tensors.sample(seed, 100) for seed in range(3)]
    for model in models:
        model["masks"] = ("F8_E4M3", numpy.arange(0, 60, dtype="u1"))
        model["count"] = ("U16", numpy.arange(7, dtype="u2"))
    checkpoints.write("0.pt", models[0])
    checkpoints.write("1.bin", dict(reversed(models[1].items())), large=True)
    tensors.write("2.safetensors", models[2])
    for index, model in enumerate(models):
        tensors.write(f"{index}.plain", model)
    run("-o", "expected", "--weights", "1,2,5", "0.plain", "1.plain", "2.plain")
    run("-o", "out", "--weights", "1,2,5", "0.pt", "1.bin", "2.safetensors")
    assert content("out") == content("expected")
    run("-o", "out", "--weights", "5,2,1", "2.safetensors", "1.bin", "0.pt")
    run("-o", "expected", "--weights", "5,2,1", "2.plain", "1.plain", "0.plain")
    assert content("out") == content("expected")
    for index, model in enumerate(models):
        checkpoints.write(f"{index}.pt", model, "state_dict")
    run("-o", "out", "--key", "state_dict", "--weights", "1,2,5", "0.pt", "1.pt", "2.pt")
    run("-o", "expected", "--weights", "1,2,5", "0.plain", "1.plain", "2.plain")
    assert content("out") == content("expected")
    run("diff", "--key", "state_dict", "0.pt", "0.plain")
    refused("'0.pt' contains 'epoch', which is not a tensor", "-o", "new", "0.pt")
    refused("'0.pt' has no dict 'model' at its top level", "-o", "new", "--key", "model", "0.pt")
    assert not os.path.exists("new")


def views():
    """Tensors that share a storage, or are a part of one, are read; others are refused."""
    data = numpy.arange(24, dtype="f4")
    make = checkpoints.tensor
    rows = [("tied", make("F32", 0, 24, [4, 6])), ("head", make("F32", 0, 24, [4, 6])),
            ("part", make("F32", 0, 24, [2, 3], first=5)), ("one", make("F32", 0, 24, [1, 4, 1], 3, [9, 1, 9])),
            ("scalar", make("F32", 0, 24, [], first=23)), ("none", make("F32", 0, 24, [0, 3], 24, [1, 1]))]

    def file_of(opcodes, size=24):
        entries = checkpoints.entries_of({"w": ("F32", data[:size])})
        entries[0]["data"] = checkpoints.finish(opcodes)
        return checkpoints.archive(entries)

    put("a.pt", file_of(checkpoints.dictionary(rows)))
    run("-o", "out", "a.pt", "a.pt")
    expect("out", {"tied": ("F32", data.reshape(4, 6)), "head": ("F32", data.reshape(4, 6)),
                   "part": ("F32", data[5:11].reshape(2, 3)), "one": ("F32", data[3:7].reshape(1, 4, 1)),
                   "scalar": ("F32", data[23].reshape(())), "none": ("F32", data[:0].reshape(0, 3))})
    found = run("inspect", "a.pt")["models"][0]
    assert int(found["files"][0]["crc32c"], 16) == digests.crc32c(content("a.pt"))
    for one in found["tensors"]:
        expected = tensors.read("out")[0][one["name"]][1].tobytes()
        assert int(one["crc32c"], 16) == digests.crc32c(expected), one
    for opcodes, why in (
            (make("F32", 0, 24, [4, 6], 0, [1, 4]), "is not contiguous; save it with .contiguous()"),
            (make("F32", 0, 24, [2], 0, [2]), "is not contiguous"),
            (make("F32", 0, 24, [5], 0, [0]), "is not contiguous"),
            (make("F32", 0, 24, [25]), "is larger than its storage"),
            (make("F32", 0, 24, [2], 23), "is larger than its storage"),
            (make("F32", 0, 24, [2], 25), "is larger than its storage"),
            (make("F32", 0, 24, [2**62]), "is larger than its storage"),
            (make("F32", 0, 24, [2**40, 2**40]), "has no valid shape"),
            (make("F32", 0, 24, [-1]), "has no valid shape"),
            (make("F32", 0, 24, [1] * 17), "has more than 16 dimensions"),
            (make("F32", 0, 23, [2]), "has a storage whose size differs from that in the archive"),
            (make("F32", 7, 24, [2]), "has no storage in the archive"),
            (make("F32", "../../x", 24, [2]), "has no storage in the archive"),
            (make("F32", 0, 24, [2], -1), "describes a tensor in an unknown way")):
        put("b.pt", file_of(checkpoints.dictionary([("w", opcodes)])))
        refused(why, "-o", "new", "b.pt")
    assert not os.path.exists("new")


def pickles():
    """Checks that nothing is executed: any name that describes no tensor is refused, and so is odd
    syntax."""
    model = {"w": ("F32", numpy.zeros(4, "f4"))}
    tensor = checkpoints.tensor("F32", 0, 4, [4])
    dictionary, finish, text = checkpoints.dictionary, checkpoints.finish, checkpoints.text
    system = b"cposix\nsystem\n(" + text("touch executed") + b"tR"
    for data, why in (
            (finish(system), "its pickle uses 'posix.system', which a state dict does not need"),
            (finish(dictionary([("w", system)])), "'posix.system'"),
            (finish(dictionary([("w", tensor)]) + b"0" + system), "'posix.system'"),
            (finish(text("posix") + text("system") + b"\x93"), "'posix.system'"),
            (finish(b"cbuiltins\neval\n(" + text("1") + b"tR"), "'builtins.eval'"),
            (finish(b"ctorch\n\x1b[31mred\n"), "torch.\\x1b[31mred"),
            (finish(dictionary([("w", tensor)]) + b"N"), "does not end with one object"),
            (finish(dictionary([("w", tensor)]) + b"(" + text("a") + b"u"), "adds to an object of another kind"),
            (finish(b"(ios\nsystem\n"), "has an operation that no state dict needs"),
            (finish(b"K\x01"), "has no dict at its top level"),
            (finish(dictionary([("w", b"K\x01")])), "contains 'w', which is not a tensor; name the dict that contains only"
             " tensors with --key, for example state_dict"),
            (finish(dictionary([("net", dictionary([("w", tensor)]))])), "with --key, for example net"),
            (finish(dictionary([("w", tensor), ("w", tensor)])), "occurs twice"),
            (finish(dictionary([(b"\xff", tensor)])), "has a name that is not UTF-8 text"),
            (finish(dictionary([("a\0b", tensor)])), "has a tensor without a valid name"),
            (finish(dictionary([("x" * 5000, tensor)])), "has a tensor without a valid name"),
            (finish(dictionary([("w", tensor)]))[:-1], "its pickle ends too early"),
            (finish(dictionary([("w", tensor)]))[:-40], "its pickle ends too early"),
            (finish(b"h\x07"), "refers to an object that it does not have"),
            (finish(b"Nr\xff\xff\xff\xff"), "numbers its objects in an unknown way"),
            (finish(b"t"), "lacks a mark"),
            (finish(b"0"), "takes more objects than its stack holds"),
            (finish(b"NNb"), "sets attributes of an unknown object"),
            (finish(b"N)R"), "calls an object that is not a function"),
            (finish(b"ctorch\nFloatStorage\n)R"), "calls an object that is not a function"),
            (finish(text("x") + b"Q"), "refers to an unknown kind of data"),
            (finish(b"]q\0h\0a"), "has no dict at its top level"),
            (finish(b"X\xff\xff\xff\x7fabc"), "ends too early"),
            (finish(b"\x8d" + b"\xff" * 8), "ends too early"),
            (b"\x80\x09N.", "has an unknown protocol")):
        entries = checkpoints.entries_of(model)
        entries[0]["data"] = data
        put("a.pt", checkpoints.archive(entries))
        refused(why, "-o", "new", "a.pt")
    assert sorted(os.listdir()) == ["a.pt"]
    deep = b"".join(b"]q" + bytes([i]) for i in range(200)) + b"a" * 199
    entries[0]["data"] = finish(b"}(" + text("m") + dictionary([("w", tensor)]) + text("deep") + deep + b"u")
    put("a.pt", checkpoints.archive(entries))
    run("-o", "out", "--key", "m", "a.pt")


def tricks():
    """Archives whose parts disagree, each with its own error; the old output stays."""
    model = {"w": ("F32", numpy.arange(40, dtype="f4")), "b": ("F32", numpy.arange(4, dtype="f4"))}
    size = model["w"][1].nbytes
    inner = checkpoints.local_header({"name": "m/data/1", "data": model["b"][1].tobytes(), "extra": b""}, 0) + \
        model["b"][1].tobytes()
    embedded = inner + bytes(size - len(inner))
    outer = len(checkpoints.archive(checkpoints.entries_of(model)[:1])) - 22 - \
        len(checkpoints.record(checkpoints.entries_of(model)[0], 0))
    first = outer + len(checkpoints.local_header(checkpoints.entries_of(model)[1], outer))
    packed = zlib.compress(model["w"][1].tobytes())[2:-4]
    large = struct.pack("<HHQQ", 1, 16, size, size)

    def changed(index, **values):
        entries = checkpoints.entries_of(model)
        entries[index].update(values)
        return checkpoints.archive(entries)

    def names(index, name):
        entries = checkpoints.entries_of(model)
        entries[index]["name"] = name
        return checkpoints.archive(entries)

    def overlapping():
        entries = checkpoints.entries_of(model)
        entries[1]["data"] = embedded
        entries[2].update(absent=True, central={"at": first})
        return checkpoints.archive(entries)

    plain = checkpoints.archive(checkpoints.entries_of(model))
    put("out", b"old")
    for data, why in (
            (overlapping(), "its entry 'm/data/1' overlaps another"),
            (changed(2, central={"at": 0}), "different names in its header and in the directory"),
            (changed(0, central={"crc": 1}, local={"crc": 1}),
             "its entry 'm/data.pkl' does not match its checksum in the archive"),
            (changed(1, central={"crc": 1}), "different checksums in its header and in the directory"),
            (changed(1, central={"method": 8}, local={"method": 8, "stored": len(packed)}),
             "its entry 'm/data/0' is compressed; store it without compression"),
            (changed(1, local={"method": 8}), "different methods in its header"),
            (changed(1, central={"stored": 3}), "is not compressed, but its stored size differs from its size"),
            (changed(1, local={"size": 3}), "different sizes in its header and in the directory"),
            (changed(1, central={"flags": 1}, local={"flags": 1}), "is encrypted"),
            (changed(1, central={"at": 10**6}), "begins after the end of the archive"),
            (changed(1, central={"at": 7}), "does not begin with a header"),
            (changed(1, central={"size": 10**6, "stored": 10**6}), "ends after the end of the archive"),
            (changed(1, central={"size": 2**32 - 1}), "its directory is damaged"),
            (changed(1, central={"size": 2**32 - 1, "stored": 2**32 - 1, "extra": large[:-4]}),
             "its directory is damaged"),
            (changed(1, local={"size": 2**32 - 1, "stored": 2**32 - 1}),
             "different sizes in its header and in the directory"),
            (names(1, "m/../../data/0"), "has a name that is not a plain relative path"),
            (names(1, "/m/data/0"), "has a name that is not a plain relative path"),
            (names(1, "m\\data\\0"), "has a name that is not a plain relative path"),
            (names(1, "m/data/1"), "its entry 'm/data/1' occurs twice"),
            (names(3, "n/data.pkl"), "is an archive, but neither a PyTorch checkpoint with one pickle"),
            (plain[:-30], "is an archive without a directory: it is truncated"),
            (plain[:60], "is an archive without a directory: it is truncated"),
            (b"\x80\x02" + bytes(100), "is a PyTorch checkpoint of the format before version 1.6")):
        put("a.pt", data)
        refused(why, "-o", "out", "a.pt")
        assert content("out") == b"old" and sorted(os.listdir()) == ["a.pt", "out"]
    # Sizes of files above 4 GiB are in the extra field.
    put("a.pt", changed(1, extra=large, local={"size": 2**32 - 1, "stored": 2**32 - 1},
                        central={"size": 2**32 - 1, "stored": 2**32 - 1, "extra": large}))
    run("-o", "out", "a.pt")
    expect("out", model)
    put("a.pt", changed(1, central={"crc": 1}, local={"crc": 1}))
    refused("its entry 'm/data/0' does not match its checksum in the archive", "inspect", "a.pt")
    run("inspect", "--headers-only", "a.pt")
    for order in b"big", b"middle":
        entries = checkpoints.entries_of(model)
        entries.append({"name": "m/byteorder", "data": order})
        put("a.pt", checkpoints.archive(entries))
        refused("its tensors are not little-endian", "-o", "out", "a.pt")


def torch_reads():
    """Checkpoints of PyTorch itself: modules, optimizers, parameters, views."""
    import torch  # pylint: disable=import-outside-toplevel
    module = torch.nn.Sequential(torch.nn.Linear(30, 20), torch.nn.BatchNorm1d(20), torch.nn.Embedding(5, 3))
    module.tied = torch.nn.Embedding(5, 3)
    module.tied.weight = module[2].weight
    optimizer = torch.optim.Adam(module.parameters())
    module[0](torch.ones(2, 30)).sum().backward()
    optimizer.step()
    state = module.state_dict()
    torch.save(state, "a.pt")
    torch.save({"epoch": 3, "state_dict": state, "optimizer": optimizer.state_dict(), "loss": 0.5}, "b.pth")
    torch.save(dict(module.named_parameters()), "c.bin")
    model = {name: ({torch.float32: "F32", torch.int64: "I64"}[one.dtype], one.numpy())
             for name, one in state.items()}
    for words in (["a.pt"], ["--key", "state_dict", "b.pth"]):
        run("-o", "out", *words)
        expect("out", model)
    run("-o", "out", "c.bin")
    expect("out", {name: (kind, array) for name, (kind, array) in model.items()
                   if name in tensors.read("out")[0]})
    assert run("inspect", "a.pt")["models"][0]["tensor_count"] == len(model)
    kinds = {name: torch.ones(3).to(getattr(torch, name)) for name in (
        "float16", "bfloat16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "bool", "complex64")}
    torch.save(kinds, "kinds.pt")
    assert run("inspect", "kinds.pt")["models"][0]["tensor_count"] == len(kinds)
    torch.save({"w": torch.ones(3, 4).t()}, "view.pt")
    refused("is not contiguous; save it with .contiguous()", "-o", "new", "view.pt")
    torch.save(module, "module.pt")
    refused("which a state dict does not need and which is never called", "-o", "new", "module.pt")
    torch.save(state, "old.pt", _use_new_zipfile_serialization=False)
    refused("of the format before version 1.6", "-o", "new", "old.pt")


def outputs():
    """Checks that the output is a copy of the first input with other tensors: the same with any
    chunks, and valid for zip's own reader."""
    models = [tensors.sample(seed, 5000) for seed in range(3)]
    names = ["0.pt", "1.pt", "2.pt"]
    for name, model in zip(names, models):
        entries = checkpoints.entries_of(model, "state_dict")
        entries.insert(2, {"name": "m/data/77", "data": name.encode() * 100})
        if name == "1.pt":
            entries.reverse()
        put(name, checkpoints.archive(entries))
    run("-o", "expected", "--key", "state_dict", "--weights", "1,2,5", *names)
    made = run("-o", "out.pt", "--key", "state_dict", "--weights", "1,2,5", *names)
    expected, _ = tensors.read("expected")
    run("-o", "again", "--key", "state_dict", "out.pt")
    assert content("again") == content("expected")
    assert int(made["crc32c"], 16) == digests.crc32c(content("out.pt"))
    assert made["output_bytes"] == os.path.getsize("out.pt") == os.path.getsize("0.pt")
    with zipfile.ZipFile("out.pt") as new, zipfile.ZipFile("0.pt") as old:
        assert new.testzip() is None
        assert new.namelist() == old.namelist()
        for name in ("m/data.pkl", "m/version", "m/data/77"):
            assert new.read(name) == old.read(name)
    for number in range(6):
        run("-o", "other.pt", "--key", "state_dict", "--weights", "1,2,5", "--chunk", f"{64 << number % 3}K",
            "--threads", str(number + 1), *names)
        assert content("other.pt") == content("out.pt")
    refused("'0.pt' is both input and output", "-o", "0.pt", "--key", "state_dict", "--weights", "1,2,5", *names)
    for name, (kind, array) in expected.items():
        assert array.nbytes == models[0][name][1].nbytes, (name, kind)
    refused("'new.pt' would be a copy of the first input with other tensors, but 'expected' is no",
            "-o", "new.pt", "--key", "state_dict", "expected", "0.pt")
    assert not os.path.exists("new.pt") and not os.path.exists("new.pt.part")


def shared_outputs():
    """Tied weights stay tied, if they are in all inputs."""
    make, data = checkpoints.tensor, numpy.arange(8, dtype="f4")

    def write(path, *rows):
        entries = checkpoints.entries_of({"w": ("F32", data), "v": ("F32", data + 100)})
        entries[0]["data"] = checkpoints.finish(checkpoints.dictionary(rows))
        put(path, checkpoints.archive(entries))

    tied = [("a", make("F32", 0, 8, [2, 4])), ("b", make("F32", 0, 8, [2, 4])), ("c", make("F32", 0, 8, [0]))]
    write("tied.pt", *tied)
    write("untied.pt", ("a", make("F32", 0, 8, [2, 4])), ("b", make("F32", 1, 8, [2, 4])), tied[2])
    write("parts.pt", ("a", make("F32", 0, 8, [2, 2])), ("b", make("F32", 0, 8, [2, 2], 2)), tied[2])
    write("halves.pt", ("a", make("F32", 0, 8, [2, 2])), ("b", make("F32", 0, 8, [2, 2], 4)), tied[2])
    run("-o", "out.pt", "tied.pt", "tied.pt")
    assert content("out.pt") == content("tied.pt")
    run("-o", "out.pt", "halves.pt", "halves.pt")
    assert content("out.pt") == content("halves.pt")
    why = "so 'new.pt' cannot hold both; write a safetensors file"
    refused(why, "-o", "new.pt", "tied.pt", "untied.pt")
    refused(why, "-o", "new.pt", "parts.pt")
    refused(why, "-o", "new.pt", "-a", "fedavgm", "--state", "state", "--base", "tied.pt", "tied.pt")
    run("-o", "new.pt", "untied.pt", "tied.pt")
    run("-o", "new.safetensors", "new.pt")
    expect("new.safetensors", {"a": ("F32", data.reshape(2, 4)), "b": ("F32", data.reshape(2, 4) + 50),
                               "c": ("F32", data[:0])})


def torch_writes():
    """torch.load(weights_only=True) reads the output."""
    import torch  # pylint: disable=import-outside-toplevel
    torch.manual_seed(1)
    module = torch.nn.Sequential(torch.nn.Linear(300, 200), torch.nn.BatchNorm1d(200), torch.nn.Linear(200, 3))
    states = []
    for number in range(2):
        for one in module.parameters():
            one.data.normal_()
        states.append({name: one.clone() for name, one in module.state_dict().items()})
        torch.save({"epoch": number, "state_dict": states[-1], "rest": torch.ones(1000)}, f"{number}.pt")
    run("-o", "out.pt", "--key", "state_dict", "0.pt", "1.pt")
    found = torch.load("out.pt", weights_only=True)
    assert found["epoch"] == 0 and torch.equal(found["rest"], torch.ones(1000))
    for name, one in found["state_dict"].items():
        expected = ((states[0][name].double() + states[1][name].double()) / 2).to(one.dtype)
        assert torch.equal(one, expected), name
    assert zipfile.ZipFile("out.pt").testzip() is None


def kills():
    """Checks that a run killed at any instant and resumed leaves the old output or the new one,
    never a part."""
    random = numpy.random.default_rng(1)
    names = ["0.pt", "1.pt"]
    for name in names:
        checkpoints.write(name, {f"w{i}": ("F32", random.standard_normal(1 << 20).astype("f4")) for i in range(12)})
    words = ["-o", "out.pt", "--chunk", "64K", *names]
    began = time.monotonic()
    run(*words)
    took = time.monotonic() - began
    expected, resumed = content("out.pt"), 0
    put("out.pt", b"old")
    for number in range(24):
        if number % 8 == 7:
            kill_begun("out.pt", *words)
        else:
            with subprocess.Popen([FLMEM, "aggregate", "-q", "--resume", *words], stdout=subprocess.DEVNULL) as process:
                time.sleep(random.random() * took * 1.2)
                process.kill()
        assert content("out.pt") in (b"old", expected), "a part of the output was seen"
        if number % 4 == 3:
            resumed += run("--resume", *words)["resumed_bytes"]
            assert content("out.pt") == expected
            put("out.pt", b"old")
    assert resumed > 0, "nothing was ever resumed"


if __name__ == "__main__":
    globals()[sys.argv[2]]()
