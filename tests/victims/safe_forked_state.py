#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
Forks a child each time that a thread which enters the interpreter is creating its state there
(slow_state.so), and reports whether the child ends.

usage: safe_forked_state.py SLOW_STATE
"""
import ctypes
import os
import signal
import sys
import time
import warnings

END_S = 20
REST_S = 1

warnings.simplefilter("ignore")  # a warning about a fork beside a thread
slow = ctypes.PyDLL(sys.argv[1])
slow.slow_states()
blocks = ctypes.c_int.in_dll(slow, "blocks")


def ends(child):
    started = time.monotonic()
    while time.monotonic() - started < END_S:
        if os.waitpid(child, os.WNOHANG)[0]:
            return True
        time.sleep(0.002)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return False


print("ready", flush=True)
seen, last = 0, time.monotonic()
while not seen or time.monotonic() - last < REST_S:
    if blocks.value == seen:
        time.sleep(0.002)
        continue
    seen, last = blocks.value, time.monotonic()
    child = os.fork()
    if child == 0:
        sys.exit(0)
    print("ended" if ends(child) else "hangs", flush=True)
print("rests", flush=True)
time.sleep(1000)
