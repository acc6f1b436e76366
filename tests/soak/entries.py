# SPDX-License-Identifier: Apache-2.0
"""The targets of the safety tests as a table: how each is started, and the expected result of
flmem."""
import glob
import os
import subprocess
from dataclasses import dataclass, field
from typing import Optional

from harness import pythons as interpreters, victim

TRIM = "trim"  # must be trimmed; an unsafe moment may be refused, but not always
REFUSE = "refuse"  # must be refused, every time
ENDED = "ended"  # may also be reported as a process that has ended
EITHER = "either"  # may be trimmed or refused; must stay intact

ALLOCATORS = tuple(victim.ALLOCATOR_FILES)
OWN_MASK = ("ppoll", "pselect", "epoll_pwait", "sigsuspend", "rt_sigtimedwait")
HERE = os.path.dirname(os.path.abspath(__file__))
PYTHON_VICTIM = os.path.join(HERE, "..", "victims", "safe_python.py")


@dataclass
class Entry:
    name: str
    argv: list
    allocator: str = "glibc"
    expect: str = TRIM
    quiet: bool = False  # allocates nothing while it waits, unless it refills
    refill: int = 0  # fills its heap again after every so many rounds
    statuses: tuple = (6,)  # exit statuses that a refusal may have
    rounds: int = 2  # number of further rounds that it must complete; 0: it is blocked for good
    masks: bool = False  # its threads change their signal masks all the time
    release: bytes = b""  # bytes that let a blocked target go on, by its standard input
    # "stop": SIGSTOP it first; "trace": trace its main thread first; "trace-worker", "trace-all":
    # another process traces one of its threads that is not the main one, or all; "leaderless": wait
    # for the end of its leader
    setup: str = ""
    env: dict = field(default_factory=dict)
    blocks: Optional[int] = None
    steps: tuple = ()  # options for steps besides the allocator
    code: str = ""  # like `expect`, for the first of these steps
    computes: bool = False  # computes most of the time
    behind: bool = False  # other programs have priority over its computation
    needs_room: bool = False  # its code certainly has a place to wait in
    missing: str = ""  # why it cannot be run here
    # Expectations under the sampler (sampled.py).
    unstarted: str = ""  # why it does not start with the sampler preloaded
    unloaded: str = ""  # why it starts, but without the sampler
    unseen: str = ""  # why the sampler does not see its blocks, only what it maps
    attach: str = REFUSE  # like `expect`, for `flmem profile attach`
    attach_statuses: tuple = (5,)  # exit statuses of a refused attach
    attach_says: str = "has no CPython"  # text in the reason of the refusal
    detach_status: int = 5  # exit status of a detach where it is not sampled

    @property
    def own_mask(self):
        """True if its signal masks change by themselves, or for the time of a wait; only the
        program knows them."""
        return self.masks or any(word.startswith(OWN_MASK) for word in self.argv)

    def start(self, wrapper=()):
        """Starts the target. WRAPPER: the program that executes it."""
        return victim.Victim(self.argv, preload=victim.allocator_library(self.allocator),
                             refill=self.refill, blocks=self.blocks, env=self.env,
                             wrapper=wrapper, behind=self.behind)


STATIC = "linked statically, so that nothing is preloaded"
IN_PROGRAM = "its allocator is linked into the program itself"
OTHER_LIBC = "the sampler needs glibc"


def available(allocator):
    """Returns "" when the allocator can be tested, else the reason why not."""
    try:
        victim.allocator_library(allocator)
    except FileNotFoundError as error:
        return str(error)
    return ""


def _wait_cases(program, kind):
    listed = subprocess.run([program, "list", kind], stdout=subprocess.PIPE, check=True)
    return listed.stdout.decode().split()


def _missing_call(case):
    """Returns "" when this host has the call, else the reason why not."""
    if case != "io_uring_enter":
        return ""
    try:
        with open("/proc/sys/kernel/io_uring_disabled", encoding="ascii") as file:
            return "io_uring is disabled" if file.read().strip() != "0" else ""
    except FileNotFoundError:
        return ""  # a kernel before 6.6


def have_tiles():
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        return "amx_tile" in file.read()


def have_keys():
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        return " ospke" in file.read()


def blocked(victims, allocators):
    """Returns targets with one thread that waits in each kind of system call."""
    program = os.path.join(victims, "safe_blocked")
    cases = _wait_cases(program, "borrowed")
    found = []
    for number, case in enumerate(cases):
        # The first allocator gets every case; each case also gets one of the others.
        for place, allocator in enumerate(allocators):
            if place in (0, 1 + number % max(1, len(allocators) - 1)):
                found.append(Entry(f"waits in {case}", [program, case], allocator, quiet=True,
                                   missing=available(allocator)))
    # A timeout that shows only at the stop, where flmem lets the thread go again.
    found += [Entry(f"waits in {case}", [program, case], expect=REFUSE, quiet=True)
              for case in _wait_cases(program, "timed")]
    found += [Entry(f"is in {case}", [program, case], expect=REFUSE, quiet=True,
                    missing=_missing_call(case))
              for kind in ("left", "whole") for case in _wait_cases(program, kind)]
    for case in ("nanosleep", "epoll_wait", "read-pipe"):
        found.append(Entry(f"waits in {case}, static", [program + "_static", case], quiet=True,
                           unloaded=STATIC))
        found.append(Entry(f"waits in {case}, AMX tiles", [program, case, "tiles"], quiet=True,
                           missing="" if have_tiles() else "this processor has no AMX"))
    return found


