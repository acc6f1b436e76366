#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
Holds planned peaks against those of a real job: NVFlare's simulator, FedAvg, PyTorch, fp32, each
client a process of its own. The highest RssAnon of server and clients in some rounds, less that of a
job without weights to speak of, beside the plan less its own runtime. Exit status 1 where one is off
by more than 15 %.

    peaks.py FLMEM [--mib 512] [--tensor-mib 16] [--clients 1 2 4] [--rounds 4]
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.dont_write_bytecode = True
sys.path[:0] = [HERE, os.path.join(HERE, "..", "..")]

import release  # noqa: E402
from harness import proc  # noqa: E402

MIB = 1 << 20
LIMIT = 0.15
EVERY_S = 0.01
WORKER = b"nvflare.private.fed.app.simulator.simulator_worker"


def anonymous(pid):
    try:
        with open(f"/proc/{pid}/status", encoding="utf-8", errors="replace") as file:
            return next((int(line.split()[1]) << 10 for line in file
                         if line.startswith("RssAnon")), 0)
    except OSError:
        return 0


def is_client(pid):
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return WORKER in file.read().split(b"\0")
    except OSError:
        return False


def follow(job):
    """Returns the highest RssAnon of the server, the largest process except clients, and of each
    client."""
    peaks, clients, looked = {}, set(), 0
    family = [job.pid]
    while job.poll() is None:
        if time.monotonic() - looked > 0.5:
            family = [job.pid] + proc.descendants(job.pid)
            clients |= {pid for pid in family if is_client(pid)}
            looked = time.monotonic()
        for pid in family:
            peaks[pid] = max(peaks.get(pid, 0), anonymous(pid))
        time.sleep(EVERY_S)
    return (max((peak for pid, peak in peaks.items() if pid not in clients), default=0),
            max((peak for pid, peak in peaks.items() if pid in clients), default=0))


def of_size(tensors, mib_each):
    """Returns an environment with the size of the model for peaks_model.py."""
    return dict(os.environ, PEAKS_TENSORS=str(tensors), PEAKS_MIB_EACH=str(mib_each),
                PYTHONDONTWRITEBYTECODE="1")


def measure(clients, tensors, mib_each, rounds):
    with release.running("peaks_job.py", clients, rounds,
                         env=dict(of_size(tensors, mib_each), MALLOC_ARENA_MAX="4")) as job:
        peaks = follow(job.process)
        if job.process.returncode or "Finished FedAvg" not in job.output():
            job.fail()
        return peaks


def planned(flmem, clients, tensors, mib_each):
    """Returns the peaks of (server, client), less the runtime."""
    with tempfile.TemporaryDirectory(prefix="flmem-peaks-") as directory:
        path = os.path.join(directory, "model.pt")
        subprocess.run(
            [release.SYSTEM_PYTHON, "-c", "import sys, torch\n"
             "from peaks_model import Weights\n"
             "torch.save(Weights().state_dict(), sys.argv[1])", path], check=True, cwd=HERE,
            env=of_size(tensors, mib_each))
        done = subprocess.run([flmem, "recommend", "--model", path, "--clients", str(clients),
                               "--framework", "nvflare", "--json"], stdout=subprocess.PIPE,
                              check=True)
    plan = json.loads(done.stdout)
    [strategy] = [strategy for strategy in plan["strategies"] if strategy["name"] == plan["chosen"]]
    return [strategy[side] - plan["runtime_bytes"]
            for side in ("server_peak_bytes", "client_peak_bytes")]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("flmem")
    parser.add_argument("--mib", type=int, default=512)
    parser.add_argument("--tensor-mib", type=int, default=16)
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--rounds", type=int, default=4)
    options = parser.parse_args()
    release.install()
    base = measure(1, 1, 1, options.rounds)
    print(f"without weights: server {base[0] // MIB} MiB, client {base[1] // MIB} MiB", flush=True)
    misses, tensors = 0, options.mib // options.tensor_mib
    for clients in options.clients:
        real = measure(clients, tensors, options.tensor_mib, options.rounds)
        plan = planned(os.path.abspath(options.flmem), clients, tensors, options.tensor_mib)
        for side, peak, least, ours in zip(("server", "client"), real, base, plan):
            off = ours / (peak - least) - 1
            misses += abs(off) > LIMIT
            print(f"{options.mib} MiB by {options.tensor_mib}, {clients} clients, {side}: measured "
                  f"{(peak - least) // MIB} MiB, planned {ours // MIB} MiB, {off:+.0%}", flush=True)
    return 1 if misses else 0


if __name__ == "__main__":
    sys.exit(main())
