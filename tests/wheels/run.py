# SPDX-License-Identifier: Apache-2.0
"""Installs and uses the wheels of `make wheels`: run.py DIRECTORY [PART...]

    pyenv    scenario.py in an environment of each CPython of pyenv, 3.8 and later, and of those that
             tests/worlds/make-python makes
    worlds   the same in Debian 11, 12, 13 and sid (tests/worlds/make), as in a container
    musl     the commands of the musl wheel under musl's loader
    figures  times and sizes beside build/release
    arm64    the commands of the aarch64 wheels under qemu-user, with Debian's C libraries

A table of what ran is at the end; what is absent is skipped with its reason. Exit status 1 if a step
failed.
"""
import glob
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import zipfile

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, HERE)
sys.path.insert(0, os.path.join(TOP, "scripts", "wheels"))
import check  # noqa: E402
import sources  # noqa: E402
from scenario import Failed, Victim, run  # noqa: E402

PIP, NEWER_PIP = "24.2", "26.1"  # the older one runs on Python 3.8, not on 3.15
PYTHONS = ("3.8", "3.9", "3.10", "3.11", "3.12", "3.13", "3.14", "3.15")
WORLDS = ("bullseye", "bookworm", "trixie", "sid")
ROUNDS = 30
rows = []


class Skipped(Exception):
    """Something that the part needs is absent."""


def note(where, result):
    rows.append((where, result))
    print(f"{where}: {result}", flush=True)


def wheel_of(directory, tag):
    found = glob.glob(os.path.join(directory, "dist", f"flmem-*-{tag}.whl"))
    if not found:
        raise Skipped(f"there is no wheel for {tag}: make wheels")
    return found[0]


def fetch_pip(directory, version=PIP):
    """pip itself as a wheel: the roots have none."""
    place = os.path.join(directory, "pip")
    found = glob.glob(os.path.join(place, f"pip-{version}-*.whl"))
    if not found:
        subprocess.run([os.path.join(directory, "venv", "bin", "python"), "-m", "pip", "download",
                        "--quiet", "--no-deps", "-d", place, f"pip=={version}"], check=True)
        found = glob.glob(os.path.join(place, f"pip-{version}-*.whl"))
    return found[0]


def summary(done):
    """Of what scenario.py printed."""
    lines = done.stdout.splitlines()
    passed = [line[len("ok "):] for line in lines if line.startswith("ok ")]
    failed = [line for line in lines if line.startswith("FAIL ")]
    if done.returncode or failed or not passed:
        return "FAILED: " + ("; ".join(failed) or done.stderr.strip()[-300:] or "no step ran")
    return "passed: " + ", ".join(passed)


def run_scenario(words, **more):
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False,
                          text=True, timeout=600, **more)
    return summary(done)


def find_python(version):
    """Returns pyenv's or, for newer versions, the one that is made from a newer Debian; None without."""
    root = os.environ.get("PYENV_ROOT", os.path.expanduser("~/.pyenv"))
    found = sorted(glob.glob(os.path.join(root, "versions", version + ".*", "bin", "python3")))
    if found:
        return found[-1]
    made = subprocess.run([os.path.join(TOP, "tests", "worlds", "make-python"), version], check=False,
                          stdout=subprocess.PIPE, text=True)
    return made.stdout.split()[-1] if made.returncode == 0 else None


def part_pyenv(directory, version):
    wheel = wheel_of(directory, "manylinux_2_28_x86_64")
    for series in PYTHONS:
        python = find_python(series)
        if not python:
            note(f"CPython {series}", "SKIP: neither in pyenv nor made by tests/worlds/make-python")
            continue
        pip = fetch_pip(directory, NEWER_PIP if series == PYTHONS[-1] else PIP)
        with tempfile.TemporaryDirectory() as place:
            note(f"CPython {series}", run_scenario(
                [python, "-B", os.path.join(HERE, "scenario.py"), wheel, pip, version, place]))


def part_worlds(directory, version):
    wheel, pip = wheel_of(directory, "manylinux_2_28_x86_64"), fetch_pip(directory)
    with tempfile.TemporaryDirectory() as shared:
        os.chmod(shared, 0o755)
        for path in (wheel, pip, os.path.join(HERE, "scenario.py")):
            shutil.copy(path, shared)
        names = [f"/tmp/victims/{os.path.basename(path)}" for path in (wheel, pip)]
        for suite in WORLDS:
            made = subprocess.run([os.path.join(TOP, "tests", "worlds", "make"), suite], check=False,
                                  stdout=subprocess.PIPE, text=True)
            if made.returncode:
                note(f"Debian {suite}", made.stdout.strip() or "FAILED: not unpacked")
                continue
            note(f"Debian {suite}", run_scenario(
                [os.path.join(TOP, "tests", "worlds", "enter"), made.stdout.split()[-1], shared,
                 "/usr/bin/python3", "-B", "/tmp/victims/scenario.py", *names, version, "/tmp"],
                env={"PATH": "/usr/bin:/bin:/usr/sbin:/sbin", "HOME": "/tmp", "LC_ALL": "C.UTF-8"}))


