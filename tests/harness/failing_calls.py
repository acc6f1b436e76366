# SPDX-License-Identifier: Apache-2.0
"""
Disks that fail: each call of flmem aggregate and flmem exchange that writes fails once (a full disk, a
quota, a damaged one), or it and all that follow. Nothing may hang, and what failed has a reason; then the
same command without the fault has the right bytes, and what had been confirmed is there.

usage: failing_calls.py FLMEM LIBRARY SCENARIO [--every N] [--first N] [--kinds NAMES] [--match TEXT]
"""
import argparse
import errno
import filecmp
import itertools
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

from harness.exchange_server import write_model  # noqa: E402

LIMIT_S = 60
KINDS = {  # errno, and further variables of the environment
    "full": (errno.ENOSPC, {}),
    "quota": (errno.EDQUOT, {}),
    "damaged": (errno.EIO, {}),
    "stays-full": (errno.ENOSPC, {"FAIL_ON": "1", "FAIL_SHORT": "1"}),
    "stays-damaged": (errno.EIO, {"FAIL_ON": "1"}),
}
READING = {
    "unread": (errno.EIO, {"FAIL_READS": "1"}),
    "descriptors": (errno.EMFILE, {"FAIL_OPENS": "1"}),
    "stale": (errno.ESTALE, {"FAIL_READS": "1", "FAIL_ON": "1"}),
    "dead": (errno.EIO, {"FAIL_ALL": "1", "FAIL_ON": "1"}),
    "read-only": (errno.EROFS, {"FAIL_ON": "1"}),
    "killed": (errno.EIO, {"FAIL_KILL": "1"}),
}


