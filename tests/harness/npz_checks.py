#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
Checks of NumPy's .npz in `flmem aggregate` and its verbs, against NumPy itself, in the current
directory, which is empty:

    npz_checks.py FLMEM CHECK
"""
import io
import os
import sys
import zipfile

import numpy

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

from harness import digests, tensors  # noqa: E402
from harness.aggregate_calls import content, put, refused, run  # noqa: E402

LACKING = ("BF16", "F8_E4M3", "F8_E5M2", "F8_E8M0")


def model(seed, size=100):
    found = {name: (kind, array) for name, (kind, array) in tensors.sample(seed, size).items()
             if kind not in LACKING}
    found["norm.mask"] = ("BOOL", found["norm.mask"][1].astype("?"))
    for kind in ("i1", "i2", "i4", "u2", "u4", "u8"):
        found["kind/" + kind] = (kind.replace("i", "I").replace("u", "U"), numpy.arange(5, dtype=kind))
    names = {"I1": "I8", "I2": "I16", "I4": "I32", "U2": "U16", "U4": "U32", "U8": "U64"}
    return {name: (names[kind] if name.startswith("kind/") else kind, array)
            for name, (kind, array) in found.items()}


def save(path, one):
    numpy.savez(path, **{name: array for name, (_, array) in one.items()})


def means():
    """Checks inputs as NumPy writes them, outputs that NumPy reads, the same bits as in safetensors
    files."""
    models = [model(seed) for seed in range(3)]
    for index, one in enumerate(models):
        save(f"{index}.npz", one)
        tensors.write(f"{index}.safetensors", one)
    names = ["0.npz", "1.npz", "2.npz"]
    words = ["--weights", "1,2,5"]
    run("-o", "expected", *words, *(name.replace("npz", "safetensors") for name in names))
    run("-o", "out", *words, *names)
    assert content("out") == content("expected")
    made = run("-o", "out.npz", *words, *names)
    assert int(made["crc32c"], 16) == digests.crc32c(content("out.npz"))
    assert made["output_bytes"] == os.path.getsize("out.npz")
    assert zipfile.ZipFile("out.npz").testzip() is None
    expected, _ = tensors.read("expected")
    with numpy.load("out.npz") as found:
        assert set(found.files) == set(expected)
        for name in found.files:
            assert found[name].dtype == models[0][name][1].dtype, name
            assert found[name].shape == expected[name][1].shape, name
            assert found[name].tobytes() == expected[name][1].tobytes(), name
    run("-o", "again", "out.npz")
    assert content("again") == content("expected")
    assert not run("diff", "out.npz", "expected")["differing"]
    listed = run("inspect", "out.npz")["models"][0]
    assert listed["format"] == "NumPy archive" and listed["tensor_count"] == len(expected)
    assert listed["files"][0]["crc32c"] == made["crc32c"]
    for number in range(4):
        run("-o", "other.npz", *words, "--chunk", f"{64 << number}K", "--threads", str(number + 1), *names)
        assert content("other.npz") == content("out.npz")
    tensors.write("half.safetensors", {"w": ("BF16", numpy.zeros(3, "u2"))})
    refused("'new.npz' cannot hold tensor 'w' (BF16): NumPy has no such type", "-o", "new.npz", "half.safetensors")
    for name in ("../w", "/w", "a//b"):
        tensors.write("odd.safetensors", {name: ("F32", numpy.zeros(3, "f4"))})
        refused("its name is not a plain relative path", "-o", "new.npz", "odd.safetensors")
    # NumPy finds the file 'w.npy' first, which is the array 'w'.
    tensors.write("odd.safetensors", {name: ("F32", numpy.zeros(3, "f4")) for name in ("w", "w.npy")})
    refused("'new.npz' cannot hold tensor 'w.npy' (F32): NumPy would read another array by its name", "-o", "new.npz", "odd.safetensors")
    head = b'{"w": {"dtype": "F32", "shape": [0, 2147483648, 1073741824], "data_offsets": [0, 0]}}'
    put("odd.safetensors", len(head).to_bytes(8, "little") + head)
    refused("'new.npz' cannot hold tensor 'w' (F32): its shape is too large for NumPy", "-o", "new.npz", "odd.safetensors")
    tensors.write("odd.safetensors", {name: ("F32", numpy.zeros((0, 1 << 31, 1 << 29), "f4")) for name in ("v", "w.npy")})
    run("-o", "odd.npz", "odd.safetensors")
    with numpy.load("odd.npz") as found:
        assert [found[name].shape for name in ("v", "w.npy")] == [(0, 1 << 31, 1 << 29)] * 2
    numpy.savez("none.npz")
    refused("'none.npz' is an archive without files: it has no tensors", "-o", "new.npz", "none.npz")
    assert not os.path.exists("new.npz") and not os.path.exists("new.npz.part")


def npy(array=None, header=None, version=b"\1\0", rest=b""):
    if header is None:
        file = io.BytesIO()
        numpy.lib.format.write_array(file, array)
        return file.getvalue()
    return b"\x93NUMPY" + version + len(header).to_bytes(2, "little") + header + rest


def refusals():
    """Checks that each fault has its own error; the old output stays."""
    plain = b"{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }\n"
    with open("out", "wb") as file:
        file.write(b"old")
    for data, why in (
            (npy(numpy.asfortranarray(numpy.zeros((2, 3)))), "is in Fortran order"),
            (npy(numpy.zeros(3, ">f4")), "is big-endian; save it with a.astype(a.dtype.newbyteorder('<'))"),
            (npy(numpy.array(["text"])), "has elements of type '<U4', which is not supported"),
            (npy(numpy.zeros(2, "c16")), "has elements of type '<c16', which"),
            (npy(numpy.array([{}], dtype=object)), "has elements of type '|O', which"),
            (npy(numpy.zeros(2, [("a", "f4")])), "has elements of type [('a', '<f4')], which"),
            (b"nothing at all", "is not a NumPy array"),
            (b"", "is not a NumPy array"),
            (npy(header=plain, version=b"\7\0", rest=bytes(8)), "has an unknown version of the format"),
            (npy(header=plain, rest=bytes(7)), "has a shape that does not fill it"),
            (npy(header=plain, rest=bytes(9)), "has a shape that does not fill it"),
            (npy(header=plain.replace(b"(2,)", b"(-2,)"), rest=bytes(8)), "has no valid header"),
            (npy(header=plain.replace(b"(2,)", b"(2"), rest=bytes(8)), "has no valid header"),
            (npy(header=plain.replace(b"(2,)", b"(4294967296, 4294967296, 2)"), rest=bytes(8)),
             "has no valid shape"),
            (npy(header=plain.replace(b"(2,)", b"(" + b"1, " * 17 + b")"), rest=bytes(4)), "has more than 16 dimensions"),
            (npy(header=plain.replace(b"shape", b"shade"), rest=bytes(8)), "has no valid header"),
            (npy(header=plain + b"more", rest=bytes(8)), "has no valid header"),
            (npy(header=plain + b" " * 5000, rest=bytes(8)), "has a header that is too long"),
            (npy(header=plain)[:30], "has a header that is too long")):
        with zipfile.ZipFile("a.npz", "w") as file:
            file.writestr("good.npy", npy(numpy.zeros(2)))
            file.writestr("w.npy", data)
        refused("its entry 'w.npy' " + why, "-o", "out", "a.npz")
        assert content("out") == b"old" and sorted(os.listdir()) == ["a.npz", "out"]
    numpy.savez_compressed("a.npz", w=numpy.zeros(2))
    refused("its entry 'w.npy' is compressed; store it without compression", "-o", "out", "a.npz")
    with zipfile.ZipFile("a.npz", "w") as file:
        file.writestr("good.npy", npy(numpy.zeros(2)))
        file.writestr("readme.txt", b"text")
    refused("neither a PyTorch checkpoint with one pickle nor one with only NumPy arrays", "-o", "out", "a.npz")


def many():
    """Tests more entries than 16 bits count."""
    one = {f"t{number}": ("F32", numpy.full(3, number, "f4")) for number in range(70000)}
    tensors.write("a.safetensors", one)
    run("-o", "out.npz", "a.safetensors", "a.safetensors")
    with numpy.load("out.npz") as found:
        assert len(found.files) == 70000
        for number in range(0, 70000, 7001):
            assert (found[f"t{number}"] == number).all()
    run("diff", "out.npz", "a.safetensors")


if __name__ == "__main__":
    globals()[sys.argv[2]]()
