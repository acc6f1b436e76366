# SPDX-License-Identifier: Apache-2.0
"""
What `trim --cuda` takes and releases on a real GPU. Without a GPU, or without a PyTorch that uses it, nothing is measured.
"""
import glob
import json
import os
import subprocess

import figures
import stage

# A program that keeps 1 GiB in PyTorch's cache for each line that it reads.
HOLDER = """
import sys, torch
def fill():
    torch.empty(1 << 30, dtype=torch.uint8, device='cuda')
    torch.cuda.synchronize()
    print('ready', flush=True)
kept = torch.ones(1 << 20, device='cuda')
fill()
for line in sys.stdin:
    fill()
"""


def why_not(python):
    """Returns why nothing can be measured here, or an empty text."""
    if not glob.glob("/dev/nvidia[0-9]*"):
        return "this machine has no CUDA device"
    if subprocess.run([python, "-c", "import torch, sys; sys.exit(not torch.cuda.is_available())"],
                      check=False, stderr=subprocess.DEVNULL).returncode:
        return "no PyTorch that can use the CUDA device (FLMEM_GPU_PYTHON names its Python)"
    return ""


def trims(bench, holder):
    """Returns (wall times in ms, bytes of device memory that each trim released)."""
    walls, released = [], []
    for _ in range(bench.count(20)):
        timing = bench.tools.time(bench.flmem, "trim", "--cuda", "--pid", str(holder.pid), "--json",
                                  "--no-predict", keep=True)
        walls.append(timing.wall_us / 1000)
        steps = json.loads(timing.output)["results"][0]["steps"]
        step = next(s for s in steps if s["name"] == "torch.cuda.empty_cache")
        released.append(int(step["detail"].split()[0]) / figures.MIB)
        holder.stdin.write(b"\n")
        holder.stdin.flush()
        holder.stdout.readline()
    return walls, released


def cuda(bench):
    """Returns the rows; none where there is no GPU."""
    python = os.environ.get("FLMEM_GPU_PYTHON", stage.PYTHON)
    absent = why_not(python)
    if absent:
        stage.progress(f"cuda: not measured: {absent}")
        return
    with subprocess.Popen([python, "-uc", HOLDER], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE) as holder:
        try:
            if not holder.stdout.readline().startswith(b"ready"):
                raise stage.Failed("the program that uses the GPU ended")
            walls, released = trims(bench, holder)
        finally:
            holder.kill()
    yield figures.of_values("flmem trim --cuda, 1 GiB to release", walls)
    yield figures.of_values("device memory released", released, unit="MiB", limit=1000,
                            at_least=True)
