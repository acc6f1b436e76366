# SPDX-License-Identifier: Apache-2.0
"""
What the peers of the part "transfer" share: the model, its digest, and the report of a process: the time at which it
began to send or had received, its peak, and what it sent or received. `peer.py PATH MIB SEED` writes a model.
"""
import hashlib
import json
import os
import resource
import struct
import sys
import time

import numpy

LARGEST_TENSOR = 16 << 20


def write(path, mib, seed):
    """Makes a model of float32 tensors of at most 16 MiB, at least four of them."""
    count = max(4, (mib << 20) // LARGEST_TENSOR)
    size = (mib << 20) // count
    header = {f"layers.{n:03}.weight": {"dtype": "F32", "shape": [size // 4096, 1024],
                                        "data_offsets": [n * size, (n + 1) * size]} for n in range(count)}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    random = numpy.random.default_rng(seed)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for _ in range(count):
            (random.standard_normal(size // 4, "f4") * numpy.float32(.02)).tofile(file)


def read(path):
    """Returns the tensors in memory of this process, as a job has them after training."""
    with open(path, "rb") as file:
        header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
        return {name: numpy.fromfile(file, "f4", (about["data_offsets"][1] - about["data_offsets"][0]) // 4)
                .reshape(about["shape"]) for name, about in header.items()}


def digest(state):
    """Returns a digest of names, shapes and bytes; the tensors are NumPy's or PyTorch's."""
    found = hashlib.sha256()
    for name in sorted(state):
        array = numpy.ascontiguousarray(state[name])
        found.update(f"{name} {array.dtype} {array.shape}\n".encode())
        found.update(array.reshape(-1).view("u1"))
    return found.hexdigest()


def peak_bytes():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def report(path, state, **more):
    """Writes the report. Times are of CLOCK_MONOTONIC, which all processes share. The peak is taken
    before the digest."""
    found = {"peak": peak_bytes(), "digest": more.pop("digest", None) or digest(state), **more}
    with open(path + ".new", "w", encoding="ascii") as file:
        json.dump(found, file)
    os.replace(path + ".new", path)


def announce(address):
    print(f"listening at {address}", file=sys.stderr, flush=True)


def wait_for_end():
    """Waits until the benchmark closes the input."""
    sys.stdin.read()


now = time.monotonic

if __name__ == "__main__":
    write(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
