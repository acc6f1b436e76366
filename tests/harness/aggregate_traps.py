#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
Files that try to get a wrong model, or somebody's data lost, from `flmem aggregate`; in the current
directory, which is empty:

    aggregate_traps.py FLMEM CHECK
"""
import json
import os
import struct
import subprocess
import sys

import numpy

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

from harness import checkpoints, tensors  # noqa: E402
from harness.aggregate_calls import FLMEM, call, content, put, refused, run  # noqa: E402
from harness.file_sizes import size_of  # noqa: E402


def made(*words):
    done = call("-q", *words)
    assert done.returncode == 0, (words, done)


def model(path, *values, kind="F32"):
    tensors.write(path, {"w": (kind, numpy.array(values, {"F16": "f2", "F32": "f4"}[kind]))})


def directories():
    """Two directories in one archive: readers disagree about which of them counts."""
    numpy.savez("a.npz", w=numpy.array([1, 2], "f4"))
    numpy.savez("b.npz", w=numpy.array([10, 20], "f4"))
    made("-o", "out", "a.npz", "b.npz")
    both = content("a.npz") + content("b.npz")
    put("both.npz", both)
    refused("there may be two", "-o", "other", "both.npz")
    one = content("a.npz")
    end = one[-22:]
    size, offset = struct.unpack("<II", end[12:20])
    large = struct.pack("<IQHHIIQQQQ", 0x06064b50, 44, 45, 45, 0, 0, 1, 1, size, offset)
    locator = struct.pack("<IIQI", 0x07064b50, 0, len(one) - 22, 1)
    put("agrees.npz", one[:-22] + large + locator + end)
    made("-o", "same", "agrees.npz", "b.npz")
    assert content("same") == content("out")
    for change in ((size + 1, offset), (size, offset - 1)):
        large = struct.pack("<IQHHIIQQQQ", 0x06064b50, 44, 45, 45, 0, 0, 1, 1, *change)
        put("differs.npz", one[:-22] + large + locator + end)
        refused("64-bit directory", "-o", "other", "differs.npz")
    for disks, counts, last in (((1, 0), (1, 1), (0, 1)), ((0, 1 << 28), (1, 1), (0, 1)), ((0, 0), (1, 2), (0, 1)),
                                ((0, 0), (1, 1), (1, 1)), ((0, 0), (1, 1), (0, 2))):
        large = struct.pack("<IQHHIIQQQQ", 0x06064b50, 44, 45, 45, *disks, *counts, size, offset)
        put("differs.npz", one[:-22] + large + struct.pack("<IIQI", 0x07064b50, last[0], len(one) - 22, last[1]) + end)
        refused("split over several disks", "-o", "other", "differs.npz")
    parts(one, offset)
    assert not os.path.exists("other")


def parts(one, directory):
    """Tests parts of a split archive, and counts of entries of which PyTorch takes only the first
    ones."""
    def changed(text, at, form, *values):
        put("part.npz", one[:at] + struct.pack(form, *values) + one[at + struct.calcsize(form):])
        refused(text, "-o", "other", "part.npz")

    end = len(one) - 22
    for numbers in ((1, 0, 1, 1), (0, 1, 1, 1), (1, 1, 1, 1), (65535, 65535, 1, 1), (0, 0, 0, 1), (0, 0, 1, 2)):
        changed("split over several disks: join its parts", end + 4, "<4H", *numbers)
    for count in (0, 2, 65535):
        changed("another number of entries", end + 8, "<HH", count, count)
    changed("its directory is damaged", directory + 34, "<H", 1)


def metadata():
    """Tests tensors whose elements are to be negated, which PyTorch 2 can record."""
    values = numpy.array([1, 2], "f4")
    plain = checkpoints.tensor("F32", 0, 2, (2,))
    assert plain.endswith(b"tR")
    for more, status in ((b"", 0), (b"}" + b"(" + checkpoints.text("neg") + b"\x88u", 2)):
        pickle = checkpoints.finish(checkpoints.dictionary([("w", plain[:-2] + more + b"tR")]))
        put("in.pt", checkpoints.archive([{"name": "m/data.pkl", "data": pickle},
                                          {"name": "m/data/0", "data": values.tobytes()}]))
        done = call("-q", "-o", "out", "in.pt")
        assert done.returncode == status, done
        assert not status or "has a tensor with metadata" in done.stderr, done
    calls()


def calls():
    """Tests arguments without which torch.load() fails, or with which it fails."""
    number, parameter, hooks = checkpoints.tensor("I64", 0, 1, (1,)), b"ctorch._utils\n_rebuild_parameter\n(", b"}"
    plain = checkpoints.tensor("F32", 0, 2, (2,))
    start, end = plain[:-2].removesuffix(b"\x89" + checkpoints.EMPTY_DICT), b"tR"
    sound = [start + b"\x88" + hooks + end, parameter + plain + b"\x88" + hooks + end, parameter + number + b"\x89" + hooks + end]
    broken = [start + end, start + b"\x89" + end, start + b"N" + hooks + end, start + b"K\x01" + hooks + end,
              number.replace(b"\x89", b"\x88"), parameter + plain + end, parameter + plain + b"\x88" + end,
              parameter + plain + b"N" + hooks + end, parameter + plain + b"\x88" + hooks + b"N" + end,
              parameter + number + b"\x88" + hooks + end, plain.replace(b"tQ", b"NtQ"),
              plain.replace(checkpoints.text("cpu"), b"K\x01"), plain.replace(checkpoints.text("cpu"), b"N")]
    for tensor in sound + broken:
        pickle = checkpoints.finish(checkpoints.dictionary([("w", tensor)]))
        put("in.pt", checkpoints.archive([{"name": "m/data.pkl", "data": pickle}, {"name": "m/data/0", "data": bytes(8)}]))
        done = call("-q", "-o", "out", "--non-float", "first", "in.pt")
        assert done.returncode == (0 if tensor in sound else 2), (tensor, done)
        assert tensor in sound or "in an unknown way" in done.stderr or "an unknown kind of data" in done.stderr, done


def names():
    """Tests outputs that no reader could read."""
    numpy.savez("in.npz", __metadata__=numpy.array([1], "f4"))
    refused("a name that the format reserves", "-o", "out", "in.npz")
    refused("a name that the format reserves", "convert", "-o", "out", "in.npz")
    made("-o", "out.npz", "in.npz")


def foreign():
    """Checks that other programs' files with names like parts of an output stay unchanged."""
    model("a", 1, 2)
    model("out.part", 5, 6)
    mine = content("out.part")
    for words in (["-o", "out", "a"], ["-o", "out", "a", "out.part"], ["convert", "-o", "out", "a"],
                  ["--resume", "-o", "out", "a"]):
        refused("are not from an unfinished aggregation", *words)
        assert content("out.part") == mine and not os.path.exists("out")
    os.rename("out.part", "out.part.journal")
    refused("are not from an unfinished aggregation", "-o", "out", "a", "out.part.journal")
    assert content("out.part.journal") == mine
    os.rename("out.part.journal", "kept")
    os.symlink("kept", "out.part.journal")
    refused("out.part", "-o", "out", "a")
    assert os.path.islink("out.part.journal") and content("kept") == mine
    os.unlink("out.part.journal")
    made("-o", "out", "a")


