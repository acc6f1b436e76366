# SPDX-License-Identifier: Apache-2.0
"""Python functions that are called through C, each of which keeps a block."""
import ctypes
import functools
import threading

KEPT = []


def key(item):
    KEPT.append(bytearray(1 << 20))
    return item


def by_sorted():
    return sorted([1], key=key)


def add(one, _):
    KEPT.append(bytearray(1 << 20))
    return one


def by_reduce():
    return functools.reduce(add, [1, 2])


@ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
def compare(_, __):
    KEPT.append(bytearray(1 << 20))
    return 0


def by_qsort():
    numbers = (ctypes.c_int * 2)(1, 2)
    ctypes.CDLL(None).qsort(numbers, 2, ctypes.sizeof(ctypes.c_int), compare)


def generate():
    KEPT.append(bytearray(1 << 20))
    yield 1


def by_list():
    return list(generate())


class Dying:
    def __init__(self):
        self.cycle = self

    def __del__(self):
        KEPT.append(bytearray(1 << 20))


def by_clearing():
    """The destructor runs when the frame of this function has been left, but its call has not."""
    Dying().cycle = None


def work():
    KEPT.append(bytearray(1 << 20))


def inner(depth):
    if depth:
        return list(map(inner, [depth - 1]))
    return KEPT.append(bytearray(1 << 20))


by_sorted()
by_reduce()
by_qsort()
by_list()
by_clearing()
inner(20)
THREAD = threading.Thread(target=work)
THREAD.start()
THREAD.join()
