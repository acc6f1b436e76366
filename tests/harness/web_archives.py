#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
PyTorch checkpoints and NumPy archives on web servers, good and bad ones; in the current directory,
which is empty:

    web_archives.py FLMEM CHECK [SEED]
"""
import os
import random
import struct
import sys

import numpy

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

from harness import checkpoints, web  # noqa: E402
from harness.aggregate_calls import call, content, put, refused, run  # noqa: E402


def make_models(kind, count=3, elements=60000, **options):
    draw, names = numpy.random.default_rng(7), []
    for number in range(count):
        model = {"a": ("F32", draw.normal(size=(elements // 10, 10)).astype("f4")),
                 "b": ("F16", draw.normal(size=333).astype("f2")),
                 "c": ("I64", numpy.array([5, 6], "i8"))}
        names.append(f"{number}{kind}")
        if kind == ".npz":
            numpy.savez(names[-1], **{name: array for name, (_, array) in model.items()})
        else:
            checkpoints.write(names[-1], model, **options)
    return names


def addresses(server, kind, names):
    return [f"{server.base}/{kind}/{name}" for name in names]


def means():
    """Compares with the result of the same files on the disk, whatever a good server does."""
    for suffix in (".pt", ".bin", ".npz"):
        names, server = make_models(suffix), web.Server()
        server.lies_from = 8
        for out in ("out.safetensors", "out" + suffix):
            run("-o", "want-" + out, "--weights", "1,2,3", *names)
            for kind in ("plain", "unmarked", "chunked", "unlimited", "moved"):
                run("-o", out, "--weights", "1,2,3", "--threads", "4", "--chunk", "64KiB",
                    *addresses(server, kind, names))
                assert content(out) == content("want-" + out), (kind, out)
        if suffix != ".bin":
            # each failure takes time
            run("-o", "out.safetensors", "--weights", "1,2,3", names[0], *(
                f"{server.base}/{kind}/{name}" for kind, name in zip(("busy", "broken"), names[1:])))
            assert content("out.safetensors") == content("want-out.safetensors"), suffix
        mixed = [names[0], *addresses(server, "plain", names[1:])]
        run("-o", "out.safetensors", "--weights", "1,2,3", *mixed)
        assert content("out.safetensors") == content("want-out.safetensors")


def others():
    """Tests the other commands, a dict below the top level, 64-bit records, and checksums after the
    bytes."""
    server = web.Server()
    entries = checkpoints.entries_of({"w": ("F32", numpy.arange(5000, dtype="f4"))})
    for entry in entries:
        crc = struct.pack("<III", checkpoints.zlib.crc32(entry["data"]), len(entry["data"]), len(entry["data"]))
        entry["local"] = {"flags": 8, "crc": 0, "stored": 0, "size": 0}
        entry["central"] = {"flags": 8, "crc": struct.unpack("<I", crc[:4])[0], "stored": len(entry["data"]),
                            "size": len(entry["data"])}
    put("later.pt", checkpoints.archive(entries))
    make_models(".pt", 1, large=True)
    os.rename("0.pt", "large.pt")
    make_models(".pt", 1, key="state_dict")
    os.rename("0.pt", "below.pt")
    for name, key in (("later.pt", []), ("large.pt", []), ("below.pt", ["--key", "state_dict"]),
                      (make_models(".npz", 1)[0], [])):
        url = f"{server.base}/plain/{name}"
        there, here = (run("inspect", "--stats", *key, one)["models"][0] for one in (url, name))
        assert there["tensors"] == here["tensors"] and there["format"] == here["format"], (there, here)
        assert there["files"][0]["crc32c"] == here["files"][0]["crc32c"]
        assert call("diff", *key, name, url).returncode == 0
        for out in ("x.safetensors", "x" + name[-4:].replace("r.pt", ".pt")):
            for where, to in ((name, "disk-" + out), (url, "web-" + out)):
                assert call("convert", "-q", *key, "-o", to, where).returncode == 0, (name, out)
            assert content("disk-" + out) == content("web-" + out)
    there, here = (run("inspect", one)["models"][0] for one in (f"{server.base}/plain/below.pt", "below.pt"))
    assert "contains 'epoch', which is not a tensor" in there["unlisted"] and there["size_bytes"] == here["size_bytes"]
    refused("contains 'epoch', which is not a tensor", "-o", "x", f"{server.base}/plain/below.pt")


def requests():
    """Counts requests: one for each tensor of an archive with large ones, not one for each byte
    that is read."""
    server = web.Server()
    numpy.savez("many.npz", **{f"t{number}": numpy.full(5000, number, "f4") for number in range(50)})
    done = run("inspect", "--headers-only", f"{server.base}/plain/many.npz")
    assert done["models"][0]["tensor_count"] == 50, done
    assert len(server.requests) <= 55, len(server.requests)


def lies():
    """Checks faults of the server: each has its own message, and the old output stays."""
    put("out", b"old")
    for names in (make_models(".pt", 2), make_models(".npz", 2)):
        server = web.Server()
        for server.lies_from in (8, os.path.getsize(names[1]) - 100):
            server.lies_to = 1 << 62
            for kind, status, text in (
                    ("whole", 2, "ignores Range requests"),
                    ("shifted", 7, "instead of the requested"),
                    ("short", 7, "with 1 bytes remaining to read"),
                    ("less", 7, "bytes for a part of"),
                    ("more", 7, "sends more bytes than it announced"),
                    ("changing", 2, "changed while it was read"),
                    ("replaced", 2, "changed while it was read"),
                    ("slow", 7, "sends less than 1 KiB a second for 1 seconds"),
                    ("none", 2, "does not have 'http"),
                    ("secret", 4, "refuses")):
                if server.lies_from > 8 and kind not in ("whole", "replaced", "none", "secret"):
                    continue  # no request begins there
                refused(text, "-o", "out", "--retries", "1", "--timeout", "1s", names[0],
                        *addresses(server, kind, names[1:]), status=status)
                assert content("out") == b"old", kind


def damage():
    """Checks that data at an address are treated as the same bytes on the disk, whatever they
    are."""
    seed = int(sys.argv[3]) if len(sys.argv) > 3 else 20261123
    draw, server = random.Random(seed), web.Server()
    for name in (make_models(".pt", 1, 600)[0], make_models(".npz", 1, 600)[0]):
        whole = content(name)
        for number in range(60):
            data = bytearray(whole)
            for _ in range(draw.randrange(1, 4)):
                # The directory is at the end, headers and the pickle are at the beginning.
                at = draw.choice((draw.randrange(len(data)), draw.randrange(600), -1 - draw.randrange(500)))
                data[at] = draw.choice((0, 1, 255, data[at] ^ 1 << draw.randrange(8)))
            if number % 10 == 9:
                del data[draw.randrange(len(data)):]
            bad = "bad" + name[-4:].lstrip("0")
            put(bad, data)
            url = f"{server.base}/plain/{bad}"
            for words in (["-o", "x.safetensors"], ["inspect"]):
                here, there = call(*words, bad), call(*words, url)
                assert here.returncode in (0, 2), (seed, number, here)
                said = there.stderr.replace(url, bad)
                if "no directory" in here.stderr or "is truncated" in here.stderr:
                    # another reader has reported it
                    said = here.stderr if there.returncode else said
                assert (here.returncode, here.stderr) == (there.returncode, said), (seed, name, number, here, there)
                if not here.returncode and words[0] == "-o":
                    assert call("diff", bad, "x.safetensors").returncode in (0, 2), (seed, number)


if __name__ == "__main__":
    globals()[sys.argv[2]]()