def links():
    """A link to a device must be refused; a link to a file is replaced, and the file stays."""
    model("a", 1, 2)
    os.symlink("/dev/null", "null")
    refused("is not a regular file", "-o", "null", "a")
    assert os.path.islink("null")
    put("old", b"old")
    os.symlink("old", "link")
    made("-o", "link", "a")
    assert content("old") == b"old" and not os.path.islink("link")


def rounds():
    """Tests names with which a round could not be repeated, and numbers that would stay for all
    rounds."""
    model("base", 60000, 1, kind="F16")
    model("one", 65000, 1, kind="F16")
    step = ["-a", "fedavgm", "--base", "base"]
    for state, output in (("s", "s"), ("s", "s.part"), ("s.part", "s"), ("s", "s.part.journal")):
        refused("is both state and output", *step, "--state", state, "-o", output, "one")
    made("-o", "out", "base")
    refused("is both input and output", *step, "--state", "s", "-o", "out", "one", "out")
    refused("infinite", *step, "--state", "s", "-o", "new", "--server-rate", "5", "one")
    model("base", 0, 1)
    model("one", 1e22, 1)
    for name in ("fedadam", "fedyogi", "fedadagrad"):
        refused("infinite", "-a", name, "--base", "base", "--state", "s", "-o", "new", "one")
    assert not os.path.exists("s") and not os.path.exists("new")


