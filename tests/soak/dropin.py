# SPDX-License-Identifier: Apache-2.0
"""
flmem.install() in NVFlare's simulator: server and clients clean up by flmem instead of by NVFlare, with
glibc and with jemalloc preloaded. Once for each release.

usage: dropin.py BUILD [--versions 2.7.3 2.8.1 2.9.0]
"""
import argparse
import os
import re
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(HERE, ".."))

from harness import nvflare, report  # noqa: E402

VERSIONS = ("2.7.3", "2.8.1", "2.9.0")
ROUNDS = 3
LIMIT_S = 300
JEMALLOC = "/usr/lib/x86_64-linux-gnu/libjemalloc.so.2"
THEIRS = "malloc_trim returned", "relying on auto-decay"


def run(programs, env, *words):
    done = subprocess.run([os.path.join(programs, "python3"), *words], env=env, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=LIMIT_S,
                          check=False)
    return done.returncode, done.stdout


def problems_of(programs, build, allocator, preload):
    env = {name: value for name, value in os.environ.items()
           if not name.startswith(("MALLOC_", "NVFL", "PYTHON", "LD_", "FLMEM_LIB"))}
    env.update(PATH=f"{programs}:{env['PATH']}",
               PYTHONPATH=os.path.join(ROOT, "libcore", "bindings", "python"),
               FLMEM_LIBRARY=os.path.join(os.path.abspath(build), "libcore", "libflmem.so.0"))
    with tempfile.TemporaryDirectory(prefix="flmem-dropin-") as directory:
        env["HOME"] = directory
        status, said = run(programs, env, os.path.join(HERE, "nvflare", "dropin_job.py"), directory,
                           str(ROUNDS))
        if status:
            return [f"export: {said[-400:]}"]
        if preload:
            env["LD_PRELOAD"] = preload
        work = os.path.join(directory, "work")
        status, said = run(programs, env, "-m", "nvflare.private.fed.app.simulator.simulator",
                           os.path.join(directory, "dropin"), "-w", work, "-n", "2", "-t", "2",
                           "-l", "DEBUG")
    problems = [] if not status else [f"the simulator ended with {status}: {said[-400:]}"]
    if said.count("installed: True") != 2:
        problems.append(f"installed in {said.count('installed: True')} clients")
    released = len(re.findall(rf"flmem - DEBUG.*{allocator} was asked to release memory", said))
    if released < 3 * ROUNDS:
        problems.append(f"{released} releases by flmem in {ROUNDS} rounds of three processes")
    collected = len(re.findall(r"flmem - INFO.*gc.collect\(\) freed \d+ unreachable", said))
    if collected < 2 * ROUNDS:
        problems.append(f"{collected} lines about what was collected")
    return problems + [f"NVFlare still cleans up: {text}" for text in THEIRS if text in said]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build")
    parser.add_argument("--versions", nargs="+", default=VERSIONS)
    args = parser.parse_args()
    rows, failed = [], False
    for version in args.versions:
        programs = nvflare.environment(version)
        for allocator, preload in (("glibc", ""), ("jemalloc", JEMALLOC)):
            if preload and not os.path.exists(preload):
                print(f"SKIP: needs {preload}")
                continue
            problems = problems_of(programs, args.build, allocator, preload)
            for problem in problems:
                print(f"PROBLEM: {version}, {allocator}: {problem}")
            failed |= bool(problems)
            rows.append((version, allocator, len(problems)))
    report.table(("NVFlare", "allocator", "problems"), rows)
    sys.exit(failed)


main()
