# SPDX-License-Identifier: Apache-2.0
"""
A Python program that waits, computes and leaves garbage in several threads, and checks itself.
With `torch` it also creates and frees tensors with known contents. With `heap` it frees much memory
now, and again for every line that it reads, and says `filled` then. Runs on Python 3.6 and later.
"""
import ctypes
import errno
import gc
import mmap
import os
import select
import selectors
import signal
import socket
import struct
import sys
import threading
import time

WAIT_S = 0.04


class Status:
    """struct victim_status of safe_common.h."""

    def __init__(self):
        self._lock = threading.Lock()
        path = os.environ.get("VICTIM_STATUS")
        if path:
            with open(path, "r+b") as file:
                self._page = mmap.mmap(file.fileno(), 4096)
        else:
            self._page = mmap.mmap(-1, 4096)

    def _add(self, offset):
        value = struct.unpack_from("=Q", self._page, offset)[0] + 1
        struct.pack_into("=Q", self._page, offset, value)
        return value

    def round(self):
        with self._lock:
            self._add(0)

    def interrupted(self):
        with self._lock:
            self._add(16)

    def fail(self, text):
        with self._lock:
            if self._add(8) == 1:
                self._page[24:264] = text.encode()[:239].ljust(240, b"\0")


def guarded(status, function):
    """Repeats a thread's function without end; an exception is a failure."""
    def run():
        while True:
            try:
                function(status)
            except Exception as error:  # pylint: disable=broad-except
                status.fail("{}: {!r}".format(function.__name__, error))
            status.round()
    return run


def sleeper(status):
    before = time.monotonic()
    time.sleep(WAIT_S)
    if time.monotonic() - before < WAIT_S * 0.99:
        status.fail("time.sleep ended early")


def waiter(status):
    if threading.Event().wait(WAIT_S):
        status.fail("an event that nobody set was set")


LIBC = ctypes.CDLL(None, use_errno=True)


def polling(status):
    """Waits without Python, which repeats an interrupted call by itself."""
    if LIBC.poll(None, ctypes.c_ulong(0), int(WAIT_S * 1000)) == 0:
        return
    if ctypes.get_errno() == errno.EINTR:
        status.interrupted()
    else:
        status.fail("poll of nothing returned something")


LOCK = threading.Lock()


def locker(_status):
    with LOCK:
        time.sleep(WAIT_S / 4)
    if LOCK.acquire(timeout=WAIT_S):
        LOCK.release()


LEFT, RIGHT = socket.socketpair()
SELECTOR = selectors.DefaultSelector()
SELECTOR.register(LEFT, selectors.EVENT_READ)


def selecting(status):
    if SELECTOR.select(WAIT_S):
        status.fail("a silent socket was ready")
    RIGHT.send(b"x")
    if not SELECTOR.select() or LEFT.recv(1) != b"x":
        status.fail("a byte was lost")


def made_of(value, length):
    return bytes([value % 256]) * length


class Cycle:
    def __init__(self, value):
        self.content = made_of(value, 500 + value)
        self.itself = self


def littering(status):
    cycles = [Cycle(i) for i in range(500)]
    time.sleep(WAIT_S / 4)
    for i, cycle in enumerate(cycles):
        if cycle.content != made_of(i, 500 + i):
            status.fail("an object was damaged")
    del cycles, cycle
    gc.collect()


HEAP_BLOCKS = 40000  # about 64 MB
# one of so many blocks is kept, so that the allocator cannot release the memory by itself
KEPT_OF = 16


class Heap:
    def __init__(self):
        self.kept = []

    def fill(self):
        blocks = [made_of(i, 1200 + i % 800) for i in range(HEAP_BLOCKS)]
        self.kept = list(enumerate(blocks))[::KEPT_OF]

    def checking(self, status):
        time.sleep(WAIT_S)
        for i, block in self.kept:
            if block != made_of(i, 1200 + i % 800):
                status.fail("a kept block was damaged")

    def refilling(self):
        for _ in iter(sys.stdin.readline, ""):
            self.fill()
            sys.stdout.write("filled\n")
            sys.stdout.flush()


def tensors(status):
    import torch
    kept = [torch.full((1000 + i,), float(i)) for i in range(300)]
    kept = kept[::2]
    time.sleep(WAIT_S)
    for i, tensor in enumerate(kept):
        if float(tensor.sum()) != 2.0 * i * (1000 + 2 * i):
            status.fail("a tensor was damaged")
    product = torch.mm(torch.ones(64, 64), torch.ones(64, 64))
    if float(product[0, 0]) != 64.0:
        status.fail("a matrix product is wrong")


def main():
    status = Status()
    signal.signal(signal.SIGUSR1, lambda *unused: None)
    functions = [sleeper, waiter, polling, locker, locker, selecting, littering]
    if "torch" in sys.argv[1:]:
        tensors(status)
        functions.append(tensors)
    if "heap" in sys.argv[1:]:
        heap = Heap()
        heap.fill()
        functions.append(heap.checking)
        threading.Thread(target=heap.refilling, daemon=True).start()
    for function in functions:
        threading.Thread(target=guarded(status, function), daemon=True).start()
    sys.stdout.write("ready {}\n".format(os.getpid()))
    sys.stdout.flush()
    while True:
        if select.select([], [], [], WAIT_S)[0]:
            status.fail("select on nothing returned something")
        status.round()


if __name__ == "__main__":
    main()
