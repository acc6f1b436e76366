# SPDX-License-Identifier: Apache-2.0
"""Target programs: starting, watching and ending them."""
import ctypes
import glob
import mmap
import os
import select
import signal
import struct
import subprocess
import tempfile
import time

from . import proc

PAGE = 4096
PR_SET_PDEATHSIG = 1
READY_S = 120  # long, since a loaded machine is not a failure
PROGRESS_S = 120
LEARN_ROUNDS = 3
LEARN_S = 0.1  # every thread of a victim waits for less than this
LIBRARIES = ("/usr/lib/*-linux-gnu", "/usr/lib64", "/usr/lib", "/usr/local/lib")
ALLOCATOR_FILES = {
    "glibc": None,
    "jemalloc": "libjemalloc.so.2",
    "tcmalloc": "libtcmalloc_minimal.so.4",
    "mimalloc": "libmimalloc.so.2*",
}


def allocator_library(name):
    """Returns the path to preload, None for glibc; a path is returned as it is. FileNotFoundError
    when the allocator is not installed."""
    if os.sep in name and os.path.exists(name):
        return name
    pattern = ALLOCATOR_FILES.get(name, name)
    if pattern is None:
        return None
    for directory in LIBRARIES:
        found = sorted(glob.glob(os.path.join(directory, pattern)))
        if found:
            return found[0]
    raise FileNotFoundError(f"{name} ({pattern}) is not installed")


class StatusPage:
    """The page through which a victim reports its state; struct victim_status of safe_common.h."""

    def __init__(self):
        self._file = tempfile.NamedTemporaryFile(prefix="flmem-status-")
        os.chmod(self._file.name, 0o666)  # victims of other users write it, too
        self._file.truncate(PAGE)
        self._map = mmap.mmap(self._file.fileno(), PAGE)
        self.path = self._file.name

    def _word(self, index):
        return struct.unpack_from("=Q", self._map, 8 * index)[0]

    @property
    def rounds(self):
        return self._word(0)

    @property
    def failures(self):
        return self._word(1)

    @property
    def interruptions(self):
        return self._word(2)

    @property
    def first_failure(self):
        return self._map[24:264].split(b"\0")[0].decode(errors="replace")

    def close(self):
        self._map.close()
        self._file.close()


LIVE = set()  # the victims of this process
BEHIND = "10"  # the priority of nice: a tenth of the share of others on a busy processor


def _put_behind(pid):
    """Sets the share of the session: a separate session would get as much of the processors as all
    tests beside it together, where the kernel schedules by sessions (sched(7), autogroup). This is
    not the priority of its threads, which flmem reads."""
    try:
        with open(f"/proc/{pid}/autogroup", "w", encoding="ascii") as file:
            file.write(BEHIND)
    except OSError:
        pass  # this kernel lacks it


def _end(number, _frame):
    for running in list(LIVE):
        running.process.kill()
    os._exit(128 + number)


def end_at_signals(with_parent=False):
    """Ends the victims when a signal ends this process; a worker also ends with its parent."""
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, _end)
    if with_parent:
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


class Victim:
    """A running target program; a context manager that ends it and every process it started."""

    def __init__(self, argv, preload=None, refill=False, blocks=None, env=None, wrapper=(), behind=False):
        """BEHIND: the victim computes all the time, and the tests beside it have priority."""
        self.page = StatusPage()
        self.movers = set()
        self.argv = list(argv)
        own = dict(os.environ, VICTIM_STATUS=self.page.path, **(env or {}))
        if preload:
            own["LD_PRELOAD"] = preload
        if refill:
            own["VICTIM_REFILL"] = str(int(refill))
        if blocks:
            own["VICTIM_BLOCKS"] = str(blocks)
        self._errors = tempfile.TemporaryFile()
        self.process = subprocess.Popen(
            list(wrapper) + self.argv, env=own, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=self._errors, start_new_session=True)
        LIVE.add(self)
        self.pid = self.process.pid
        if behind:
            _put_behind(self.pid)
        try:
            self.inner_pid = self._wait_until_ready()
        except BaseException:
            self.close()
            raise

    def _wait_until_ready(self):
        """Returns the pid that the program prints: its own, which differs in another pid
        namespace."""
        ready, _, _ = select.select([self.process.stdout], [], [], READY_S)
        line = self.process.stdout.readline().split() if ready else []
        if len(line) != 2 or line[0] != b"ready":
            raise RuntimeError(f"{' '.join(self.argv)} did not get ready: {self.errors()}")
        return int(line[1])

    def errors(self):
        self._errors.seek(0)
        return self._errors.read().decode(errors="replace").strip()

    def say(self, text):
        self.process.stdin.write(text)
        self.process.stdin.flush()

    @property
    def rounds(self):
        """Returns the number of rounds that the program has completed."""
        return self.page.rounds

    def wait_for_rounds(self, more=2, timeout_s=PROGRESS_S):
        """Returns whether the program completes so many more rounds of its checks."""
        return self.wait_until_round(self.rounds + more, timeout_s)

    def wait_until_round(self, wanted, timeout_s=PROGRESS_S):
        """Returns whether it completes so many rounds."""
        end = time.monotonic() + timeout_s
        while self.rounds < wanted:
            if time.monotonic() > end or not proc.is_alive(self.pid):
                return False
            time.sleep(0.005)
        return True

    def find_movers(self, rounds):
        start = proc.activity(self.pid)
        if rounds:
            self.wait_for_rounds(rounds)
        time.sleep(LEARN_S)
        return proc.moved(start, proc.activity(self.pid))

    def learn_movers(self, rounds=LEARN_ROUNDS):
        """Finds the threads that move on by themselves, to check them later. It checks twice: on a
        busy machine a thread that will wait for good may move once more, to its wait."""
        self.movers = self.find_movers(rounds) & self.find_movers(rounds)

    def stuck(self, besides=(), timeout_s=PROGRESS_S):
        """Returns threads that moved on before and do not any more."""
        return proc.stuck(self.pid, self.movers - set(besides), timeout_s)

    def problems(self, interruptions=0):
        """Returns the problems found so far, apart from those that a Snapshot sees."""
        found = []
        if not proc.is_alive(self.pid):
            return [f"it died, status {self.process.poll()}: {self.errors()}"]
        if self.page.failures:
            found.append(f"{self.page.failures} checks failed, first: {self.page.first_failure}")
        if self.page.interruptions > interruptions:
            found.append(f"{self.page.interruptions} stray EINTR, allowed: {interruptions}")
        try:
            if proc.tracers(self.pid):
                found.append("it is still traced")
            held = proc.held(self.pid)
            if held:
                found.append(f"its threads are stopped: {held}")
        except proc.Gone:
            found.append("it died meanwhile")
        return found

    def close(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()
        LIVE.discard(self)
        for stream in (self.process.stdin, self.process.stdout):
            try:
                stream.close()
            except BrokenPipeError:
                pass
        self._errors.close()
        self.page.close()

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.close()