# Whether 8 threads that allocate all the time are ever idle together with flmem depends on the load.
THREADS = (
    ("8 threads churn, 3 wait", ["-c", "8", "-i", "3"], TRIM),
    ("8 threads deep in malloc", ["-c", "7", "-m", "-n", "20000"], EITHER),
    ("8 threads never wait", ["-c", "7", "-m"], EITHER),
    ("1 thread deep in malloc", ["-m", "-n", "2000"], EITHER),
    ("1 thread, never waits", ["-m"], EITHER),
    ("stacks of 64 KiB", ["-c", "2", "-i", "4", "-s", "65536"], TRIM),
    ("stacks of 64 KiB nearly full", ["-c", "1", "-i", "4", "-s", "65536", "-l", "4000", "-m"],
     EITHER),
    ("the same, guards not shown", ["-c", "1", "-i", "4", "-s", "65536", "-l", "8096", "-m", "-g"],
     EITHER),
    ("leader has ended", ["-c", "2", "-i", "3", "-z"], ENDED),
)

LEADERLESS = {"setup": "leaderless", "statuses": (3, 5, 6), "attach_statuses": (3,),
              "attach_says": "the main thread of process", "detach_status": 3}

# The only thread of the first two also allocates; data that this leaves on its stack may make flmem
# refuse.
SIGNALS = (
    ("1000 signals a second", [], EITHER),
    ("1000 signals a second, own stack", ["-a"], EITHER),
    ("1000 signals a second, 3 threads", ["-t", "3"], TRIM),
)


def busy(victims, allocators):
    """Returns targets with threads, signals and forks, with every allocator."""
    found = []
    for allocator in allocators:
        missing = available(allocator)
        for name, words, expect in THREADS:
            found.append(Entry(name, [os.path.join(victims, "safe_threads"), *words], allocator,
                               expect, missing=missing, computes=True,
                               **(LEADERLESS if expect == ENDED else {})))
        for name, words, expect in SIGNALS:
            found.append(Entry(name, [os.path.join(victims, "safe_signals"), *words], allocator,
                               expect, missing=missing))
        found.append(Entry("stops its threads by signals", [os.path.join(victims, "safe_world")],
                           allocator, EITHER, missing=missing, masks=True))
        fork = os.path.join(victims, "safe_fork")
        found.append(Entry("forks", [fork], allocator, EITHER, missing=missing))
        found.append(Entry("forks beside 2 threads", [fork, "-t", "2"], allocator, EITHER,
                           missing=missing, computes=True))
        found.append(Entry("vfork", [fork, "-v"], allocator, EITHER, missing=missing))
    return found


def linked(victims):
    """Returns targets with allocators linked into the program instead of preloaded."""
    found = []
    for suffix in ("static", "jemalloc", "tcmalloc", "mimalloc", "jemalloc_static"):
        program = os.path.join(victims, f"safe_threads_{suffix}")
        found.append(Entry(f"linked: {suffix}", [program, "-c", "4", "-i", "2"], computes=True,
                           unloaded=STATIC if suffix == "static" else "",
                           unseen=IN_PROGRAM if suffix == "jemalloc_static" else "",
                           missing=_not_built(program) or
                           available(suffix.split("_")[0].replace("static", "glibc"))))
    return found


def _not_built(program):
    return "" if os.path.exists(program) else "not built"