def unpack(wheel, place):
    """As pip does, for systems whose Python is not here: places as in an environment."""
    with zipfile.ZipFile(wheel) as archive:
        for info in archive.infolist():
            path = os.path.join(place, check.installed_place(info.filename))
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "wb") as file:
                file.write(archive.read(info))
            os.chmod(path, info.external_attr >> 16 & 0o777)
    return os.path.join(place, "bin", "flmem")


class Commands:
    """What the command does without a Python of its own system; `words` runs it."""

    def __init__(self, words, version, libc, trims):
        self.words, self.version, self.libc, self.trims = words, version, libc, trims

    def step_version(self):
        built = json.loads(run(*self.words, "--version", "--json"))
        if (built["version"], built["libc"]["name"]) != (self.version, self.libc):
            raise Failed(f"--version --json: {built}")

    def step_detect(self):
        # Without a target it starts children in a way that qemu-user 7.2 refuses.
        if self.words[0] != "qemu-aarch64" and "system" not in run(*self.words, "detect"):
            raise Failed("detect prints another report")
        if not json.loads(run(*self.words, "detect", "--all", "--json"))["processes"]:
            raise Failed("detect --all finds no process")

    def step_trim(self):
        if not self.trims:
            return
        victim = Victim()
        try:
            run(*self.words, "trim", "--pid", str(victim.pid), "--timeout", "20s")
            victim.ask()
        finally:
            victim.end()

    def step_env(self):
        if "MALLOC_ARENA_MAX" not in run(*self.words, "env", "--role", "client"):
            raise Failed("flmem env prints no settings")

    def step_recommend(self):
        run(*self.words, "recommend", os.path.join(TOP, "tests/fixtures/jobs/fedavg-default"),
            "--fail-on", "warning", status=1)

    def step_watch(self):
        victim = Victim()
        try:
            run(*self.words, "watch", "--pid", str(victim.pid), "--duration", "1s", "--interval",
                "100ms", "--json")
        finally:
            victim.end()

    def step_aggregate(self):
        with tempfile.TemporaryDirectory() as place:
            models = [os.path.join(place, name) for name in ("a.safetensors", "b.safetensors")]
            for model in models:
                run(*self.words, "aggregate", "generate", "--shape", "resnet18", "--output", model)
            run(*self.words, "aggregate", *models, "--output", os.path.join(place, "mean.safetensors"))
            run(*self.words, "aggregate", "inspect", os.path.join(place, "mean.safetensors"))


def run_commands(where, commands):
    passed = []
    for name in [name for name in dir(Commands) if name.startswith("step_")]:
        try:
            getattr(commands, name)()
            passed.append(name[len("step_"):])
        except (Failed, OSError, ValueError, KeyError) as problem:
            note(where, f"FAILED: {name[len('step_'):]}: {problem}")
            return
    note(where, "passed: " + ", ".join(passed))


def part_musl(directory, version):
    wheel = wheel_of(directory, "musllinux_1_2_x86_64")
    if not os.path.exists("/lib/ld-musl-x86_64.so.1"):
        raise Skipped("musl is not installed (Debian: musl)")
    with tempfile.TemporaryDirectory() as place:
        run_commands("musl x86-64", Commands([unpack(wheel, place)], version, "musl", True))


def fetch_arm64(directory):
    """Debian's C libraries for arm64, unpacked."""
    root = os.path.join(directory, "arm64")
    if not os.path.exists(os.path.join(root, ".done")):
        os.makedirs(root, exist_ok=True)
        sources.download_packages(root, "arm64", ("libc6", "musl"))
        for package in glob.glob(os.path.join(root, "*.deb")):
            subprocess.run(["dpkg-deb", "-x", package, root], check=True)
        with open(os.path.join(root, ".done"), "w", encoding="ascii"):
            pass
    return root