def storages():
    """PyTorch reads a storage once, with the type that comes first."""
    values = numpy.arange(4, dtype="f4")
    for kinds, text in ((("F32", "F32"), None), (("F32", "I32"), "one storage under two types"),
                        (("I32", "F32"), "one storage under two types")):
        rows = [(kind + str(i), checkpoints.tensor(kind, 0, 4, (4,))) for i, kind in enumerate(kinds)]
        put("in.pt", checkpoints.archive([
            {"name": "m/data.pkl", "data": checkpoints.finish(checkpoints.dictionary(rows))},
            {"name": "m/data/0", "data": values.tobytes()}]))
        if text:
            refused(text, "-o", "out", "in.pt")
        else:
            made("-o", "out", "in.pt")


def attributes():
    """PyTorch treats an entry marked as a directory as one, and reads zeros."""
    entries = checkpoints.entries_of({"w": ("F32", numpy.array([1, 2], "f4"))})
    for value, text in ((0x20, None), (0x81a40000, None), (0x10, "is marked as a directory"),
                        (0x41ed0010, "is marked as a directory")):
        entries[1]["central"] = {"attributes": value}
        put("in.pt", checkpoints.archive(entries))
        if text:
            refused(text, "-o", "out", "in.pt")
        else:
            made("-o", "out", "in.pt")


def arrays():
    """Tests headers and names that NumPy reads differently, or not at all."""
    for shape, text in (("(2,)", None), ("(2,1)", None), ("(2)", "has no valid header"),
                        ("(2 )", "has no valid header"), ("(,)", "has no valid header"),
                        ("(2,)}\n\0", "has no valid header"), ("(02,)", "has no valid header")):
        header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}"
        header += " " * (117 - len(header)) + "\n"
        array = b"\x93NUMPY\1\0" + struct.pack("<H", len(header)) + header.encode() + bytes(8)
        put("in.npz", checkpoints.archive([{"name": "w.npy", "data": array, "extra": b""}]))
        if text:
            refused(text, "-o", "out", "in.npz")
        else:
            made("-o", "out", "in.npz")
    numpy.savez("in.npz", **{"gr\u00f6\u00dfe": numpy.array([1, 2], "f4")})
    made("-o", "out.npz", "in.npz")
    assert list(numpy.load("out.npz")) == ["gr\u00f6\u00dfe"]
    good = {"name": "\u00f6.npy", "data": array, "extra": b""}
    for flags in (0, 0x800):
        header = header.replace("(02,)", "(2,)").replace(" \n", "\n")
        array = b"\x93NUMPY\1\0" + struct.pack("<H", len(header)) + header.encode() + bytes(8)
        put("in.npz", checkpoints.archive([{**good, "data": array, "local": {"flags": flags},
                                            "central": {"flags": flags}}]))
        if flags:
            made("-o", "out", "in.npz")
        else:
            refused("whose encoding is unknown", "-o", "out", "in.npz")


def folders():
    """A folder with one file and no index; an index counts where there is one."""
    os.mkdir("d")
    refused("the folder 'd' contains neither", "-o", "out", "d")
    model("d/model.safetensors", 1, 2)
    made("-o", "want", "d/model.safetensors")
    made("-o", "out", "d", "d/")
    assert content("out") == content("want")
    assert "d/model.safetensors" in call("inspect", "d").stdout
    put("d/model.safetensors.index.json", b"{}")
    refused("names no shards", "-o", "out", "d")