def traps(victims, allocators):
    """Returns targets that look idle but must not be touched."""
    found = []
    for allocator in allocators:
        missing = available(allocator)
        for name, words in (("handler over malloc", []), ("the same, own stack", ["-a"])):
            found.append(Entry(name, [os.path.join(victims, "safe_trap"), *words], allocator,
                               REFUSE, release=b"\n", missing=missing))
        found.append(Entry("handler over malloc, 3 idle threads",
                           [os.path.join(victims, "safe_trap"), "-t", "3"], allocator, EITHER,
                           release=b"\n", missing=missing))
    # Not epoll_wait: it returns EINTR after a stop by anyone.
    waiting = [os.path.join(victims, "safe_blocked"), "read-pipe"]
    beside = [os.path.join(victims, "safe_threads"), "-c", "1", "-i", "3", "-n", "20000"]
    found += [
        Entry("stopped", waiting, expect=REFUSE, setup="stop"),
        Entry("traced by another", waiting, expect=REFUSE, setup="trace", statuses=(4, 6)),
        Entry("seccomp, strict", [os.path.join(victims, "safe_strict")], expect=REFUSE,
              release=b"\n\n", statuses=(4, 5, 6)),
        Entry("seccomp, filter", [os.path.join(victims, "safe_strict"), "filter"], expect=REFUSE,
              release=b"\n\n", statuses=(4, 5, 6)),
        Entry("seccomp, filter for one argument",
              [os.path.join(victims, "safe_seccomp"), "kill-dontneed", "all"], expect=REFUSE,
              release=b"\n\n", statuses=(4, 5, 6)),
        Entry("coroutine, 4000 bytes left", [os.path.join(victims, "safe_coroutine"), "4000"],
              expect=EITHER),
        Entry("coroutine, 12000 bytes left", [os.path.join(victims, "safe_coroutine"), "12000"],
              expect=EITHER),
        Entry("4 coroutines, 4000 bytes left",
              [os.path.join(victims, "safe_coroutine"), "-t", "3", "4000"], expect=EITHER),
        Entry("a coroutine right below the stack of its thread",
              [os.path.join(victims, "safe_coroutine"), "-b", "4000"], expect=REFUSE),
        Entry("a thread on a stack right above other data",
              [os.path.join(victims, "safe_coroutine"), "-o", "4000"], expect=REFUSE),
        Entry("3 coroutines beside a plain thread",
              [os.path.join(victims, "safe_coroutine"), "-t", "3", "-p", "4000"]),
        # The tracer is in another process; flmem may borrow threads that it does not hold.
        Entry("a worker traced by another", beside, setup="trace-worker"),
        Entry("all threads traced by another", beside, expect=REFUSE, setup="trace-all",
              statuses=(4, 6)),
        Entry("protection keys", [os.path.join(victims, "safe_keys")],
              missing="" if have_keys() else "this processor has no protection keys (pku)"),
    ]
    for name, sampled in (("musl", {"unstarted": OTHER_LIBC}), ("musl_static", {"unloaded": STATIC})):
        program = os.path.join(victims, f"safe_threads_{name}")
        found.append(Entry(name.replace("_", ", "), [program, "-c", "2", "-i", "2"],
                           expect=REFUSE, statuses=(5,), missing=_not_built(program), **sampled))
    found.append(Entry("32-bit", [os.path.join(victims, "safe_ia32")], expect=REFUSE, rounds=0,
                       statuses=(5, 6), unloaded=STATIC))
    return found


# States of a CPython while code is run in it: (name, mode of safe_python_code.py, whether the code
# must run). The allocator's step is separate.
CODE_CASES = (
    ("computes alone", "alone", TRIM),
    ("8 threads compete", "compete", TRIM),
    ("waits, 3 threads", "wait", TRIM),
    ("computes in C", "native", EITHER),
    ("sleeps with the lock", "held", REFUSE),
    ("sub-interpreters", "parts", EITHER),
    ("only sub-interpreters wait", "apart", EITHER),
    ("a thread waits with a lock", "locked", TRIM),
    ("is ending", "ending", REFUSE),
)


def code():
    """Returns every interpreter from 3.8 on, in each state; its collector is run from outside."""
    found = []
    program = os.path.join(HERE, "..", "victims", "safe_python_code.py")
    for python in interpreters.every():
        for name, mode, expect in CODE_CASES:
            found.append(Entry(f"Python {python.version} {name}",
                               [python.path, program, mode], steps=("--gc",), code=expect,
                               expect=EITHER, computes=mode in ("alone", "compete", "native", "apart"),
                               # status 7: it computes in C past the timeout
                               statuses=(6, 7), rounds=0 if mode in ("held", "ending") else 2,
                               attach=expect, attach_statuses=(6, 7), attach_says="",
                               missing=python.missing))
    return found


def pythons():
    """Returns every interpreter found, and PyTorch where it is installed."""
    found = []
    older = glob.glob(os.path.expanduser("~/.pyenv/versions/3.[67].*/bin/python3"))
    for path in sorted(older):
        found.append(Entry(f"Python {path.split('/')[-3]}", [path, PYTHON_VICTIM],
                           attach_says="flmem runs code in Python"))
    for python in interpreters.every():
        found.append(Entry(f"Python {python.version}", [python.path, PYTHON_VICTIM], attach=TRIM,
                           attach_statuses=(6,), attach_says="", missing=python.missing))
    torch = subprocess.run(["/usr/bin/python3", "-c", "import torch"], stderr=subprocess.DEVNULL,
                           check=False).returncode == 0
    found.append(Entry("PyTorch", ["/usr/bin/python3", PYTHON_VICTIM, "torch"], attach=TRIM,
                       attach_statuses=(6,), attach_says="",
                       missing="" if torch else "python3-torch is not installed"))
    return found
