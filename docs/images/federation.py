# SPDX-License-Identifier: Apache-2.0
"""A process of a small federation, for the images of docs/; its own name is that of its site.

Each round it takes memory, drops it at the end of the round and keeps a little of it. The server
(hub) writes its rounds to log.txt as NVFlare does. FEDERATION_BEGIN is when round 0 starts, in
seconds since 1970.
"""
import mmap
import os
import sys
import time

BLOCK = 50_000  # below glibc's mmap threshold, so it lies in the heap
ROUND_S = 1.0

# MiB that stay, MiB freed at the start, MiB that a round takes, KiB that each round leaves
SITES = {"hub": (60, 90, 24, 0), "hospital-1": (40, 0, 16, 0), "hospital-2": (40, 0, 16, 1400)}


def blocks(mib):
    return [b"\1" * BLOCK for _ in range((mib << 20) // BLOCK)]


def scratch_of(mib):
    """A mapping, as malloc makes them for large tensors: it goes back when it is dropped."""
    scratch = mmap.mmap(-1, mib << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    for offset in range(0, mib << 20, mmap.PAGESIZE):
        scratch[offset] = 1
    return scratch


def announce(number):
    with open("log.txt", "a", encoding="ascii") as log:
        stamp = time.strftime("%Y-%m-%d %H:%M:%S,000")
        log.write(f"{stamp} - FedAvg - INFO - Round {number} started.\n")


def main():
    site, begin = os.path.basename(sys.argv[0]), float(os.environ["FEDERATION_BEGIN"])
    stays, retained, scratch_mib, leaves = SITES[site]
    freed, number, kept = blocks(retained), 0, []
    model = blocks(stays)
    del freed
    while model:
        time.sleep(max(0.0, begin + number * ROUND_S - time.time()))
        if site == "hub":
            announce(number)
        scratch = scratch_of(scratch_mib)
        kept.append(b"\1" * (leaves << 10))
        time.sleep(ROUND_S * 0.6)
        scratch.close()
        number += 1


main()
