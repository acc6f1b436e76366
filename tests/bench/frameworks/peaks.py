#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
The peak of a server that averages, with the strategy of Flower 1.42.0 and the scheduler and aggregator of
APPFL 1.12.0, by themselves and with those of flmem. Exit status 1 where flmem's is not lower.

    peaks.py BUILD [--mib 256] [--clients 4 16]
"""
import argparse
import os
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(HERE)))
sys.dont_write_bytecode = True
sys.path[:0] = [os.path.join(ROOT, "tests", "python"), os.path.join(ROOT, "tests", "bench", "nvflare")]

import frameworks  # noqa: E402
import peaks as sampling  # noqa: E402

NAMES = {"flower": "Flower", "appfl": "APPFL"}


def measure(name, way, options, clients):
    """Returns the highest RssAnon in bytes."""
    env = dict(os.environ, PYTHONPATH=os.path.join(ROOT, "libcore", "bindings", "python"),
               FLMEM_LIBRARY=os.path.join(os.path.abspath(options.build), "libcore", "libflmem.so.0"))
    python = os.path.join(frameworks.home(name), "bin", "python")
    with tempfile.TemporaryFile() as errors, subprocess.Popen(
            [python, "-B", os.path.join(HERE, f"{name}_server.py"), way, str(options.mib), str(clients)],
            env=env, stdout=subprocess.DEVNULL, stderr=errors) as job:
        peak = 0
        while job.poll() is None:
            peak = max(peak, sampling.anonymous(job.pid))
            time.sleep(sampling.EVERY_S)
        if job.returncode:
            errors.seek(0)
            raise SystemExit(errors.read().decode(errors="replace")[-2000:])
    return peak


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("build")
    parser.add_argument("--mib", type=int, default=256)
    parser.add_argument("--clients", type=int, nargs="+", default=[4, 16])
    options = parser.parse_args()
    worse = 0
    print(f"| {options.mib} MiB model | clients | peak by itself | peak with flmem |\n|---|---:|---:|---:|")
    for name, shown in NAMES.items():
        if not os.path.exists(frameworks.home(name)):
            frameworks.make(name)
        for clients in options.clients:
            own, ours = [measure(name, way, options, clients) for way in ("own", "flmem")]
            worse += ours >= own
            print(f"| {shown} | {clients} | {own >> 20} MiB | {ours >> 20} MiB |", flush=True)
    return 1 if worse else 0


if __name__ == "__main__":
    sys.exit(main())
