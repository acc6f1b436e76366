#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
Ends as soon as a thread that enters the interpreter is creating its state there (slow_state.so),
and reports if a finaliser of its garbage runs in that thread during finalisation, which takes long.

usage: safe_ending_beside_state.py SLOW_STATE
"""
import ctypes
import gc
import os
import sys
import threading
import time

MAIN = threading.get_ident()


class Garbage:
    def __init__(self):
        self.me = self

    def __del__(self, ident=threading.get_ident, main=MAIN, write=os.write):
        if ident() != main:
            write(1, b"another thread\n")


class Slow:
    """An object of another thread: finalisation deletes it with that thread's state, with all
    modules intact."""

    def __del__(self, sleep=time.sleep, finalizing=sys.is_finalizing, write=os.write):
        write(1, b"finalizing\n" if finalizing() else b"early\n")
        for _ in range(40):
            sleep(0.05)


def wait(local, ready):
    local.slow = Slow()
    ready.set()
    time.sleep(1000)


slow = ctypes.PyDLL(sys.argv[1])
started = threading.Event()
threading.Thread(target=wait, args=(threading.local(), started), daemon=True).start()
started.wait()
gc.disable()
Garbage()
slow.slow_states()
blocks = ctypes.c_int.in_dll(slow, "blocks")
print("ready", flush=True)
while not blocks.value:
    time.sleep(0.001)
