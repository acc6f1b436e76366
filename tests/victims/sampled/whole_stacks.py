# SPDX-License-Identifier: Apache-2.0
"""
Allocates in all kinds of frames, each time another size, and writes the stack that the interpreter
itself has at that moment to the file FILE: {size: [[function, line], ...]}, innermost first. Ends
without freeing anything.
"""
import asyncio
import contextlib
import functools
import gc
import itertools
import json
import os
import re
import sys
import threading

KEPT, STACKS = [], {}
SIZES = itertools.count(100000, 64)
# size of the bytes object that a bytearray contains
HEAD = 32 if sys.version_info >= (3, 15) else 0


def name_of(code):
    return code.co_qualname if sys.version_info >= (3, 11) else code.co_name


def make(_=None):
    size, stack = next(SIZES), []
    block, frame = bytearray(size - 1), sys._getframe()
    while frame:
        stack.append([name_of(frame.f_code), frame.f_lineno])
        frame = frame.f_back
    stack[0][1] = make.__code__.co_firstlineno + 2
    STACKS[size + HEAD] = stack
    KEPT.append(block)
    return 1


def generate(count):
    for _ in range(count):
        yield make()
    if count:
        yield from generate(count - 1)


def descend(depth):
    return descend(depth - 1) if depth else make()


async def wait(depth):
    await asyncio.sleep(0)
    return await wait(depth - 1) if depth else make()


async def generate_later():
    for _ in range(2):
        await asyncio.sleep(0)
        yield make()


async def later():
    # Up to 3.11 the next object that can be in a cycle, a coroutine here, starts a collection.
    gc.set_threshold(1)
    await asyncio.gather(*(wait(depth) for depth in range(3) if Special()))
    gc.set_threshold(700, 10, 10)
    return [make() async for _ in generate_later()]


class Special:
    def __init__(self):
        self.cycle = self
        make()

    def __lt__(self, other):
        return make() > 1

    def __getattr__(self, name):
        return make()

    def __call__(self):
        return make()

    def __enter__(self):
        return make()

    def __exit__(self, *_):
        return make()

    def __del__(self):
        make()


@contextlib.contextmanager
def surrounded():
    make()
    yield
    make()


def use_special():
    sorted([Special(), Special()])
    Special()()
    assert Special().anything
    with Special():
        raise ValueError
    gc.collect()


def use_library():
    re.sub("a", lambda match: str(make()), "aa")
    list(map(make, range(2)))
    functools.reduce(lambda one, two: one + make(), range(3))
    functools.partial(make)()
    with surrounded():
        make()


def use_expressions():
    assert [make() for _ in range(2)] and {make(): make() for _ in range(2)}
    sum(make() for _ in range(2))

    class Body:  # pylint: disable=unused-variable
        attribute = make()

    try:
        raise KeyError
    except KeyError:
        make()
    finally:
        make()


def use_dropped(number):
    """Runs code that is deleted at once."""
    scope = {"make": make}
    exec("def dropped_%d():\n%s    make()\ndropped_%d()\n" % (number, "\n" * (number % 3), number), scope)


def trace_entry(frame, event, _):
    """Called before the first instruction of a function."""
    if frame.f_code.co_filename == __file__ and event == "call":
        make()


def use_trace():
    sys.settrace(trace_entry)
    descend(2)
    list(generate(2))
    sorted([Special(), Special()])
    asyncio.run(later())
    sys.settrace(None)


def work(number):
    list(generate(3))
    descend(100 * (number % 4))
    use_special()
    use_library()
    use_expressions()
    for i in range(10):
        use_dropped(10 * number + i)
    asyncio.run(later())


def main(path):
    threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for _ in range(300):  # until the interpreter has specialised it, or compiled it
        descend(3)
    sys.settrace(lambda *_: lambda *_: None)
    work(4)
    use_trace()
    with open(path, "w", encoding="utf-8") as file:
        json.dump(STACKS, file)
    file.close()
    os._exit(0)


main(sys.argv[1])
