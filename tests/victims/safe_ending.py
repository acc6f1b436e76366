# SPDX-License-Identifier: Apache-2.0
"""
A Python program that ends while code of flmem waits in it: safe_ending.py GO stay|release

A finaliser of its garbage waits for a lock that is never released (stay), or is released only
while the interpreter ends (release): the waiting thread then takes the lock of an interpreter that
is ending. The program ends when the file GO appears, with exit status 0.
"""
import gc
import os
import sys
import threading
import time

LOCK = threading.Lock()


class Cycle:
    def __init__(self):
        self.itself = self

    def __del__(self, lock=LOCK):
        lock.acquire()
        while True:
            sum(range(1000))


class Last:
    """Is deleted when the interpreter has begun to end."""

    def __del__(self, lock=LOCK, sleep=time.sleep, write=os.write, how=sys.argv[2]):
        write(1, b"finalising\n")
        if how == "release":
            lock.release()
            sleep(0.3)
        write(1, b"end\n")


def main(go):
    gc.disable()
    LOCK.acquire()
    Cycle()
    sys.last_of_all = Last()
    os.write(1, b"ready\n")
    while not os.path.exists(go):
        time.sleep(0.01)


main(sys.argv[1])
