# SPDX-License-Identifier: Apache-2.0
"""
The process that is measured: PyTorch, 20 threads, about 1,700 mappings, 300,000 freed tensors.

usage: target.py GAUGE_LIBRARY

Its worker threads create tensors and free all but a few of them, as between two rounds of a
federated job, and then wait for more work. It obeys one command per line on standard input and
answers with one line; gauge.c measures in it.
"""
import ctypes
import os
import queue
import sys
import threading

import torch

THREADS = 20
TENSORS = 300_000
WORKERS = 8
# one of so many tensors is kept, so that its neighbours cannot be released with the heap's top
KEPT = 500
ERESTARTSYS = 512
SHAPES = (16, 64, 128, 256, 512, 768)  # elements of float32


class Worker(threading.Thread):
    def __init__(self):
        super().__init__(daemon=True)
        self.todo, self.done = queue.Queue(), queue.Queue()
        self.kept = []

    def run(self):
        while True:
            count = self.todo.get()
            tensors = [torch.ones(SHAPES[i % len(SHAPES)]) for i in range(count)]
            self.kept = tensors[::KEPT]
            del tensors
            self.done.put(count)


class Target:
    def __init__(self, library):
        self.gauge = ctypes.CDLL(library)
        self.gauge.gauge_spun_ns.restype = ctypes.c_uint64
        self.gauge.gauge_watched_ns.restype = ctypes.c_uint64
        self.workers = [Worker() for _ in range(WORKERS)]
        for worker in self.workers:
            worker.start()

    def start_gauge(self):
        """Starts the spinner, the observer, and as many waiting threads as are still missing."""
        missing = THREADS - len(os.listdir("/proc/self/task")) - 2
        return os.strerror(self.gauge.gauge_start(missing))

    def refill(self):
        for worker in self.workers:
            worker.todo.put(TENSORS // WORKERS)
        return sum(worker.done.get() for worker in self.workers)

    def obey(self, word, *arguments):
        """Executes a command and returns its answer: a number."""
        if word == "refill":
            return self.refill()
        if word == "spin":
            return self.gauge.gauge_spin(int(arguments[0]))
        if word == "spun":
            return self.gauge.gauge_spun_ns()
        if word == "watch":
            return self.gauge.gauge_watch(int(arguments[0]))
        if word == "watched":
            return self.gauge.gauge_watched_ns()
        raise ValueError(word)


def lines():
    """Yields lines of the input; retries after ERESTARTSYS, which a debugger leaves that fails to
    make a call."""
    pending = b""
    while True:
        try:
            got = os.read(0, 4096)
        except OSError as error:
            if error.errno != ERESTARTSYS:
                raise
            continue
        if not got:
            return
        *whole, pending = (pending + got).split(b"\n")
        yield from (line.decode() for line in whole)


def main():
    torch.set_num_threads(1)
    target = Target(sys.argv[1])
    target.refill()
    target.start_gauge()
    print("ready", os.getpid(), flush=True)
    for line in lines():
        print(target.obey(*line.split()), flush=True)


main()
