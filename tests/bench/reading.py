# SPDX-License-Identifier: Apache-2.0
"""
What reading a full heap profile of 64 MiB takes: `flmem profile flamegraph`, and `stats` beside it. The profile is
of a Python program with so many different stacks, live allocations and rounds that the file has no room for more.
"""
import json
import os
import subprocess
import tempfile

import figures
import stage
from figures import MS

RUNS = 10
STACKS = """
import ctypes, random, sys
random.seed(1)
COUNT, DEPTH = 3000, 40
names = {"random": random, "kept": []}
for number in range(COUNT):
    exec(compile(f"def f{number}(way):\\n    if not way:\\n        kept.append(bytearray(700))\\n    else:\\n"
                 f"        all[way[0]](way[1:])\\n", f"/srv/fl/module_{number % 97}.py", "exec"), names)
names["all"] = [names[f"f{number}"] for number in range(COUNT)]
announce = ctypes.CDLL(None).flmem_sampler_round_set
for number in range(12):
    announce(number)
    if number % 2:
        del names["kept"][::2]
    for _ in range(10000):
        way = [random.randrange(COUNT) for _ in range(random.randrange(1, DEPTH))]
        names["all"][way[0]](way[1:])
sys.stdout.flush()
import os
os.kill(os.getpid(), 9)  # what is live stays in the file
"""


def _fill(bench, path):
    """Makes a full profile; returns its contents in numbers."""
    with open(path + ".log", "wb") as log:
        subprocess.run([bench.flmem, "profile", "run", "--interval", "256", "--limit", "64MiB", "-o", path, "--",
                        stage.PYTHON, "-c", STACKS], stdout=log, stderr=log, check=False)
    done = subprocess.run([bench.flmem, "profile", "stats", "--json", path], stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, check=False)
    if done.returncode:
        raise stage.Failed(f"no profile: exit status {done.returncode}")
    profile = json.loads(done.stdout)["profile"]
    stage.progress(f"reading: {profile['samples']} samples, {profile['full_stacks']} stacks did not fit")
    if not profile["full_stacks"]:
        raise stage.Failed("the file is not full")


def read(bench):
    """Times each verb in turn, on the same file."""
    with tempfile.TemporaryDirectory() as folder:
        path, page = os.path.join(folder, "full.prof"), os.path.join(folder, "page.html")
        stage.progress("reading: filling a profile of 64 MiB")
        _fill(bench, path)
        for words, limit_ms, limit_mib in ((["flamegraph", "-o", page], 2000, 256), (["stats"], None, None)):
            timings = [bench.tools.time(bench.flmem, "profile", *words, path) for _ in range(bench.count(RUNS))]
            what = f"flmem profile {words[0]}, a full file of 64 MiB"
            yield figures.of_values(what, [t.wall_us / MS for t in timings], limit=limit_ms)
            yield figures.peak(f"peak memory of it, {words[0]}", timings, limit=limit_mib)
        yield figures.of_values("size of the page", [os.path.getsize(page) / figures.MIB], unit="MiB")
