# SPDX-License-Identifier: Apache-2.0
"""Reads from /proc the state of a process that flmem must not change."""
import os
import re
import time

SETTLE_S = 10  # how long a change may last that the program itself makes
LATE_THREAD_S = 60  # how long code of a call may run on a busy machine
STEADY_TRIES = 50
SIGNAL_FIELDS = ("SigBlk", "SigIgn", "SigCgt")
# Two signals that glibc reserves for itself; it handles them from the first thread on.
LIBRARYS_OWN = 3 << 31
# Mappings that a trim may change: anonymous memory that belongs to the allocator.
ALLOCATORS_OWN = re.compile(r"^(\[heap\]|\[anon.*\]|)$")

ALLOCATORS_FILES = ("/proc/sys/vm/overcommit_memory",)  # glibc reads it from time to time


class Gone(Exception):
    """Raised when the process has ended."""


def read(path):
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except (FileNotFoundError, ProcessLookupError) as error:
        raise Gone(path) from error


def status(pid, tid=None):
    """Returns the fields of the status file, of the process or of one thread."""
    path = f"/proc/{pid}/status" if tid is None else f"/proc/{pid}/task/{tid}/status"
    return dict(line.split(":\t", 1) for line in read(path).splitlines() if ":\t" in line)


def user_ticks(pid):
    """Returns the clock ticks of computing in user mode: utime of proc_pid_stat(5)."""
    return int(read(f"/proc/{pid}/stat").rpartition(")")[2].split()[11])


def is_alive(pid):
    try:
        return bool(living_thread(pid))
    except Gone:
        return False


def threads(pid):
    try:
        return [int(tid) for tid in os.listdir(f"/proc/{pid}/task")]
    except FileNotFoundError as error:
        raise Gone(pid) from error


def living_thread(pid):
    """Returns a thread from which to read the shared state: the first one may have ended before the
    others."""
    for tid in threads(pid):
        try:
            if status(pid, tid)["State"][0] not in "ZX":
                return f"/proc/{pid}/task/{tid}"
        except Gone:
            continue
    raise Gone(pid)


def mappings(pid):
    """Returns (range, permissions, name) of each mapping, except for the start of the main stack,
    which grows by itself."""
    found = []
    for line in read(f"{living_thread(pid)}/maps").splitlines():
        fields = line.split(None, 5)
        name = fields[5] if len(fields) > 5 else ""
        where = fields[0].split("-")[1] if name == "[stack]" else fields[0]
        found.append((where, fields[1], name))
    return found


def descriptors(pid):
    found = {}
    directory = f"{living_thread(pid)}/fd"
    try:
        for fd in os.listdir(directory):
            try:
                found[int(fd)] = os.readlink(f"{directory}/{fd}")
            except FileNotFoundError:
                continue
    except FileNotFoundError as error:
        raise Gone(pid) from error
    return {fd: name for fd, name in found.items() if not name.endswith(ALLOCATORS_FILES)}


def descendants(pid):
    """Returns these processes and all that they have started, in no order."""
    parents = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat", encoding="utf-8", errors="replace") as file:
                parents[int(name)] = int(file.read().rpartition(")")[2].split()[1])
        except OSError:
            continue
    found, wanted = [], {pid}
    while wanted:
        wanted = {child for child, parent in parents.items() if parent in wanted} - set(found)
        found += wanted
    return found


def signal_state(pid):
    """Returns blocked, ignored and caught signals by thread."""
    found = {}
    for tid in threads(pid):
        try:
            fields = status(pid, tid)
        except Gone:
            continue
        found[tid] = tuple(f"{int(fields[name], 16) & ~LIBRARYS_OWN:016x}"
                           for name in SIGNAL_FIELDS)
    return found


def steady(look, pid):
    """Returns the value of look(pid) in a moment without changes: some waits have their own signal
    mask, and a C library sometimes opens a file."""
    state = look(pid)
    for _ in range(STEADY_TRIES):
        time.sleep(0.003)
        before, state = state, look(pid)
        if before == state:
            break
    return state


def each_status(pid):
    """Yields (tid, fields of its status file) of every thread that has not ended."""
    for tid in threads(pid):
        try:
            yield tid, status(pid, tid)
        except Gone:
            continue


def tracers(pid):
    """Returns the tracers of the process's threads."""
    return {int(fields["TracerPid"]) for _, fields in each_status(pid)} - {0}