def part_arm64(directory, version):
    wheels = [(libc, wheel_of(directory, tag)) for libc, tag in (
        ("glibc", "manylinux_2_28_aarch64"), ("musl", "musllinux_1_2_aarch64"))]
    if not shutil.which("qemu-aarch64"):
        raise Skipped("qemu-aarch64 is not installed (Debian: qemu-user)")
    root = fetch_arm64(directory)
    loaders = {"glibc": os.path.join(root, "lib", "aarch64-linux-gnu", "ld-linux-aarch64.so.1"),
               "musl": os.path.join(root, "lib", "ld-musl-aarch64.so.1")}
    for libc, wheel in wheels:
        with tempfile.TemporaryDirectory() as place:
            # Not with -L: it would also lead the emulated program's own /proc there.
            words = ["qemu-aarch64", loaders[libc], "--library-path",
                     os.path.join(root, "lib", "aarch64-linux-gnu"), unpack(wheel, place)]
            run_commands(f"{libc} aarch64 (qemu-user)", Commands(words, version, libc, False))


def spent(words):
    """Milliseconds that a program took: until its end, and of processors."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    run(*words)
    wall, after = time.monotonic() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    processor = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return wall * 1000, processor * 1000


def compare(one, other, measure=spent, pairs=ROUNDS):
    """Both programs in turn: the medians of each, in the order of spent().

    Each goes first in every second pair, so that what the first one waits for is charged to both.
    """
    taken = {0: [], 1: []}
    for number in range(pairs):
        for which in ((0, 1), (1, 0))[number % 2]:
            taken[which].append(measure((one, other)[which]))
    return [[statistics.median(column) for column in zip(*taken[which])] for which in (0, 1)]


def prefer():
    """What is measured runs before other programs; False where that is not permitted."""
    try:
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(2))
    except PermissionError:
        return False
    return True


def compare_times(mine, other, place):
    """A line for each command: both builds in turn, on the same files and the same process."""
    victim = Victim()
    models = [os.path.join(place, name) for name in ("a.safetensors", "b.safetensors")]
    preferred = prefer()
    yield "at real-time priority" if preferred else "at normal priority: compare processor times only"
    try:
        for model in models:
            run(other, "aggregate", "generate", "--shape", "resnet18", "--output", model)
        for words in (["env", "--role", "client"],
                      ["recommend", os.path.join(TOP, "tests", "fixtures", "jobs")],
                      ["detect", "--pid", str(victim.pid), "--no-heap"],
                      ["detect", "--pid", str(victim.pid)],
                      ["detect", "--all"],
                      ["aggregate", *models, "--output", os.path.join(place, "mean.safetensors")]):
            wheel, here = compare([mine, *words], [other, *words])
            named = " ".join([words[0]] + [word for word in words if word in ("--all", "--no-heap")])
            yield (f"flmem {named}: {wheel[0]:.2f} ms, here {here[0]:.2f} ms; of processors "
                   f"{wheel[1]:.2f} and {here[1]:.2f} ms, ratio {wheel[1] / here[1]:.2f}")
    finally:
        if preferred:
            os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
        victim.end()


def part_figures(directory, version):
    """Times and sizes beside the build of this distribution, if there is one."""
    del version
    built = os.path.join(TOP, "build", "release")
    other = os.path.join(built, "cli", "flmem")
    with tempfile.TemporaryDirectory() as place:
        flmem = unpack(wheel_of(directory, "manylinux_2_28_x86_64"), place)
        if not os.path.exists(other):
            taken = statistics.median(spent([flmem, "env", "--role", "client"])[0] for _ in range(ROUNDS))
            note("figures", f"flmem env takes {taken:.1f} ms; SKIP: no build/release to compare with "
                 "(make)")
            return
        for line in compare_times(flmem, other, place):
            note("figures", f"{line}, load average {os.getloadavg()[0]:.0f}")
        for mine, name in ((flmem, "cli/flmem"), (os.path.join(place, "lib", "libflmem.so.0"),
                                                  "libcore/libflmem.so.0")):
            bare = os.path.join(place, "bare")
            subprocess.run(["strip", "-o", bare, os.path.join(built, name)], check=True)
            note("figures", f"{os.path.basename(mine)} {os.path.getsize(mine)} bytes, here "
                 f"{os.path.getsize(bare)}")


PARTS = {"pyenv": part_pyenv, "worlds": part_worlds, "musl": part_musl, "arm64": part_arm64,
         "figures": part_figures}


def main():
    directory = os.path.abspath(sys.argv[1])
    for part in sys.argv[2:] or PARTS:
        try:
            PARTS[part](directory, check.project_version(TOP))
        except Skipped as reason:
            note(part, f"SKIP: {reason}")
        except subprocess.SubprocessError as problem:
            note(part, f"FAILED: {problem}")
    width = max(len(where) for where, _ in rows)
    print("\nWheels, what was run:")
    for where, result in rows:
        print(f"  {where:{width}}  {result}")
    sys.exit(1 if any(result.startswith("FAILED") for _, result in rows) else 0)


if __name__ == "__main__":
    main()
