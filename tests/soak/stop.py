# SPDX-License-Identifier: Apache-2.0
"""
Stops flmem (SIGSTOP, freezer) in the middle of its work, and checks that every thread of the target
continues to run meanwhile.

usage: stop.py BUILD [--stops N] [--late N] [--ways stop,tstp,freeze,target,terminal] [--dry-run]

stop: SIGSTOP, tstp: SIGTSTP, freeze: the cgroup freezer, each at the end of each of the first N
system calls from flmem's first ptrace() on, then at --late random ones behind them
(tests/soak/killat.c). terminal: Ctrl-Z typed on the terminal that flmem runs on, N times after
increasing delays. target: at these places the target is frozen by its cgroup, and thawed when flmem
has ended, which must not wait for it. --dry-run: a dry run is stopped.

From PTRACE_SEIZE on until it lets go, flmem holds one thread of the target. SIGTSTP must not reach
flmem then; SIGSTOP and the freezer cannot be put off. These places are counted apart: that one
thread may be stopped, all others have to run on, but for those of an interpreter, which may wait
for the held one to release a lock.
"""
import argparse
import concurrent.futures
import os
import pty
import random
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

from harness import command, proc, report, skip, victim  # noqa: E402
import entries  # noqa: E402
import kill  # noqa: E402

TOGETHER = 4  # most of the time is spent waiting for what must not happen
HOLD_S = 0.2  # time until a target is asked for progress: flmem's own effects are over by then
MOVE_S = 30  # a bound, not a measurement
STEPS_S = 0.002  # between the delays after which Ctrl-Z is typed
WAYS = ("stop", "tstp", "freeze", "target", "terminal")
FREEZES = ("freeze", "target")
FROZEN_TIMEOUT = "300ms"
END_S = 60  # a bound for a flmem whose target is frozen; it stops within seconds
FREEZERS = ("/sys/fs/cgroup/freezer", "/sys/fs/cgroup/unified", "/sys/fs/cgroup")


def targets(victims):
    """Returns targets: a tracer that does not run delays a thread through signals; the waits are
    those that resume in different ways."""
    def entry(name, program, *words, **more):
        return entries.Entry(name, [os.path.join(victims, program), *words], **more)

    found = [
        entry("1000 signals a second", "safe_signals", "-a"),
        entry("1000 signals a second, 3 threads", "safe_signals", "-t", "3"),
        entry("waits in epoll_wait", "safe_blocked", "epoll_wait"),
        entry("waits in futex", "safe_blocked", "futex"),
        entry("4 threads churn, 3 wait", "safe_threads", "-c", "4", "-i", "3", "-n", "60000"),
    ]
    return found + [one for one in kill.interpreters() if one.argv[-1] == "wait"][-2:]


class Freezer:
    """A cgroup that can be frozen; path is None where there is none, and `why` has the reason."""

    def __init__(self):
        self.path, self.missing = None, "no freezer of cgroups is mounted"
        for parent in FREEZERS:
            path = os.path.join(parent, f"flmem-test-{os.getpid()}")
            if self.path or not os.path.exists(os.path.join(parent, "cgroup.procs")):
                continue
            try:
                os.mkdir(path)
            except OSError as error:
                self.missing = f"{parent}: {error.strerror}"
                continue
            if any(os.path.exists(os.path.join(path, name))
                   for name in ("freezer.state", "cgroup.freeze")):
                self.path = path
            else:
                os.rmdir(path)

    def sub(self, number):
        path = os.path.join(self.path, str(number))
        os.makedirs(path, exist_ok=True)
        return path

    def close(self):
        for directory, _, _ in os.walk(self.path or "", topdown=False):
            thaw(directory)
            wait_until(lambda: not proc.read(os.path.join(directory, "cgroup.procs")).split())
            os.rmdir(directory)


def write_cgroup(path, words):
    for name, word in words:
        if os.path.exists(os.path.join(path, name)):
            with open(os.path.join(path, name), "w", encoding="ascii") as file:
                file.write(word)


def thaw(path):
    write_cgroup(path, (("freezer.state", "THAWED"), ("cgroup.freeze", "0")))


def freeze(path):
    write_cgroup(path, (("freezer.state", "FROZEN"), ("cgroup.freeze", "1")))