class Case:
    """A test case with one call that fails."""

    def __init__(self, chosen, kind, number):
        self.flmem, self.library, self.kind, self.number = chosen.flmem, chosen.library, kind, number
        self.error, self.more = {**KINDS, **READING}[kind]
        self.folder, self.says = os.getcwd(), chosen.say

    def environment(self):
        return {**os.environ, **self.more, "LD_PRELOAD": self.library, "FAIL_UNDER": self.folder + "/disk",
                "ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") + ":verify_asan_link_order=0",
                "FAIL_CALL": str(self.number), "FAIL_ERRNO": str(self.error), "FAIL_LOG": self.folder + "/calls"}

    def log(self):
        try:
            with open(self.folder + "/calls", encoding="utf-8") as log:
                return [line.split(" ", 2) for line in log.read().splitlines()]
        except OSError:
            return []

    def failed(self):
        """Returns the call that failed, or None."""
        return next((" ".join(line) for line in self.log() if line[0].endswith("!")), None)

    def check_text(self, status, text):
        """Checks the message of a failure."""
        if self.says:
            print(f"{self.kind} {self.number} ({self.failed()}): {status}: {text.strip()[-300:]}")
        if self.kind == "killed":
            assert status == -signal.SIGKILL or "a request to" in text, f"status {status}: {text}"
            return
        assert status > 0, f"status {status}: {text}"
        assert status in (7, 2, 4, 8), f"status {status}: {text}"
        causes = [os.strerror(self.error)] + (["507", "500", "503", "a request to"] if "push of" in text or "wait for" in text else [])
        assert any(cause in text for cause in causes), text
        assert os.strerror(errno.EIO) not in text or "check the disk" in text, text

    def run(self, *words, faulty=False, cwd="disk"):
        done = subprocess.run([self.flmem, *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, check=False, timeout=LIMIT_S, cwd=cwd,
                              env=self.environment() if faulty else None)
        if not faulty:
            assert done.returncode == 0, f"{words} without a fault: {done.returncode}: {done.stderr}"
        return done


class Server:
    """A server that may end at any time."""

    def __init__(self, case, options, faulty):
        with open("server.log", "wb") as log, open("served", "wb") as out:
            # pylint: disable-next=consider-using-with
            self.process = subprocess.Popen(
                [case.flmem, "exchange", "serve", "--listen", "127.0.0.1:0", "--state", "disk/state", "--settle", "200ms",
                 "--reserve", "64KiB", "--clients", "2", *options],
                stdin=subprocess.DEVNULL, stdout=out, stderr=log, env=case.environment() if faulty else None)
        until = time.monotonic() + LIMIT_S
        self.url = None
        while not self.url and time.monotonic() < until and self.process.poll() is None:
            found = [line for line in self.text().splitlines() if "listening at " in line]
            self.url = found[0].rpartition(" at ")[2] if found else None
            time.sleep(0.005)

    @staticmethod
    def text():
        with open("server.log", encoding="utf-8") as log:
            return log.read()

    def wait(self, limit_s=LIMIT_S):
        """Returns the server's exit status; None if it still runs."""
        try:
            return self.process.wait(limit_s)
        except subprocess.TimeoutExpired:
            return None

    def kill(self):
        self.process.kill()
        self.process.wait()


def await_pushes(pushes, number, done, together):
    """Returns the failures. In lockstep the remaining clients wait for one that has failed."""
    failures, until = [], time.monotonic() + LIMIT_S
    while pushes:
        for name, push in list(pushes.items()):
            if push.poll() is None:
                continue
            text = pushes.pop(name).communicate()[1]
            if push.returncode:
                failures.append(f"push of {name} in round {number}: {push.returncode}: {text}")
                until = min(until, time.monotonic() + 1) if together else until
            else:
                done.add((name, number))
        if time.monotonic() > until:
            for push in pushes.values():
                push.kill()
                push.communicate()
            assert failures and together, f"pushes hang: {pushes.keys()}"
            break
        time.sleep(0.01)
    return failures


def push_all(case, server, options, rounds, done):
    """Pushes the missing updates; returns the failures."""
    failures = []
    for number in range(rounds):
        missing = [name for name in "ab" if (name, number) not in done]
        # pylint: disable-next=consider-using-with
        pushes = {name: subprocess.Popen(
            [case.flmem, "exchange", "push", server.url, f"../{name}.safetensors", "-c", name, "-r", str(number), "-q",
             "--retries", "2", "--timeout", "10s", *options],
            stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) for name in missing}
        failures += await_pushes(pushes, number, done, "lockstep" in server.process.args)
        if failures:
            break
        if number + 1 < rounds:
            waited = subprocess.run([case.flmem, "exchange", "wait", server.url, "-r", str(number + 1), "-q", "--timeout", "20s",
                                     "--retries", "1"], stderr=subprocess.PIPE, text=True, check=False, timeout=LIMIT_S)
            if waited.returncode:
                failures.append(f"wait for {number + 1}: {waited.returncode}: {waited.stderr}")
                break
    return failures


def serve(case, mode, rounds=1, more=(), pushes=()):
    """Runs a whole exchange while the server's disk fails."""
    os.mkdir("disk")
    options = ["--model", "../initial.safetensors", "--rounds", str(rounds), "--mode", mode, *more]
    server = Server(case, options, True)
    done, failures = set(), []
    try:
        if server.url:
            failures = push_all(case, server, pushes, rounds, done)
        # The exchange may succeed despite a failure.
        status = server.wait(1 if failures and server.url else LIMIT_S)
        text = server.text()
    finally:
        server.kill()
    assert status is not None or failures, "the server hangs: " + text
    if status:
        case.check_text(status, text)
    if case.failed() and not failures and not status:
        case.silent = True
    for failure in failures:
        case.check_text(7, failure)
    if status == 0:
        assert not failures, failures
    else:
        continue_exchange(case, options, rounds, pushes, done)
    with open("served", encoding="utf-8") as served:
        compare(served.read().strip(), f"../want-{'-'.join(more) or 'mean'}-{rounds}")


def continue_exchange(case, options, rounds, pushes, done):
    """Runs the same command with a disk that does not fail."""
    server = Server(case, options, False)
    try:
        assert server.url or server.process.returncode == 0, "it does not start again: " + server.text()
        failures = push_all(case, server, pushes, rounds, done) if server.url else []
        status = server.wait()
        # The server needs no client for updates that it already had, and may have ended before the
        # clients ask again.
        failures = [one for one in failures if status or "a request to" not in one]
        assert not failures, f"without a fault: {failures}: {server.text()}"
        assert status == 0, f"without a fault {status}: {server.text()}"
    finally:
        server.kill()


def is_same(path, want):
    if not os.path.isdir(want):
        return os.path.isfile(path) and filecmp.cmp(path, want, False)
    names = sorted(os.listdir(want))
    return os.path.isdir(path) and sorted(os.listdir(path)) == names and \
        all(is_same(os.path.join(path, name), os.path.join(want, name)) for name in names)


def restart(case):
    """Starts a server again, with an update that it has confirmed, while its disk fails."""
    os.mkdir("disk")
    options = ["--model", "../initial.safetensors", "--rounds", "1"]
    server = Server(case, options, False)
    push_all(case, server, (), 1, done := {("b", 0)})
    server.kill()
    server = Server(case, options, True)
    server.kill()
    if not server.url:
        case.check_text(server.process.returncode, server.text())
    done.remove(("b", 0))
    continue_exchange(case, options, 1, (), done)
    compare("disk/state/rounds/1/model/initial.safetensors", "../want-mean-1")


def compare(path, want):
    assert path and os.path.exists(path), f"no {path}"
    assert is_same(path, want), f"other bytes: {path}"


def pull(case, model, output):
    """Pushes while the disk of the client fails."""
    os.mkdir("disk")
    if output == "got":
        shutil.copy("../a.safetensors", "disk/got")
    # pylint: disable-next=consider-using-with
    server = Server(case, ["--model", f"../{model}", "--settle", "1h"], False)
    words = ["exchange", "pull", server.url, "-o", output, "-q", "--retries", "1"]
    try:
        os.rename("disk/state", "state")
        done = case.run(*words, faulty=True)
        if done.returncode:
            case.check_text(done.returncode, done.stderr)
            if output == "got" and not filecmp.cmp("disk/got", "../a.safetensors", False):
                compare("disk/got", f"../{model}")
            case.run(*words)
        elif " remove " in (case.failed() or ""):
            case.run(*words)
        compare(f"disk/{output.rstrip('/')}", f"../{model}")
        left = [name for name in os.listdir("disk") if ".part" in name]
        assert not left, left
    finally:
        server.kill()


def aggregate(case, output, words, want, olds=()):
    """Aggregates while the disk of the output fails; `words` are run in disk, `want` are the
    outputs and their sources."""
    os.mkdir("disk")
    for name, source in olds:
        shutil.copy(f"../{source}", f"disk/{name}")
    done = case.run("aggregate", *words, "-q", faulty=True)
    for name, source in olds:
        if done.returncode and not filecmp.cmp(f"disk/{name}", f"../{source}", False):
            compare(f"disk/{name}", f"../{want[name]}")
    if done.returncode:
        case.check_text(done.returncode, done.stderr)
    if " remove " in (case.failed() or ""):
        # The next run, even a refused one, removes the files that this one could not.
        subprocess.run([case.flmem, "aggregate", *words, "-q", "--resume"], stderr=subprocess.DEVNULL, check=False, cwd="disk")
    # If only the last flush of a folder failed, there is nothing left to do.
    if done.returncode and not all(is_same(f"disk/{name}", f"../{source}") for name, source in want.items()):
        case.run("aggregate", *words, "-q", *(["--resume"] if case.number % 3 else []))
    for name, source in want.items():
        compare(f"disk/{name}", f"../{source}")
    left = sorted(set(os.listdir("disk")) - set(want))
    assert not left, f"left in {output}: {left}"


AB = ("../../a.safetensors", "../../b.safetensors")
ADAM = ("--algorithm", "fedadam")
SCENARIOS = {
    "staged": lambda case: serve(case, "staged", pushes=("--chunk", "64KiB")),
    "digests": lambda case: serve(case, "staged", pushes=("--sha256",)),
    "optimizer": lambda case: serve(case, "staged", 2, ADAM, ("--chunk", "100KiB")),
    "rounds": lambda case: serve(case, "staged", 3),
    "restart": restart,
    "lockstep": lambda case: serve(case, "lockstep", pushes=("--chunk", "64KiB")),
    "lockstep-rounds": lambda case: serve(case, "lockstep", 2),
    "pull": lambda case: pull(case, "initial.safetensors", "got"),
    "pull-folder": lambda case: pull(case, "shards", "folder/"),
    "mean": lambda case: aggregate(case, "out", ("-o", "out.safetensors", "--chunk", "64K", *AB),
                                   {"out.safetensors": "mean.safetensors"}, (("out.safetensors", "a.safetensors"),)),
    "shards": lambda case: aggregate(case, "out", ("-o", "out", "--shard-size", "100K", *AB), {"out": "mean-shards"}),
    "npz": lambda case: aggregate(case, "out", ("-o", "out.npz", *AB), {"out.npz": "mean.npz"}),
    "state": lambda case: aggregate(
        case, "out", ("-o", "out.safetensors", *ADAM, "--base", "../../initial.safetensors", "--state", "s.safetensors", *AB),
        {"out.safetensors": "adam.safetensors", "s.safetensors": "after.safetensors"},
        (("s.safetensors", "before.safetensors"),)),
}


def prepare(flmem):
    """Makes the models, and the results that the scenarios must have."""
    def run(*words):
        subprocess.run([flmem, "aggregate", *words, "-q"], check=True)

    for seed, name in enumerate(("initial", "a", "b")):
        write_model(name + ".safetensors", seed, count=16000)
    files = ("a.safetensors", "b.safetensors")
    run("-o", "mean.safetensors", *files)
    for rounds in (1, 2, 3):
        shutil.copy("mean.safetensors", f"want-mean-{rounds}")
    run("-o", "mean-shards", "--shard-size", "100K", *files)
    run("-o", "shards", "--shard-size", "100K", "initial.safetensors")
    run("-o", "mean.npz", *files)
    base = "initial.safetensors"
    for number in (1, 2):
        run("-o", f"adam-{number}.safetensors", *ADAM, "--base", base, "--state", "state.safetensors", *files)
        base = f"adam-{number}.safetensors"
    os.rename(base, "want---algorithm-fedadam-2")
    # A state that has these inputs already would refuse them.
    run("-o", "x.safetensors", *ADAM, "--base", "initial.safetensors", "--state", "before.safetensors", *files[:1])
    shutil.copy("before.safetensors", "after.safetensors")
    run("-o", "adam.safetensors", *ADAM, "--base", "initial.safetensors", "--state", "after.safetensors", *files)


def try_case(chosen, kind, number):
    """Runs one case; returns None if no call failed any more, else whether it succeeded."""
    with tempfile.TemporaryDirectory(dir=".") as folder:
        before = os.getcwd()
        os.chdir(folder)
        case = Case(chosen, kind, number)
        problem = None
        try:
            SCENARIOS[chosen.scenario](case)
        except (AssertionError, subprocess.TimeoutExpired) as caught:
            problem = caught
        failed = case.failed()
        if not number:
            chosen.calls = case.log()
        os.chdir(before)
    if problem:
        print(f"{chosen.scenario}, {kind}, call {number} ({failed}): {problem}", flush=True)
    elif failed and hasattr(case, "silent"):
        chosen.quiet.setdefault(" ".join(failed.split()[1:])[:60], 0)
    return None if not failed and not problem else not problem


def matching(chosen, kind):
    """Yields the numbers of the calls to fail, one after the other; more than there are."""
    if not chosen.match:
        return itertools.count(chosen.first, chosen.every)
    assert try_case(chosen, kind, 0) is None, "without a fault"
    return [int(line[0]) for line in chosen.calls if re.search(chosen.match, " ".join(line[1:]))][::chosen.every]


def main():
    parser = argparse.ArgumentParser(description="Disks that fail at each call.")
    parser.add_argument("flmem", type=os.path.abspath)
    parser.add_argument("library", type=os.path.abspath)
    parser.add_argument("scenario", choices=SCENARIOS)
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--match", help="only calls like this: a regular expression of name and file")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--say", action="store_true")
    parser.add_argument("--kinds", default=",".join(KINDS))
    chosen = parser.parse_args()
    chosen.quiet = {}
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    tried, bad = 0, 0
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        prepare(chosen.flmem)
        assert try_case(chosen, "full", 0) is None, "without a fault"
        if chosen.list:
            print("\n".join(" ".join(line) for line in chosen.calls))
        for kind in chosen.kinds.split(","):
            for number in matching(chosen, kind):
                good = try_case(chosen, kind, number)
                if good is None:
                    break
                tried, bad = tried + 1, bad + (not good)
        os.chdir("/")
    for name in chosen.quiet:
        print("no failure:", name)
    print(f"{chosen.scenario}: {tried} failing calls, {bad} wrong")
    sys.exit(1 if bad or not tried else 0)


if __name__ == "__main__":
    main()
