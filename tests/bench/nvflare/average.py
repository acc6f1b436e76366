#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
The peak of NVFlare's server while it averages, in three ways: in memory and with
enable_tensor_disk_offload, both by NVFlare itself, and by flmem.nvflare.Aggregator from the offloaded
files. FedAvg, PyTorch, fp32, in the simulator of NVFlare 2.9.0, one client after the other. The last model
is compared with the exact average of what the clients sent. Exit status 1 where flmem's differs from
that, or its server peaks higher than NVFlare's own.

    average.py BUILD [--mib 1024] [--tensor-mib 16] [--clients 4] [--rounds 2] [--ways memory offload flmem]
                     [--mmap-threshold BYTES]
"""
import argparse
import contextlib
import json
import os
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(HERE)))
sys.dont_write_bytecode = True
sys.path[:0] = [HERE, os.path.join(HERE, "..", "..")]
os.environ.setdefault("FLMEM_BENCH_NVFLARE", "2.9.0")

import peaks  # noqa: E402
import release  # noqa: E402
from harness import proc  # noqa: E402

MIB = 1 << 20
WAYS = {"memory": "NVFlare, in memory", "offload": "NVFlare, disk offload",
        "flmem": "flmem.nvflare.Aggregator, disk offload"}
FIELDS = ("RssAnon", "VmHWM")
# Share of elements that may differ: a sum of four in 64 bits has errors that move the rounding to
# 32 bits in one of 2^27 elements or so.
DIFFERENT = 1e-7


def memory(pid):
    """Returns RssAnon and VmHWM in bytes."""
    try:
        with open(f"/proc/{pid}/status", encoding="utf-8", errors="replace") as file:
            lines = dict(line.split(":", 1) for line in file)
        return [int(lines[field].split()[0]) << 10 for field in FIELDS]
    except (OSError, KeyError):
        return [0, 0]


def parent(pid):
    with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
        return int(file.read().rpartition(")")[2].split()[1])


def server_of(job):
    """Returns the parent of the clients; None before there is one."""
    for pid in proc.descendants(job.pid):
        if peaks.is_client(pid):
            with contextlib.suppress(OSError):
                return parent(pid)
    return None


def follow(job):
    """Returns the highest of both figures of the server."""
    server, found = None, [0, 0]
    while job.poll() is None:
        server = server or server_of(job)
        found = list(map(max, found, memory(server))) if server else found
        time.sleep(peaks.EVERY_S if server else 0.2)
    return found


def environment(build, options, tensor_mib):
    env = peaks.of_size(max(options.mib // tensor_mib, 1), tensor_mib)
    env.update(MALLOC_ARENA_MAX="4", PYTHONPATH=os.path.join(ROOT, "libcore", "bindings", "python"))
    env.setdefault("FLMEM_LIBRARY", os.path.join(os.path.abspath(build), "libcore", "libflmem.so.0"))
    # otherwise glibc raises it to 32 MiB, and keeps the memory of messages
    if options.mmap_threshold:
        env["MALLOC_MMAP_THRESHOLD_"] = str(options.mmap_threshold)
    return env


def check(job, options, env):
    """Compares the last model with the exact average."""
    model = os.path.join(job.directory, "average", "server", "simulate_job", "app_server",
                         "FL_global_model.pt")
    done = subprocess.run([release.PYTHON, os.path.join(HERE, "average_check.py"), model,
                           str(options.clients), str(options.rounds - 1)],
                          stdout=subprocess.PIPE, check=True, env=env)
    return json.loads(done.stdout)


def measure(way, options):
    env = environment(options.build, options, options.tensor_mib)
    started = time.monotonic()
    with release.running("average_job.py", options.clients, options.rounds, way, env=env) as job:
        found = follow(job.process)
        took_s = time.monotonic() - started
        if job.process.returncode or "Finished FedAvg" not in job.output():
            job.fail()
        return {"way": way, "anon": found[0] / MIB, "peak": found[1] / MIB, "took_s": took_s,
                **check(job, options, env)}


def table(rows):
    yield "| Average by | peak anonymous memory | peak RSS | elements unlike the exact average | largest difference |"
    yield "|---|---:|---:|---:|---:|"
    for row in rows:
        yield (f"| {WAYS[row['way']]} | {row['anon']:.0f} MiB | {row['peak']:.0f} MiB "
               f"| {row['different'] / row['elements']:.1%} | {row['largest']:.2g} |")


def problems(rows):
    by_way = {row["way"]: row for row in rows}
    ours = by_way.get("flmem")
    if ours and ours["different"] > ours["elements"] * DIFFERENT:
        yield f"{ours['different']} of {ours['elements']} elements differ from the exact average"
    for way, row in by_way.items():
        # The memory of small models cannot be separated from that of the imports.
        if ours and way != "flmem" and row["elements"] >= 64 * MIB and ours["anon"] > row["anon"]:
            yield f"the server peaks at {ours['anon']:.0f} MiB, but at {row['anon']:.0f} MiB with {WAYS[way]}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("build")
    parser.add_argument("--mib", type=int, default=1024)
    parser.add_argument("--tensor-mib", type=int, default=16)
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--mmap-threshold", type=int, metavar="BYTES", help="MALLOC_MMAP_THRESHOLD_ of all")
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=list(WAYS))
    parser.add_argument("--existing", action="store_true", help="skip where NVFlare is not installed yet")
    options = parser.parse_args()
    if options.existing and not os.path.exists(release.PYTHON):
        print(f"SKIP: no NVFlare {release.VERSION} in {release.HOME}")
        return 77
    release.install()
    rows = []
    for way in options.ways:
        print(f"running: {WAYS[way]}", file=sys.stderr, flush=True)
        rows.append(measure(way, options))
        print(json.dumps(rows[-1]), file=sys.stderr, flush=True)
    print("\n".join(table(rows)))
    found = list(problems(rows))
    print("".join(f"PROBLEM: {one}\n" for one in found), end="")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
