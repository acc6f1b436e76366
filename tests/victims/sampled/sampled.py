# SPDX-License-Identifier: Apache-2.0
"""
Allocates from places of all kinds; after each allocation a comment "HERE function" names the line
and the qualified name that the profile has to show.
"""
import mmap
import sys
import threading
import zlib

SIZE = 100000
kept = []


def plain():
    kept.append(bytearray(SIZE))  # HERE plain


class Model:
    def method(self):
        kept.append(bytearray(SIZE))  # HERE Model.method

    @staticmethod
    def static():
        kept.append(bytearray(SIZE))  # HERE Model.static


def outer():
    def nested():
        kept.append(bytearray(SIZE))  # HERE outer.<locals>.nested
    nested()


def generator():
    yield 1
    kept.append(bytearray(SIZE))  # HERE generator
    yield 2


def several_lines():
    kept.extend([
        bytearray(SIZE),  # HERE several_lines
        1])


def far_below():
    if not kept:
        raise ValueError


















































































































    try:
        kept.append(bytearray(SIZE))  # HERE far_below
    finally:
        kept.append(1)


def größe():
    kept.append(bytearray(SIZE))  # HERE größe


def 数():
    kept.append(bytearray(SIZE))  # HERE 数


def decorated(function):
    def wrapper():
        return function()
    return wrapper


@decorated
def inside_wrapper():
    kept.append(bytearray(SIZE))  # HERE inside_wrapper


def by_callback():
    sorted([1], key=lambda _: kept.append(bytearray(SIZE)) or 0)  # HERE by_callback.<locals>.<lambda>


def recursive(depth):
    if depth:
        recursive(depth - 1)
    else:
        kept.append(bytearray(SIZE))  # HERE recursive


def with_keywords(**_):
    kept.append(zlib.decompress(zlib.compress(bytes(SIZE))))  # HERE with_keywords


async def coroutine():
    kept.append(bytearray(SIZE))  # HERE coroutine


async def awaiting():
    await awaited()


async def awaited():
    kept.append(bytearray(SIZE))  # HERE awaited


async def asynchronous():
    yield 1
    kept.append(bytearray(SIZE))  # HERE asynchronous


def delegating():
    yield from generator_of_parts()


def generator_of_parts():
    yield bytearray(SIZE)  # HERE generator_of_parts


def in_handler():
    try:
        raise ValueError
    except ValueError:
        kept.append(bytearray(SIZE))  # HERE in_handler


class Manager:
    def __enter__(self):
        return self

    def __exit__(self, *_):
        kept.append(bytearray(SIZE))  # HERE Manager.__exit__
        return True


def by_raising():
    with Manager():
        raise ValueError


class Finalised:
    def __del__(self):
        kept.append(bytearray(SIZE))  # HERE Finalised.__del__


def in_mapping():
    kept.append(mmap.mmap(-1, SIZE))  # HERE in_mapping


def in_thread():
    kept.append(bytearray(SIZE))  # HERE in_thread


def run_coroutine(function):
    try:
        function().send(None)
    except StopIteration:
        pass


def run_generator(function):
    steps = function()
    for _ in range(2):
        try:
            steps.asend(None).send(None)
        except (StopIteration, StopAsyncIteration):
            pass


def main():
    # A thread that is not sampled for its places, and is newer than the main thread.
    end = threading.Event()
    idle = threading.Thread(target=end.wait)
    idle.start()
    for _ in range(3):
        plain()
        Model().method()
        Model.static()
        outer()
        list(generator())
        several_lines()
        far_below()
        größe()
        数()
        inside_wrapper()
        by_callback()
        recursive(20)
        with_keywords(a=1)
        run_coroutine(coroutine)
        run_coroutine(awaiting)
        run_generator(asynchronous)
        kept.extend(delegating())
        in_handler()
        by_raising()
        Finalised()
        in_mapping()
        thread = threading.Thread(target=in_thread)
        thread.start()
        thread.join()
    exec("def made():\n kept.append(bytearray(SIZE))\nmade()")
    end.set()
    idle.join()
    print("ready", flush=True)
    if len(sys.argv) > 1:
        threading.Event().wait()


main()