def wait_until(condition, timeout_s=MOVE_S):
    end = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.005)
    return True


def look(target, where, window=0):
    """Checks the target while flmem is stopped; `window` is the thread that flmem holds at this
    moment, or 0."""
    running = target.victim
    time.sleep(HOLD_S)
    held = set(proc.held(running.pid)) - {window}
    if held:
        target.problems.append(f"{where}: threads {sorted(held)} are stopped with flmem")
        return
    if window and target.entry.code:
        return  # the other threads of an interpreter wait for a lock that the held thread may have
    stuck = running.stuck({window}, MOVE_S)
    if stuck:
        target.problems.append(f"{where}: threads {sorted(stuck)} wait for flmem")
    elif not window and not running.wait_for_rounds(2, MOVE_S):
        target.problems.append(f"{where}: it makes no progress")


def freeze_target(target, cgroup, where, running):
    """Checks that flmem runs to its end beside a frozen target."""
    write_cgroup(cgroup, (("cgroup.procs", str(target.victim.pid)),))
    target.counts["stopped at"] += 1  # a freezer itself ends epoll_wait() with EINTR
    freeze(cgroup)
    try:
        running.communicate(b"go on\n", timeout=END_S)
    except subprocess.TimeoutExpired:
        target.problems.append(f"{where}: flmem waits for a frozen target")
    finally:
        thaw(cgroup)


def words(flmem, target, way):
    """Returns flmem's words with a timeout: with a frozen target it tries until then."""
    found = kill.words(flmem, target)
    if way == "target":
        found[found.index("--timeout") + 1] = FROZEN_TIMEOUT
    return found


def hold_at(killat, flmem, target, way, cgroup, stop):
    """Tries one place; returns the number of places when it is beyond the last, else 0."""
    held = "stop" if way == "target" else cgroup or way
    with subprocess.Popen([killat, "--hold", held, str(stop), *words(flmem, target, way)],
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          env=dict(os.environ, **command.ENVIRONMENT)) as running:
        said = []
        for line in running.stdout:
            said = line.decode(errors="replace").split()
            if said[:1] == ["held"] and len(said) == 4:
                break
            if said[:1] == ["ended"] and len(said) == 4:
                target.counts["ended before"] += 1
                return int(said[2])
        else:
            target.problems.append(f"killat said {said} {running.stderr.read()!r}")
            return 1
        where = f"{way} at place {stop}, system call {said[1]}"
        # SIGTSTP was sent at that place; where flmem deferred it, flmem stops at a later place.
        window = 0 if way == "tstp" else int(said[3])
        target.counts["window" if window else "held"] += 1
        if way == "tstp" and int(said[2]) in proc.tracers(target.victim.pid):
            target.problems.append(f"{where}: it obeys although it holds a thread")
        if way == "target":
            freeze_target(target, cgroup, where, running)
        else:
            look(target, where, window)
            running.communicate(b"go on\n")
    target.check()
    return 0


def sweep(killat, flmem, target, way, cgroup, options):
    rng = random.Random(f"{kill.SEED} {target.entry.name} {way}")
    last = 0
    for stop in range(1, options.stops + 1):
        last = hold_at(killat, flmem, target, way, cgroup, stop)
        if last or target.problems:
            return
    last = hold_at(killat, flmem, target, way, cgroup, 10**9) or options.stops
    for _ in range(options.late):
        stop = rng.randint(options.stops + 1, max(last, options.stops + 1))
        if not target.problems:
            hold_at(killat, flmem, target, way, cgroup, stop)


def child_of_terminal(words):
    """Runs in the child of a new terminal: does a shell's part, with the command in the
    foreground."""
    signal.signal(signal.SIGTTOU, signal.SIG_IGN)
    pid = os.fork()
    if pid == 0:
        os.setpgid(0, 0)
        os.tcsetpgrp(0, os.getpgid(0))
        signal.signal(signal.SIGTTOU, signal.SIG_DFL)
        os.execv(words[0], words)
    os.waitpid(pid, 0)
    os._exit(0)


def on_terminal(words):
    """Returns (pid of the shell, descriptor of the terminal's other end)."""
    pid, terminal = pty.fork()
    if pid == 0:
        try:
            child_of_terminal(words)
        finally:
            os._exit(127)
    return pid, terminal