def words():
    """Checks messages for errors, and spellings of options."""
    model("a", 1, 2)
    model("b", 1, 2, 3)
    refused("weights are not negative", "-o", "out", "--weights=-1,2", "a", "a")
    refused("weights are not negative", "-o", "out", "--weights", "1,-2", "a", "a")
    for spelling in ("f16", "fp16"):
        assert not call("convert", "-o", spelling, "--dtype", spelling, "a").returncode
        assert not call("generate", "-o", "g" + spelling, "--dtype", spelling, "--shape", "resnet18").returncode
    assert content("f16") == content("fp16") and content("gf16") == content("gfp16")
    assert "shapes, [2] and [3]" in call("diff", "a", "b").stdout
    found = json.loads(call("diff", "--json", "a", "b").stdout)["differing"][0]
    assert found["shapes"] == [[2], [3]] and found["element_index"] is None, found
    model("none", numpy.nan)
    assert "    no finite element, 1 NaN, 0 infinite\n" in call("inspect", "--stats", "none").stdout
    put("bad.pt", checkpoints.archive([{"name": "m/data.pkl", "data": b"\x80\x02}q"},
                                       {"name": "m/data/0", "data": b"1234"}]))
    done = call("inspect", "bad.pt")
    assert done.returncode == 0 and "at its top level ('bad.pt' " in done.stdout, done


def repeated():
    """An input that is given twice counts twice, with a message."""
    model("a", 1, 2)
    model("b", 4, 5)
    os.link("a", "c")
    os.symlink("a", "d")
    put("copy", content("a"))
    found = run("-o", "out", "a", "b", "./a", "c", "d", "copy")["inputs"]
    assert [one["same_as"] for one in found] == [None, None, "a", "a", "a", None], found
    assert "note: d counts again: it is the same file as b" not in call("-o", "out", "a", "b", "d").stdout
    assert "note: d counts again: it is the same file as a" in call("-o", "out", "a", "b", "d").stdout
    found = run("-o", "out", "--weights", "1,1,0", "a", "b", "a")["inputs"]
    assert not any(one["same_as"] for one in found), found
    made("-o", "model", "--shard-size", "1", "a")
    assert run("-o", "out", "model", "a", "model/")["inputs"][2]["same_as"] == "model"
    one, other = (f"generate:resnet18?client={i}" for i in (1, 2))
    assert run("-o", "verify:", one, other, one)["inputs"][2]["same_as"] == one
    refused("'1e-400' is too small; it would count as 0", "-o", "out", "--weights", "1e-400,1", "a", "b")
    made("-o", "out", "--weights", "0.0e0,1", "a", "b")


def restarts():
    """A run with other options does not continue silently."""
    model("a", *range(100000))
    model("b", *range(100000))
    words = ["-o", "out", "--chunk", "64KiB", "--resume"]
    done = call(*words, "a", "b")
    assert "not resumed" not in done.stdout, done
    started = subprocess.Popen([FLMEM, "aggregate", "-q", *words, "a", "b"])
    # The journal exists first; an output without a size has nothing that could be continued.
    while not size_of("out.part"):
        if started.poll() is not None:
            os.unlink("out")
            started = subprocess.Popen([FLMEM, "aggregate", "-q", *words, "a", "b"])
    started.kill()
    started.wait()
    left = os.path.exists("out.part")  # it may have been complete already
    done = call(*words, "--json", "--weights", "1,2", "a", "b")
    assert json.loads(done.stdout)["restarted"] or not left, done


def paths():
    """The state and the output by two paths to one file that does not exist yet."""
    model("base", 1, 2)
    os.mkdir("d")
    os.symlink("d", "e")
    for state, output in (("d/s", "e/s"), ("d/../s", "s"), ("s", "./s.part"), ("d/s.part.journal", "e/s")):
        refused("is both state and output", "-a", "fedavgm", "--base", "base", "--state", state, "-o", output, "base")
    assert not os.listdir("d")


if __name__ == "__main__":
    globals()[sys.argv[2]]()
