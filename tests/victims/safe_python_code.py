# SPDX-License-Identifier: Apache-2.0
"""
A Python program that is doing one thing while code is brought into it from outside, and checks
itself:

    alone    its only thread computes and never waits
    compete  eight threads compete for the interpreter's lock
    wait     its threads wait, each in a call of its own
    native   it computes in C, with the lock, for tenths of a second at a time
    held     it sleeps with the lock
    parts    threads wait in sub-interpreters, one in the main one
    apart    threads wait in sub-interpreters alone, the main one computes
    locked   a thread waits with a lock held that the finalisers of its garbage take
    ending   it sleeps in the last moments of the interpreter
"""
import ctypes
import gc
import os
import sys
import threading
import time

from safe_python import Status

WAIT_S = 0.03
STATUS = Status()


class Cycle:
    def __init__(self, number):
        self.number = number
        self.content = bytes([number % 256]) * 3000
        self.itself = self


def litter():
    """Leaves garbage and checks that live objects are intact."""
    cycles = [Cycle(i) for i in range(60)]
    kept = cycles[::5]
    del cycles
    total = sum(i * i for i in range(500))
    if total != 41541750:
        STATUS.fail("a sum is wrong: {}".format(total))
    try:
        raise KeyError(total)
    except KeyError as error:
        if error.args != (41541750,):
            STATUS.fail("an exception is wrong")
    if 1.5 * total != 62312625.0:
        STATUS.fail("a product is wrong")
    for cycle in kept:
        if cycle.content != bytes([cycle.number % 256]) * 3000:
            STATUS.fail("an object was damaged")


NAMES = set()


def check_names():
    """Checks that code from outside leaves no names here."""
    global NAMES  # pylint: disable=global-statement
    now = set(vars(sys.modules["__main__"]))
    if NAMES and now != NAMES:
        STATUS.fail("names appeared: {}".format(sorted(now ^ NAMES)))
    NAMES = now


def for_ever(action):
    def run():
        while True:
            try:
                action()
            except BaseException as error:  # pylint: disable=broad-except
                STATUS.fail("{}: {!r}".format(action.__name__, error))
            STATUS.round()
    return run


def start(actions):
    for action in actions:
        threading.Thread(target=for_ever(action), daemon=True).start()


def ready():
    sys.stdout.write("ready {}\n".format(os.getpid()))
    sys.stdout.flush()


def computing():
    litter()
    check_names()


def sleeping():
    before = time.monotonic()
    time.sleep(WAIT_S)
    if time.monotonic() - before < WAIT_S * 0.99:
        STATUS.fail("time.sleep ended early")
    litter()


def waiting():
    if threading.Event().wait(WAIT_S):
        STATUS.fail("an event that nobody set was set")


def native():
    if sum(range(5000000)) != 12499997500000:
        STATUS.fail("a sum is wrong")
    litter()


def parts():
    try:
        import _interpreters as module
    except ImportError:
        import _xxsubinterpreters as module

    def run(number):
        module.run_string(number, "import time\nwhile True: time.sleep({})".format(WAIT_S))

    for _ in range(2):
        threading.Thread(target=run, args=(module.create(),), daemon=True).start()


LOCK = threading.Lock()
SOURCE, SINK = os.pipe()


class Locking(Cycle):
    def __del__(self):
        with LOCK:
            pass


def reading():
    with LOCK:
        os.read(SOURCE, 1)


def feeding():
    """Leaves garbage for the collector that is called from outside, as the program's own runs are
    off."""
    Locking(1)
    time.sleep(WAIT_S)
    os.write(SINK, b"x")


class Last:
    def __del__(self, write=os.write, pid=os.getpid(), sleep=time.sleep):
        write(1, "ready {}\n".format(pid).encode())
        while True:
            sleep(1000)


def settle():
    """Starts a first thread, with which the C library installs its own signal handler, and loads a
    library at the thread's end."""
    first = threading.Thread(target=int)
    first.start()
    while len(os.listdir("/proc/self/task")) > 1:
        time.sleep(0.001)


def main(mode):
    settle()
    if mode == "ending":
        sys.last_of_all = Last()
        return
    if mode == "compete":
        start([litter] * 7 + [sleeping])
    elif mode == "wait":
        start([sleeping, waiting, sleeping])
    elif mode == "parts":
        parts()
        start([sleeping])
    elif mode == "apart":
        parts()
    elif mode == "native":
        gc.disable()
        start([sleeping])
    elif mode == "locked":
        gc.disable()
        start([reading, feeding])
    ready()
    if mode == "held":
        ctypes.PyDLL(None).sleep(1000000)
    actions = {"alone": computing, "compete": computing, "apart": computing, "native": native}
    action = actions.get(mode, sleeping)
    for_ever(action)()


main(sys.argv[1])
