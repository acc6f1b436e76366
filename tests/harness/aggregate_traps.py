#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
Files that try to get a wrong model, or somebody's data lost, from `flmem aggregate`; in the current
directory, which is empty:

    aggregate_traps.py FLMEM CHECK
"""
import os
import struct
import sys

import numpy

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

from harness import checkpoints, tensors  # noqa: E402
from harness.aggregate_calls import call, content, put, refused  # noqa: E402


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
    assert not os.path.exists("other")


def metadata():
    """PyTorch 2 can say of a tensor that its elements are to be negated."""
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


def names():
    """Outputs that nobody could read."""
    numpy.savez("in.npz", __metadata__=numpy.array([1], "f4"))
    refused("a name that the format reserves", "-o", "out", "in.npz")
    refused("a name that the format reserves", "convert", "-o", "out", "in.npz")
    made("-o", "out.npz", "in.npz")


def foreign():
    """Files of others that are called like parts of an output stay as they are."""
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
    """A link to a device is no place for a model; one to a file is replaced, and the file stays."""
    model("a", 1, 2)
    os.symlink("/dev/null", "null")
    refused("is not a regular file", "-o", "null", "a")
    assert os.path.islink("null")
    put("old", b"old")
    os.symlink("old", "link")
    made("-o", "link", "a")
    assert content("old") == b"old" and not os.path.islink("link")


def rounds():
    """Names with which a round could not be repeated, and numbers that would stay for all rounds."""
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


if __name__ == "__main__":
    globals()[sys.argv[2]]()
