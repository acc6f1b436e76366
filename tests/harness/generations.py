#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
Checks of `flmem aggregate generate` and of generated inputs, in the current directory, which is empty:

    generations.py FLMEM CHECK
"""
import json
import os
import pty
import re
import signal
import subprocess
import sys

import numpy

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

from harness import tensors  # noqa: E402
from harness.file_sizes import size_of  # noqa: E402

FLMEM = sys.argv[1]
MASK = (1 << 64) - 1


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


def number(key, index):
    """SplitMix64: returns the number at `index`."""
    z = (key + (index + 1) * 0x9e3779b97f4a7c15) & MASK
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9 & MASK
    z = (z ^ z >> 27) * 0x94d049bb133111eb & MASK
    return z ^ z >> 31


def signed(value, bits):
    return value - (1 << bits) if value >> (bits - 1) else value


def value_of(name, index, is_scale, seed, client):
    """Returns one element, computed by itself."""
    key = 0xcbf29ce484222325
    for byte in name.encode():
        key = (key ^ byte) * 0x100000001b3 & MASK
    key = number(key, seed)
    group, place = divmod(index, 32)
    units = signed(number(key, group * 16 + place % 16) >> place // 16 * 32 & 0xffffffff, 32) >> 8
    if client:
        varied = number(number(~key & MASK, client), group * 8 + place % 8)
        units += signed(varied >> place // 8 * 16 & 0xffff, 16) * 16
    return units * 2.0**-28 + is_scale


def values():
    """Checks every tensor's first, last and some other values."""
    for seed, client, kind in ((0, 0, "F32"), (7, 0, "F64"), (2**64 - 1, 3, "F32"), (1, 2**63, "BF16")):
        run("generate", "--shape", "resnet18", "--seed", str(seed), "--client", str(client), "--dtype",
            kind, "-o", "out.safetensors")
        found, notes = tensors.read("out.safetensors")
        assert notes is None and len(found) == 122
        for name, (dtype, array) in found.items():
            flat = array.reshape(-1)
            if name.endswith("num_batches_tracked"):
                assert dtype == "I64" and array.shape == () and flat[0] == 1000
                continue
            assert dtype == kind
            is_scale = array.ndim == 1 and name.endswith((".weight", ".running_var"))
            for index in {0, 1, 31, 32, 63, flat.size // 2, flat.size - 1}:
                expected = numpy.array([value_of(name, index, is_scale, seed, client)])
                assert tensors.from_double(dtype, expected)[0] == flat[index], (name, index)


def same_bytes():
    """Checks that values do not depend on the threads, nor on being read as an input or from a
    file."""
    words = ["--shape", "resnet18", "--seed", "3", "--client", "1"]
    name = "generate:resnet18?client=1&seed=3"
    result = run("generate", *words, "-o", "a.safetensors")
    for threads in ("1", "3"):
        run("generate", *words, "--threads", threads, "-o", "b.safetensors")
        assert content("a.safetensors") == content("b.safetensors")
    run("-o", "b.safetensors", "--chunk", "64K", name)
    assert content("a.safetensors") == content("b.safetensors")
    listed = [run("inspect", path) for path in (name, "a.safetensors")]
    for one in listed:
        one["models"][0]["files"][0].pop("path")
        one["models"][0].pop("path", None)
    assert listed[0] == listed[1], listed
    assert result["crc32c"] == listed[0]["models"][0]["files"][0]["crc32c"]
    subprocess.run([FLMEM, "aggregate", "diff", name, "a.safetensors"], check=True,
                   stdout=subprocess.DEVNULL)
    others = [f"generate:resnet18?seed=3&client={client}" for client in (2, 3)]
    run("-o", "mixed.safetensors", "--weights", "1,2,3", "a.safetensors", *others)
    run("-o", "made.safetensors", "--weights", "1,2,3", name, *others)
    assert content("mixed.safetensors") == content("made.safetensors")


def verified():
    """Checks that a mean that is not written is the one that would be written."""
    names = [f"generate:resnet18?seed=4&client={client}" for client in (1, 2)]
    for dtype in ("fp64", "fp32", "fp16", "bf16", "fp8-e4m3", "fp8-e5m2"):
        words = ["--weights", "3,1000", "--chunk", "192K", *(f"{n}&dtype={dtype}" for n in names)]
        made = run("-o", "out.safetensors", *words)
        found = run("-o", "verify:", *words)
        assert found["verified_elements"] == 11699132 and made["verified_elements"] == 0
        assert found["crc32c"] == made["crc32c"] and found["output_bytes"] == made["output_bytes"]
        os.unlink("out.safetensors")
    assert os.listdir(".") == []
    assert run("-o", "verify:", names[0])["verified_elements"] == 11699132
    assert os.listdir(".") == []


def resumed():
    """Other seeds and clients start over."""
    made = {}
    for seed, client in ((1, 0), (2, 0), (1, 1)):
        name = f"generate:resnet18?seed={seed}&client={client}"
        run("-o", "out.safetensors", "--resume", name)
        made[name] = content("out.safetensors")
    assert len(set(made.values())) == 3
    names = list(made)
    run("-o", "expected.safetensors", *names[:2])
    for name in (names[2], names[1]):  # a stopped run of other clients, then this one
        process = subprocess.Popen([FLMEM, "aggregate", "-q", "--resume", "--chunk", "64K", "-o",
                                    "out.safetensors", names[0], name])
        while process.poll() is None:
            if size_of("out.safetensors.part.journal") > 100:
                process.kill()
        process.wait()
    run("-o", "out.safetensors", "--resume", "--chunk", "64K", names[0], names[1])
    assert content("out.safetensors") == content("expected.safetensors")


def on_terminal(*words):
    """Returns the process and the terminal that is its stderr."""
    terminal, theirs = pty.openpty()
    process = subprocess.Popen([FLMEM, "aggregate", *words], stdout=subprocess.DEVNULL, stderr=theirs)
    os.close(theirs)
    return process, terminal


def more_of(terminal):
    """Returns the output since the last call, b"" at the end: Linux reports EIO then."""
    try:
        return os.read(terminal, 4096)
    except OSError:
        return b""


def progress():
    """Checks for a bar on a terminal, which a signal and the end remove; there is none with
    --quiet."""
    process, terminal = on_terminal("-o", "verify:", "generate:llama-3.1-70b")
    bar = re.compile(rb"\r\x1b\[K\[#* *\] +[0-9]+ %  [0-9.]+ .iB of 131 GiB, [0-9.]+ .?i?B/s, .+ left")
    text = b""
    while not bar.search(text):
        some = more_of(terminal)
        assert some, text
        text += some
    process.send_signal(signal.SIGTERM)
    while some := more_of(terminal):
        text += some
    assert process.wait() == 7, process.returncode
    last = text[text.rindex(b"\r\x1b[K") + 4:]
    assert last.startswith(b"flmem aggregate: stopped before all of 'verify:' was compared"), text
    process, terminal = on_terminal("--quiet", "-o", "verify:", "generate:resnet18")
    assert more_of(terminal) == b"" and process.wait() == 0


CHECKS = (values, same_bytes, verified, resumed, progress)

if __name__ == "__main__":
    {check.__name__: check for check in CHECKS}[sys.argv[2]]()
