#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
Reads and trims programs on releases of glibc that were built from their sources: what flmem says
of their heaps against what they know and what a trim releases, shared and static; and whether they
stay whole when they are trimmed often and flmem is killed meanwhile.

usage: glibcs.py BUILD [--trims N] [--kills N] [ROOT...]

A root is what tests/worlds/make-glibc made of a release; by default all that are in FLMEM_GLIBCS, or
else in ~/.cache/flmem/glibcs. N are counts for each target.
"""
import argparse
import glob
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, ".."), os.path.join(HERE, "..", "soak")]

from harness import command, proc, report, skip  # noqa: E402
import entries  # noqa: E402
import heaps  # noqa: E402
import kill  # noqa: E402
import run  # noqa: E402
import trimming  # noqa: E402

VICTIMS = os.path.join(HERE, "..", "victims")
SAFE = ("safe_blocked", "safe_threads", "safe_signals", "safe_fork")
BLOCKED = ("safe_cases.c", "safe_cases_fd.c", "safe_cases_process.c", "safe_cases_send.c",
           "safe_cases_rare.c", "safe_probe.c")
INSIDE = "/tmp/victims"
# States for a stripped static program, which has no name for malloc_trim; flmem can only read it.
NAMELESS_STATES = ("fresh", "fragmented", "fastbins", "mmapped", "arenas")


@dataclass
class Release:
    name: str
    root: str
    programs: str = ""

    @property
    def minor(self):
        return int(self.name.split(".")[1])

    @property
    def wrapper(self):
        return [os.path.join(HERE, "enter"), self.root, self.programs]

    def compile(self, program, *words):
        done = subprocess.run(
            [os.environ.get("CC", "gcc"), "--sysroot", self.root, "-B", f"{self.root}/usr/lib64",
             "-D_GNU_SOURCE", "-O1", "-w", "-o", os.path.join(self.programs, program),
             *(os.path.join(VICTIMS, word) if word.endswith(".c") else word for word in words),
             "-lpthread", "-lrt"],
            stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, check=False)
        if done.returncode != 0:
            raise SystemExit(f"{program} does not build on {self.name}: {done.stderr.decode()}")

    def compile_all(self):
        # The compiler's own library needs a function that came with 2.35, when an exception is
        # thrown.
        static = ["-static"] + ["-Wl,--defsym=_dl_find_object=abort"] * (self.minor < 35)
        self.compile("heaps", "heaps/heaps.c")
        self.compile("heaps-static", "heaps/heaps.c", *static)
        self.compile("heaps-nameless", "heaps/heaps.c", "-s", *static)
        for program in SAFE:
            more = BLOCKED if program == "safe_blocked" else ()
            self.compile(program, "-Wl,-z,now", f"{program}.c", "safe_common.c", *more)


def roots():
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    base = os.environ.get("FLMEM_GLIBCS") or os.path.join(cache, "flmem", "glibcs")
    made = [os.path.dirname(mark) for mark in glob.glob(os.path.join(base, "2.*", ".flmem-glibc"))]
    return sorted(made, key=lambda root: int(root.rsplit(".", 1)[1]))


def identify(flmem, release):
    """Returns false statements of flmem detect about the library."""
    target = heaps.Target([*release.wrapper, f"{INSIDE}/heaps", "fresh"], "heaps")
    try:
        _, stdout, _, _ = flmem.run("detect", "--pid", str(target.pid), "--json")
        process = json.loads(stdout)["processes"][0]
    finally:
        target.close()
    found = [one for one in process["allocators"] if one["serves_malloc"]]
    problems = run.compare("what serves malloc", [one["name"] for one in found], ["glibc"])
    problems += run.compare("its release", [one["version"] for one in found], [release.name])
    threads = process["heap"]["arena_list"][0]["threads"]
    wanted = None if release.minor < 23 else 1
    return problems + run.compare("threads of the first arena", threads, wanted)


def heap_rows(flmem, release):
    rows = []
    for program, states, trimmed in (("heaps", heaps.STATES, True),
                                     ("heaps-static", heaps.STATES, True),
                                     ("heaps-nameless", NAMELESS_STATES, False)):
        for state in states:
            argv = [*release.wrapper, f"{INSIDE}/{program}", state]
            rows.append(heaps.run_one(flmem, f"{release.name} {program}", state, argv, program,
                                      trimmed))
    return rows


def safety_entries(release):
    """Returns (entry, whether flmem is killed, too)."""
    chosen = [(entry, True) for entry in kill.targets(INSIDE, ["glibc"])]
    # Entries with a nearly full stack are left out: how little stack malloc needs differs by
    # release.
    chosen += [(entry, False) for entry in entries.busy(INSIDE, ["glibc"])
               if not entry.setup and "-l" not in entry.argv]
    for entry, killed in chosen:
        own = {name: getattr(entry, name) for name in entry.__dataclass_fields__}
        own["name"] = f"{release.name}, {entry.name}"
        # On busy processors it refills all the time and never waits.
        own["expect"] = entries.EITHER if entry.refill else entry.expect
        yield run.WorldEntry(**own, wrapper=release.wrapper), killed


def run_target(flmem, entry, options, kills):
    """Returns (its tally, how often flmem was killed)."""
    try:
        running = trimming.Running(entry)
    except RuntimeError as error:
        tally = trimming.Tally(entry)
        tally.problems.append(str(error))
        return tally, 0
    killed = 0
    try:
        for _ in range(options.trims):
            running.trim(flmem)
        if kills:
            target = kill.Target(entry, running.victim)
            target.calibrate(flmem)
            rng = random.Random(f"{kill.SEED} {entry.name}")
            for _ in range(kills):
                if not target.problems:
                    kill.kill_after_delay(flmem, target, rng)
            killed = target.counts["killed"]
            running.tally.problems += target.problems
        else:
            running.finish()
    except (proc.Gone, OSError, RuntimeError) as error:
        running.tally.problems.append(f"it is gone: {error!r} {running.victim.problems()}")
    finally:
        running.victim.close()
    return running.tally, killed


def safety_rows(flmem, release, options):
    rows = []
    for entry, is_killed in safety_entries(release):
        if entry.missing:
            print(f"SKIP: {entry.name}: {entry.missing}")
            continue
        tally, killed = run_target(flmem, entry, options, options.kills if is_killed else 0)
        found = tally.verdict()
        for problem in found[:5]:
            print(f"PROBLEM: {entry.name}: {problem}", flush=True)
        rows.append((entry.name, tally.outcomes["trimmed"], tally.outcomes["refused"], killed,
                     len(found)))
    return rows


def run_release(flmem, root, options):
    """Returns (rows of heaps, rows of targets, problems)."""
    with tempfile.TemporaryDirectory() as programs:
        release = Release(os.path.basename(root), os.path.abspath(root), programs)
        release.compile_all()
        problems = identify(flmem, release)
        for problem in problems:
            print(f"PROBLEM: {release.name}: {problem}")
        return heap_rows(flmem, release), safety_rows(flmem, release, options), len(problems)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build")
    parser.add_argument("roots", nargs="*", metavar="ROOT")
    parser.add_argument("--trims", type=int, default=10)
    parser.add_argument("--kills", type=int, default=5)
    options = parser.parse_intermixed_args()
    signal.signal(signal.SIGTERM, lambda *unused: sys.exit(1))  # so that targets are ended
    flmem = command.Flmem(options.build)
    chosen = options.roots or roots()
    if not chosen:
        skip("no glibc has been built: tests/worlds/make-glibc does it from a source tarball")
    looked, trimmed, bad = [], [], 0
    for root in chosen:
        of_heaps, of_targets, wrong = run_release(flmem, root, options)
        looked += of_heaps
        trimmed += of_targets
        bad += wrong
    report.table(("where", "heap", "said KiB", "released KiB", "apart", "problems"), looked)
    report.table(("target", "trimmed", "refused", "killed", "problems"), trimmed)
    bad += sum(row[-1] for row in looked + trimmed)
    worst = max((abs(row[4]) for row in looked if row[4] != "-"), default=0)
    print(f"{len(chosen)} releases: {len(looked)} heaps, at worst {worst} KiB apart; "
          f"{sum(row[1] for row in trimmed)} trims and {sum(row[3] for row in trimmed)} kills of "
          f"flmem in {len(trimmed)} targets; {bad} problems")
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
