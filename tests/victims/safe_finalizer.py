# SPDX-License-Identifier: Apache-2.0
"""
A Python program in which a finaliser needs what another thread holds: safe_finalizer.py GO

A thread is blocked in a read with a lock held, as one that serves a connection is, and garbage waits
for a collector whose finaliser takes that lock. When the file GO appears, the main thread changes
its group as setgid() does in all threads, forks, and lets the reader go on; then everything has to
come to its end. It says each step that it has reached.
"""
import gc
import logging
import os
import sys
import threading
import time

LIMIT_S = 120
LOCK = threading.Lock()
HELD = threading.Event()
FINALISED = threading.Event()


def say(text):
    os.write(1, (text + "\n").encode())


class Cycle:
    def __init__(self):
        self.itself = self

    def __del__(self):
        with LOCK:
            logging.getLogger("finaliser").debug("takes the lock")
            threading.current_thread()
            FINALISED.set()


def read_with_lock(descriptor):
    with LOCK:
        HELD.set()
        os.read(descriptor, 1)
    say("released")


def fork():
    child = os.fork()
    if not child:
        os._exit(7)
    if os.WEXITSTATUS(os.waitpid(child, 0)[1]) != 7:
        say("the child failed")


def main(go):
    gc.disable()
    # makes the C library load what it needs at the end of the first thread
    first = threading.Thread(target=int)
    first.start()
    while len(os.listdir("/proc/self/task")) > 1:
        time.sleep(0.001)
    source, sink = os.pipe()
    thread = threading.Thread(target=read_with_lock, args=(source,))
    thread.start()
    HELD.wait()
    Cycle()
    known = set(threading.enumerate())
    say("ready")
    while not os.path.exists(go):
        time.sleep(0.01)
    os.setgid(os.getgid())
    say("set the group")
    fork()
    say("forked")
    os.write(sink, b"x")
    thread.join(LIMIT_S)
    say("joined" if not thread.is_alive() else "the reader is stuck")
    say("finalised" if FINALISED.wait(LIMIT_S) else "the finaliser is stuck")
    end = time.monotonic() + LIMIT_S
    while set(threading.enumerate()) - known and time.monotonic() < end:
        time.sleep(0.01)
    left = set(threading.enumerate()) - known
    say("left behind: {}".format(left) if left else "alone")
    time.sleep(1000)


main(sys.argv[1])
