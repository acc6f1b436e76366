# SPDX-License-Identifier: Apache-2.0
"""What a user does first, with the Python that runs this: scenario.py WHEEL PIP VERSION DIRECTORY

Makes a virtual environment in DIRECTORY without any package, installs the wheel into it with PIP (a
wheel of pip itself) and uses it on a real process. One line per step, exit status 1 if one failed.
Python 3.8 and the standard library only: nothing else is there.
"""
import json
import os
import subprocess
import sys

# Keeps every eighth block, so that glibc retains the pages between them.
VICTIM = """
import sys
rows = [bytearray(3000) for _ in range(20000)]
rows = rows[::8]
print("ready", flush=True)
for line in sys.stdin:
    print(len(rows), flush=True)
"""
INSTALL = """
import runpy, sys, sysconfig
sysconfig._PIP_USE_SYSCONFIG = True  # Debian keeps distutils in another package
sys.argv = ["pip", "install", "--quiet", "--no-index", "--no-deps", "--disable-pip-version-check",
            sys.argv[1]]
runpy.run_module("pip", run_name="__main__")
"""
CHILDREN = """
import os, subprocess, sys
own = "jemalloc" in open("/proc/self/maps").read()
child = subprocess.run(["cat", "/proc/self/maps"], stdout=subprocess.PIPE).stdout
print(own, b"jemalloc" in child)
"""


class Failed(Exception):
    """A step did not do what it should."""


def run(*words, status=0, **more):
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False,
                          universal_newlines=True, **more)
    if done.returncode != status:
        raise Failed("{}: status {}: {}".format(" ".join(words[:3]), done.returncode,
                                                (done.stderr or done.stdout).strip()[-600:]))
    return done.stdout


class Victim:
    """A Python process that retains memory; answers as long as it is well."""

    def __init__(self):
        self.process = subprocess.Popen([sys.executable, "-c", VICTIM], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, universal_newlines=True,
                                        env=dict(os.environ, PYTHONMALLOC="malloc"))
        if self.process.stdout.readline() != "ready\n":
            raise Failed("the victim did not start")
        self.pid = self.process.pid

    def ask(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline().strip()
        if answer != "2500":
            raise Failed("after the trim the victim answers '{}'".format(answer))

    def end(self):
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()


class Steps:
    """Every method is a step, in this order; `flmem` is the installed command."""

    def __init__(self, version, directory):
        self.version = version
        self.prefix = os.path.join(directory, "env")
        self.flmem = os.path.join(self.prefix, "bin", "flmem")
        self.python = os.path.join(self.prefix, "bin", "python")

    def install(self, wheel, pip):
        run(sys.executable, "-m", "venv", "--without-pip", self.prefix)
        run(self.python, "-c", INSTALL, wheel, env=dict(os.environ, PYTHONPATH=pip))

    def step_version(self):
        if run(self.flmem, "--version") != "flmem {}\n".format(self.version):
            raise Failed("another version")
        built = json.loads(run(self.flmem, "--version", "--json"))
        if built["version"] != self.version:
            raise Failed("another version in JSON")

    def step_module(self):
        if run(self.python, "-m", "flmem", "--version") != "flmem {}\n".format(self.version):
            raise Failed("python -m flmem is another version")
        name = run(self.python, "-c", "import flmem; print(flmem.allocator_name())").strip()
        if name != "glibc":
            raise Failed("the module names the allocator '{}'".format(name))

    def step_detect(self):
        victim = Victim()
        try:
            found = json.loads(run(self.flmem, "detect", "--all", "--json"))["processes"]
            mine = [process for process in found if process["pid"] == victim.pid]
            if not mine or "glibc" not in [row["name"] for row in mine[0]["allocators"]]:
                raise Failed("the Python process and its allocator are not in detect --all")
            if not mine[0]["python"]["version"].startswith("%d.%d." % sys.version_info[:2]):
                raise Failed("another Python version: {}".format(mine[0]["python"]))
        finally:
            victim.end()

    def step_trim(self):
        victim = Victim()
        try:
            result = json.loads(run(self.flmem, "trim", "--pid", str(victim.pid), "--json",
                                    "--timeout", "20s"))["results"][0]
            if result["outcome"] != "released" or result["released_bytes"] < 4 << 20:
                raise Failed("trim: {}".format(result))
            victim.ask()
        finally:
            victim.end()

    def step_env(self):
        if "MALLOC_ARENA_MAX" not in run(self.flmem, "env", "--role", "client"):
            raise Failed("flmem env prints no settings")

    def step_preload(self):
        """The object that keeps children from inheriting jemalloc is found in the wheel."""
        said = run(self.flmem, "start", "--role", "client", "--allocator", "jemalloc",
                   "--no-inherit-preload", "--", self.python, "-c", CHILDREN)
        if said.split() != ["True", "False"]:
            raise Failed("jemalloc in the program and its child: {}".format(said.strip()))

    def step_manual(self):
        for name in ("share/man/man1/flmem.1", "share/bash-completion/completions/flmem"):
            if not os.path.exists(os.path.join(self.prefix, name)):
                raise Failed(name + " is missing")


def main():
    wheel, pip, version, directory = sys.argv[1:]
    steps, failed = Steps(version, directory), 0
    steps.install(wheel, pip)
    for name in [name for name in dir(Steps) if name.startswith("step_")]:
        try:
            getattr(steps, name)()
            print("ok " + name[len("step_"):], flush=True)
        except (Failed, OSError, ValueError, KeyError) as problem:
            failed = 1
            print("FAIL {}: {}".format(name[len("step_"):], problem), flush=True)
    sys.exit(failed)


if __name__ == "__main__":
    main()
