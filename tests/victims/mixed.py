# SPDX-License-Identifier: Apache-2.0
"""A process with every kind of memory that looks like a leak but is not one: 500 MiB that it has
freed and glibc retains, 200 MiB that it holds, 100 MiB of shared memory, and arenas of CPython that
are full of small objects. It waits for a line on standard input, or without limit."""
import mmap
import os
import sys
import threading

MIB = 1 << 20
RETAINED, LIVE, SHARED, SMALL = 500 * MIB, 200 * MIB, 100 * MIB, 8 * MIB

BLOCK = 100_000  # below glibc's mmap threshold of 128 KiB, so it lies in the heap


def blocks(total):
    """Returns blocks that were written to, so that they are resident."""
    return [b"\1" * BLOCK for _ in range(total // BLOCK)]


def shared_memory(total):
    """Makes shared memory as PyTorch does to pass tensors to its DataLoader workers: a file on
    tmpfs that has no name when it is used."""
    path = f"/dev/shm/mixed_{os.getpid()}"
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    os.unlink(path)
    os.posix_fallocate(descriptor, 0, total)
    area = mmap.mmap(descriptor, total)
    os.close(descriptor)
    for offset in range(0, total, mmap.PAGESIZE):
        area[offset] = 1
    return area


def main():
    small = [b"%040d" % i for i in range(SMALL // 80)]  # 73 bytes each, so they are in blocks of 80
    freed = blocks(RETAINED)
    live = blocks(LIVE)
    shared = shared_memory(SHARED)
    del freed
    print("ready", os.getpid(), flush=True)
    if sys.stdin.readline():
        return
    threading.Event().wait()
    del small, live, shared


main()
