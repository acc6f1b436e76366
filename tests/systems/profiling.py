# SPDX-License-Identifier: Apache-2.0
"""Profiles in an emulated system: profiling.py BUILD CYCLES KILLS

Runs there, with the program of the system. BUILD is as for victims.py. One line for each step, in
the form of `init`. The programs are those of the tests of `flmem profile`.
"""
import os
import re
import subprocess
import sys
import traceback

HERE = os.path.dirname(os.path.abspath(__file__))
TESTS = os.path.dirname(HERE)
ATTACHED = os.path.join(TESTS, "victims", "sampled", "attached.py")
SAMPLED = os.path.join(TESTS, "victims", "sampled", "sampled.py")
PROFILE = "/tmp/step.prof"
MINOR = str(sys.version_info[1])
TRIES = 10  # a program that forks all the time may be refused


class Failed(Exception):
    """Raised when a step did not do what it should."""


class Flmem:
    def __init__(self, build):
        self.build = build
        self.path = os.path.join(build, "cli", "flmem")

    def run(self, *words, allowed=(0,)):
        done = subprocess.run([self.path, *words], check=False, stdin=subprocess.DEVNULL, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        if done.returncode not in allowed:
            raise Failed(f"{' '.join(words[:2])}: status {done.returncode}: {done.stderr.strip()}")
        return done

    def attach(self, pid):
        words = ("profile", "attach", "--pid", str(pid), "-o", PROFILE, "--force", "--interval", "64KiB",
                 "--native", "--timeout", "60s")
        for _ in range(TRIES):
            done = self.run(*words, allowed=(0, 6))
            if done.returncode == 0:
                return
        raise Failed(done.stderr)

    def detach(self, pid):
        for _ in range(TRIES):
            if self.run("profile", "detach", "--pid", str(pid), "--timeout", "60s",
                        allowed=(0, 6)).returncode == 0:
                return
        raise Failed("it stays sampled")

    def tree(self, *options):
        return self.run("profile", "tree", "--by", "allocated", "--limit", "200", *options, PROFILE).stdout


class Target:
    """attached.py as a child of the given words."""

    def __init__(self, *before):
        self.process = subprocess.Popen([*before, sys.executable, "-B", ATTACHED], text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.expect("ready")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()

    @property
    def pid(self):
        return self.process.pid

    def expect(self, wanted):
        said = self.process.stdout.readline().strip()
        if wanted is not None and said != wanted:
            raise Failed(f"the program said {said!r}, not {wanted!r}; status {self.process.poll()}")

    def order(self, line, wanted=None):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        self.expect(wanted)


def find(tree, *functions):
    """Finds lines of a tree with these functions, each below the one before."""
    at, deep = 0, -1
    for line in tree.splitlines():
        row = re.match(r" *[0-9.]+ \S+ +[0-9.]+%  ( *)(.*)", line)
        if row and at < len(functions) and len(row[1]) > deep and functions[at] in row[2]:
            at, deep = at + 1, len(row[1])
    if at < len(functions):
        raise Failed(f"no {functions[at]} below {functions[:at]}: {tree[:300]}")


def run_sampled(flmem):
    """Checks that each place of sampled.py has all of its bytes."""
    flmem.run("profile", "run", "-o", PROFILE, "--force", "--interval", "1", "--", sys.executable, "-B", SAMPLED)
    done = subprocess.run([sys.executable, "-B", os.path.join(TESTS, "harness", "check_python_sites.py"),
                           PROFILE, SAMPLED, MINOR], check=False, text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT)
    if done.returncode:
        raise Failed(done.stdout[-300:])
    return done.stdout


def run_native(flmem):
    """Checks for both kinds of frames in one stack, from the first instruction of the program
    on."""
    flmem.run("profile", "run", "-o", PROFILE, "--force", "--native", "--interval", "64KiB", "--", sys.executable,
              "-B", SAMPLED)
    find(flmem.tree("--stack", "mixed"), "_start", "Py_BytesMain", "PyEval_EvalCode", "<module>", "main")
    return "from _start to the functions of the script"


def attach_twice(flmem):
    with Target() as target:
        target.order("round", "round")
        for _ in range(2):
            flmem.attach(target.pid)
            for _ in range(3):
                target.order("round", "round")
            target.order("check", "sound")
            flmem.detach(target.pid)
            find(flmem.tree(), "<module>", "main", "obey", "keep_update")
        target.order("check", "sound")
    return "sampled, and left as it was"


def attach_unbound(flmem):
    """Samples calls of a library whose functions are bound at their first call, during the
    profile."""
    library = os.path.join(flmem.build, "tests", "victims", "lazy.so")
    with Target() as target:
        target.order(f"lazy {library}", "lazy")
        flmem.attach(target.pid)
        for _ in range(3):
            target.order(f"call {library} call_later")
        flmem.detach(target.pid)
        find(flmem.tree("--stack", "mixed"), "obey", "call_later")
        target.order(f"call {library} call_later")
        target.order("check", "sound")
    return "its allocations are sampled"


def attach_beside_forks(flmem):
    with Target() as target:
        target.order("forks", "forks")
        for _ in range(3):
            flmem.attach(target.pid)
            flmem.detach(target.pid)
        target.order("check", "sound")
    return "no child hung"


def attach_prepared(flmem):
    with Target(flmem.path, "start", "--profile-ready", "--role", "client", "--") as target:
        flmem.attach(target.pid)
        target.order("round", "round")
        target.order("check", "sound")
        flmem.detach(target.pid)
        find(flmem.tree(), "obey", "keep_update")
    return "by its socket"


def attach_often(flmem):
    """Runs tests/soak/attach.py."""
    done = subprocess.run([sys.executable, "-B", os.path.join(TESTS, "soak", "attach.py"), flmem.build,
                           "--cycles", sys.argv[2], "--kills", sys.argv[3]], check=False, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.returncode:
        raise Failed(done.stdout[-300:])
    return done.stdout


STEPS = (run_sampled, run_native, attach_twice, attach_unbound, attach_beside_forks, attach_prepared, attach_often)


def main():
    flmem = Flmem(os.path.abspath(sys.argv[1]))
    for step in STEPS:
        try:
            status, said = "ok", step(flmem)
        except Exception as problem:  # pylint: disable=broad-except
            status, said = "FAIL", f"{problem!r} {traceback.format_exc()[-200:]}"
        print(f"STEP {step.__name__} {status} {' '.join(said.split())[:400]}", flush=True)


if __name__ == "__main__":
    main()
