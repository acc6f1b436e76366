# SPDX-License-Identifier: Apache-2.0
"""Damages a free block of an arena that no thread uses any more; then computes ("compute") or sleeps."""
import ctypes
import sys
import threading
import time

libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
libc.free.argtypes = [ctypes.c_void_p]


def damage():
    block, _ = libc.malloc(40000), libc.malloc(40000)
    libc.free(block)
    ctypes.c_uint64.from_address(block).value = 0x4141414141414140


thread = threading.Thread(target=damage)
thread.start()
thread.join()
print("ready", flush=True)
while sys.argv[1:] == ["compute"]:
    assert sum(i * i for i in range(1000)) == 332833500
time.sleep(1000)