def type_ctrl_z(flmem, target, delay):
    shell, terminal = on_terminal(kill.words(flmem, target))
    pids = []

    def child():
        return [int(pid) for pid in proc.read(f"/proc/{shell}/task/{shell}/children").split()]

    def settled():
        """True if the command is stopped, or has ended."""
        try:
            pids = child()
            return not pids or proc.status(pids[0])["State"][0] in "TZX"
        except proc.Gone:
            return True

    try:
        wait_until(child)
        time.sleep(delay)
        os.write(terminal, b"\x1a")
        wait_until(settled, 3)
        pids = [pid for pid in child() if proc.status(pid)["State"][0] == "T"]
        target.counts["held" if pids else "ended before"] += 1
        if pids:
            look(target, f"Ctrl-Z after {delay * 1e3:.0f} ms")
    except proc.Gone:
        target.counts["ended before"] += 1
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)
        drain(terminal)
        os.waitpid(shell, 0)
        os.close(terminal)
    target.check()


def drain(terminal):
    """Reads the terminal: output that nobody reads would block the command; EIO is its end."""
    try:
        while os.read(terminal, 65536):
            pass
    except OSError:
        pass


def run_target(flmem, killat, entry, way, cgroup, options):
    target = kill.Target(entry, more=kill.dry_words(options))
    try:
        if way == "terminal":
            for number in range(options.stops + kill.MISSED_MAX):
                if not target.problems and (number < options.stops or not target.counts["held"]):
                    type_ctrl_z(flmem, target, number % options.stops * STEPS_S)
        else:
            sweep(killat, flmem, target, way, cgroup, options)
    except (proc.Gone, OSError) as error:
        target.problems.append(f"it is gone: {error!r} {target.victim.problems()}")
    finally:
        target.victim.close()
    touched = target.counts["held"] + target.counts["window"]
    if not touched and not target.problems and not target.more:
        target.problems.append("flmem was never stopped after it had begun to touch it")
    return target


def run_all(flmem, build, ways, freezer, options):
    tests = os.path.join(os.path.abspath(build), "tests")
    killat = os.path.join(tests, "killat")
    usable = [entry for entry in targets(os.path.join(tests, "victims")) if not entry.missing]
    if not usable:
        skip("no target can be run here")
    jobs = [(entry, way) for way in ways for entry in usable]
    with concurrent.futures.ThreadPoolExecutor(TOGETHER) as pool:
        running = [pool.submit(run_target, flmem, killat, entry, way,
                               freezer.sub(number) if way in FREEZES else "", options)
                   for number, (entry, way) in enumerate(jobs)]
        return [(way, job.result()) for (_, way), job in zip(jobs, running)]


def show(results):
    rows = [(target.entry.name, way, target.counts["held"], target.counts["window"],
             target.counts["ended before"], len(target.problems)) for way, target in results]
    report.table(("target", "stopped by", "stopped", "holding a thread", "ended before",
                  "problems"), rows)
    for way, target in results:
        for problem in target.problems[:3]:
            print(f"PROBLEM: {target.entry.name}, {way}: {problem}", flush=True)
    return rows


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build")
    parser.add_argument("--stops", type=int, default=30)
    parser.add_argument("--late", type=int, default=5)
    parser.add_argument("--ways", default=",".join(WAYS))
    parser.add_argument("--dry-run", action="store_true")
    options = parser.parse_args()
    victim.end_at_signals()
    flmem = command.Flmem(options.build)
    flmem.require("trim")
    ways = options.ways.split(",")
    freezer = Freezer() if set(FREEZES) & set(ways) else None
    if freezer and not freezer.path:
        print(f"SKIP: nothing is frozen by a cgroup: {freezer.missing}")
        ways = [way for way in ways if way not in FREEZES]
    try:
        rows = show(run_all(flmem, options.build, ways, freezer, options))
    finally:
        if freezer:
            freezer.close()
    held, windows, bad = (sum(row[column] for row in rows) for column in (2, 3, 5))
    print(f"flmem was stopped {held + windows} times, {windows} of them while it held one thread; "
          f"{bad} problems")
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