def held(pid):
    """Returns threads that are stopped, by a signal or for a tracer: {tid: state}."""
    return {tid: fields["State"][0] for tid, fields in each_status(pid)
            if fields["State"][0] in "tT"}


def activity(pid):
    """Returns the progress of each thread: how often it gave its processor up, and its processor
    time."""
    found = {}
    for tid, fields in each_status(pid):
        try:
            ticks = read(f"/proc/{pid}/task/{tid}/stat").rpartition(")")[2].split()[11:13]
        except Gone:
            continue
        if fields["State"][0] not in "ZX":
            found[tid] = (fields["voluntary_ctxt_switches"], fields["nonvoluntary_ctxt_switches"],
                          *ticks)
    return found


def moved(before, after):
    """Returns the threads that have made progress in between."""
    return {tid for tid, far in after.items() if tid in before and far != before[tid]}


def stuck(pid, wanted, timeout_s):
    """Returns those of the wanted threads that make no progress from now on; a thread that ends is
    not stuck."""
    start = activity(pid)
    end = time.monotonic() + timeout_s
    left = set(wanted) & set(start)
    while left and time.monotonic() < end:
        time.sleep(0.005)
        now = activity(pid)
        left -= moved(start, now)
        left &= set(now)
    return left


def foreign(mapped):
    """Returns the mappings except the allocator's."""
    return sorted(m for m in mapped if not ALLOCATORS_OWN.match(m[2]) or "x" in m[1])


def difference(what, before, after):
    gone = [item for item in before if item not in after]
    new = [item for item in after if item not in before]
    if not gone and not new:
        return []
    return [f"{what} changed: gone {gone[:4]}, new {new[:4]}"]


def is_same_signals(before, after):
    """True if the signal mask differs only by the end of a handler: a thread that waited for a
    processor in the handler at the first check had the handler's signal blocked."""
    first, *others = (int(word, 16) for word in before)
    second, *others_after = (int(word, 16) for word in after)
    left = first & ~second
    caught = others[-1]
    return others == others_after and not second & ~first and not left & ~caught


class Snapshot:
    """The state of a process before a call, to be compared with the state after it."""

    def __init__(self, pid, quiet, own_mask=False):
        """quiet: the program allocates nothing by itself, so all its mappings must stay. own_mask:
        it waits with another signal mask than it runs with, so only the program knows its masks."""
        self.pid = pid
        self.quiet = quiet
        self.threads = set(threads(pid))
        self.held = held(pid)
        self.mappings = mappings(pid)
        self.signals = {} if own_mask else steady(signal_state, pid)
        self.descriptors = steady(descriptors, pid)

    def _signals(self):
        after = signal_state(self.pid)
        return [f"signals of thread {tid} changed: {before} to {after[tid]}"
                for tid, before in self.signals.items()
                if tid in after and not is_same_signals(before, after[tid])]

    def _threads(self):
        """Waits for the end of a thread that flmem started; the program's own changes settle."""
        more = len(threads(self.pid)) - len(self.threads)
        return [f"{more} threads more than before"] if more > 0 else []

    def await_threads(self):
        """Waits for a thread with code that was reported as late; it ends by itself."""
        end = time.monotonic() + LATE_THREAD_S
        while self._threads() and time.monotonic() < end:
            time.sleep(0.01)

    def _held(self):
        """Returns threads that are stopped now and were not before."""
        return [f"thread {tid} is stopped: {state}" for tid, state in held(self.pid).items()
                if tid not in self.held]

    def _mappings(self):
        after = mappings(self.pid)
        if self.quiet:
            return difference("mappings", self.mappings, after)
        return difference("mappings of files or code", foreign(self.mappings), foreign(after))

    def _descriptors(self):
        after = descriptors(self.pid)
        # Descriptors of the moment of the snapshot may be gone: late code of an earlier call has
        # answered, or the sampler has read how much memory its process has.
        before = [(fd, name) for fd, name in self.descriptors.items()
                  if after.get(fd) == name or not re.fullmatch("/proc/[0-9]+/(mem|statm)", name)]
        return difference("descriptors", before, list(after.items()))

    def changes(self, settle_s=SETTLE_S):
        """Returns the lasting differences. A program blocks signals for an instant when it starts a
        thread or forks, and a chain whose caller was killed may still be running."""
        end = time.monotonic() + settle_s
        while True:
            found = (self._threads() + self._held() + self._signals() + self._mappings() +
                     self._descriptors())
            if not found or time.monotonic() >= end:
                return found
            time.sleep(0.02)
