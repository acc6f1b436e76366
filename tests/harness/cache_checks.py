#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
Checks of the threads of `flmem aggregate` and of the page cache, in the current directory, which is empty:

    cache_checks.py FLMEM CHECK

Exit status 77: not possible here, the reason is printed.
"""
import ctypes
import mmap
import os
import platform
import signal
import struct
import subprocess
import sys
import time

import numpy

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

from harness import tensors  # noqa: E402
from harness.aggregate_calls import FLMEM, kill_begun, run  # noqa: E402

UNTIL_S = 120
ROUNDS = 20
# Pages of the small files are locked (RLIMIT_MEMLOCK); the large files exceed what a device reads
# ahead by itself.
SMALL_MIB, LARGE_MIB = 2, 64
FADVISE = {"x86_64": 221, "aarch64": 223}  # fadvise64()
PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2
KILL_PROCESS, ERRNO, ALLOW = 0x80000000, 0x50000, 0x7fff0000
LOAD, EQUAL, RETURN = 0x20, 0x15, 0x06  # BPF_LD | BPF_W | BPF_ABS, BPF_JMP | BPF_JEQ | BPF_K, BPF_RET | BPF_K
LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.mmap.restype = ctypes.c_void_p


def skip(reason):
    print("SKIP: " + reason)
    raise SystemExit(77)


def write_inputs(mib):
    names = ["a.safetensors", "b.safetensors"]
    for number, name in enumerate(names):
        tensors.write(name, {"w": ("F32", numpy.full(mib << 18, number, "f4"))})
        with open(name, "rb") as file:
            os.fsync(file.fileno())  # dirty pages are not dropped
    return names


def map_file(name):
    size = os.path.getsize(name)
    with open(name, "rb") as file:
        place = LIBC.mmap(None, ctypes.c_size_t(size), mmap.PROT_READ, mmap.MAP_SHARED, file.fileno(), ctypes.c_long(0))
    return ctypes.c_void_p(place), ctypes.c_size_t(size)


def cached_share(name):
    """Returns the share of a file in the page cache, from 0 to 1. A read with RWF_NOWAIT would
    itself read ahead."""
    place, size = map_file(name)
    pages = (ctypes.c_ubyte * (-(-size.value // mmap.PAGESIZE)))()
    failed = LIBC.mincore(place, size, pages)
    LIBC.munmap(place, size)
    if failed:
        skip("mincore: " + os.strerror(ctypes.get_errno()))
    return sum(page & 1 for page in pages) / len(pages)


def drop(names):
    """Empties the page cache of these files; other processes can delay that."""
    until = time.monotonic() + UNTIL_S
    for name in names:
        while cached_share(name):
            if time.monotonic() > until:
                skip("the pages of a file cannot be dropped here")
            with open(name, "rb") as file:
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def pin(name):
    """Reads a file and keeps its pages in the page cache until this process ends."""
    if LIBC.mlock(*map_file(name)):
        skip("pages cannot be locked: " + os.strerror(ctypes.get_errno()))
    assert cached_share(name) == 1


def step(code, value, matched=0, unmatched=0):
    return struct.pack("=HBBI", code, matched, unmatched, value)


def install_filter(steps):
    filters = ctypes.create_string_buffer(b"".join(steps))
    program = ctypes.create_string_buffer(struct.pack("HxxxxxxN", len(steps), ctypes.addressof(filters)))
    if (LIBC.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
            or LIBC.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(program))):
        os._exit(77)


def forbid_read_ahead():
    """Installs a filter that kills the process when it calls posix_fadvise(POSIX_FADV_WILLNEED)."""
    install_filter([step(LOAD, 0), step(EQUAL, FADVISE[platform.machine()], 0, 3),
                    step(LOAD, 16 + 3 * 8), step(EQUAL, os.POSIX_FADV_WILLNEED, 0, 1),
                    step(RETURN, KILL_PROCESS), step(RETURN, ALLOW)])


def ignore_advice():
    """Installs a filter that suppresses reading ahead and dropping: data read through the page
    cache stay there."""
    install_filter([step(LOAD, 0), step(EQUAL, FADVISE[platform.machine()], 0, 1),
                    step(RETURN, ERRNO), step(RETURN, ALLOW)])


def average_filtered(install, names, *words):
    """Returns the exit status; negative: the signal that ended it."""
    if platform.machine() not in FADVISE:
        skip("the number of fadvise64() is not known for this machine")
    words = [FLMEM, "aggregate", "-q", "-o", "out.safetensors", *words, *names]
    done = subprocess.run(words, check=False, preexec_fn=install)  # pylint: disable=subprocess-popen-preexec-fn
    if done.returncode == 77:
        skip("a seccomp filter cannot be installed here")
    return done.returncode


def read_ahead():
    """Checks that reading ahead is requested for data on the disk, and not for data in the page
    cache."""
    pieces = ("--chunk", "512KiB")  # too small to be read past the page cache
    names = write_inputs(LARGE_MIB)
    drop(names)
    assert average_filtered(forbid_read_ahead, names, *pieces) == -signal.SIGSYS, "nothing is read ahead from the disk"
    for name in write_inputs(SMALL_MIB):
        pin(name)
    assert average_filtered(forbid_read_ahead, names, *pieces) == 0, "what is in the page cache is read ahead"


def past():
    """Checks that data outside of the page cache are read past it, in large pieces."""
    names = write_inputs(LARGE_MIB)
    if not os.major(os.stat(names[0]).st_dev):
        skip("this file system is not on a block device of its own")
    drop(names)
    assert average_filtered(ignore_advice, names) == 0
    shares = [cached_share(name) for name in names]
    # The kernel by itself reads on behind the header, as far as the device reads ahead.
    assert all(share < 0.3 for share in shares), f"read through the page cache: {shares}"
    drop(names)
    assert average_filtered(ignore_advice, names, "--chunk", "512KiB") == 0
    shares = [cached_share(name) for name in names]
    assert all(share > 0.7 for share in shares), f"this test notices nothing: {shares}"


def kept():
    """Checks that data in the page cache stay there, with the output, and that other data do not
    fill it."""
    names = write_inputs(LARGE_MIB)
    drop(names)
    run("-o", "out.safetensors", "--threads", "2", "--chunk", "1MiB", *names)
    shares = {name: cached_share(name) for name in names}
    # the kernel itself reads on behind a header
    assert all(share < 0.3 for share in shares.values()), shares
    # the last chunks, and the kernel's own reads
    assert cached_share("out.safetensors") < 0.6, "the output fills the page cache"
    for name in names:
        with open(name, "rb") as file:
            file.read()
    if not all(cached_share(name) == 1 for name in names):
        skip("the page cache does not keep files here")
    run("-o", "out.safetensors", "--threads", "2", "--chunk", "1MiB", *names)
    shares = [cached_share(name) for name in names]
    assert all(shares), shares
    assert cached_share("out.safetensors") > 0.7, "the output is dropped though there is room for it"


def resumed():
    """Checks that a continued run keeps data that were in the page cache."""
    names = write_inputs(LARGE_MIB)
    words = ["out.safetensors", "--threads", "2", "--chunk", "4MiB", *names]
    kill_begun("out.safetensors", "-o", *words)
    for name in names:
        with open(name, "rb") as file:
            file.read()
    if not all(cached_share(name) == 1 for name in names):
        skip("the page cache does not keep files here")
    assert run("--resume", "-o", *words)["resumed_bytes"] > 0
    shares = [cached_share(name) for name in names]
    assert all(share > 0.99 for share in shares), f"dropped by a run that was continued: {shares}"


def tasks(pid):
    try:
        return len(os.listdir(f"/proc/{pid}/task"))
    except FileNotFoundError:
        return 0


def threads():
    """Checks the number of threads: two per processor that it may use, at most eight."""
    processors = sorted(os.sched_getaffinity(0))
    write_inputs(SMALL_MIB)
    for allowed in {1, 2, len(processors)}:
        if allowed > len(processors):
            continue
        os.sched_setaffinity(0, processors[:allowed])
        expected = min(2 * allowed, 8)
        result = run("-o", "out.safetensors", "a.safetensors", "b.safetensors")
        assert result["threads"] == expected, (allowed, result)
        result = run("-o", "out.safetensors", "--threads", "3", "a.safetensors", "b.safetensors")
        assert result["threads"] == 3, result
        count_running(expected)


def count_running(expected):
    """Counts the threads besides the main one, in a run that takes much longer than this check."""
    words = [FLMEM, "aggregate", "-q", "-o", "verify:", *["generate:llama-3.1-70b"] * 2]
    with subprocess.Popen(words, stdout=subprocess.DEVNULL) as process:
        try:
            until = time.monotonic() + UNTIL_S
            while tasks(process.pid) < expected + 1 and process.poll() is None and time.monotonic() < until:
                time.sleep(0.01)
            for _ in range(ROUNDS):
                assert tasks(process.pid) == expected + 1, (expected, tasks(process.pid), process.poll())
                time.sleep(0.01)
        finally:
            process.kill()


CHECKS = (threads, read_ahead, past, kept, resumed)

if __name__ == "__main__":
    {check.__name__: check for check in CHECKS}[sys.argv[2]]()
