#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
Holds planned peaks against measured ones: the aggregation of whole models in PyTorch, as APPFL's and
Flower's servers make it, in a process of its own. Their arithmetic is made again here, without their
networking: it is the step 'aggregate' of the plan that is measured. Exit status 1 where one is off
by more than 15 %, 77 without PyTorch.

    planning.py FLMEM [--mib 512] [--clients 2 4 8]
"""
import argparse
import json
import subprocess
import sys

MIB = 1 << 20
LIMIT = 0.15
TENSORS = 32


def state(mib):
    import torch

    return {f"layer{i}": torch.ones(mib * MIB // 4 // TENSORS) for i in range(TENSORS)}


def appfl(mib, clients):
    """Aggregates weighted differences per tensor; the model and the global state are in memory, and
    a copy is returned."""
    import torch

    model, known = state(mib), state(mib)
    results = [state(mib) for _ in range(clients)]
    step = {name: torch.zeros_like(tensor) for name, tensor in known.items()}
    for result in results:
        for name, tensor in result.items():
            step[name] += (tensor - known[name]) / clients
    for name, tensor in step.items():
        known[name] += tensor
    return model, step, results, {name: tensor.clone() for name, tensor in known.items()}


def flower(mib, clients):
    """Aggregates results that are all in memory as bytes; one at a time is decoded and added to the
    sum."""
    import numpy

    current = state(mib)
    results = [[tensor.numpy().tobytes() for tensor in state(mib).values()]
               for _ in range(clients)]
    total = None
    for result in results:
        decoded = [numpy.frombuffer(piece, numpy.float32) * (1 / clients) for piece in result]
        if total is None:
            total = decoded
            continue
        for one, more in zip(total, decoded):
            one += more
        del decoded
    return current, results, [one.tobytes() for one in total]


def baseline(_mib, _clients):
    import numpy  # noqa: F401

    return state(1)


KINDS = {"appfl": appfl, "flower": flower, "baseline": baseline}


def child(kind, mib, clients):
    held = KINDS[kind](mib, clients)
    with open("/proc/self/status") as status:
        peak = next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))
    print(peak * 1024)
    return held


def measure(kind, mib, clients):
    run = subprocess.run([sys.executable, __file__, "--child", kind, str(mib), str(clients)],
                         stdout=subprocess.PIPE, check=True)
    return int(run.stdout)


def planned(flmem, kind, mib, clients):
    """Returns the plan of the step, less what the plan counts for the runtime."""
    run = subprocess.run([flmem, "recommend", "--params", str(mib * MIB // 4), "--clients",
                          str(clients), "--framework", kind, "--json"],
                         stdout=subprocess.PIPE, check=True)
    plan = json.loads(run.stdout)
    [whole] = [way for way in plan["strategies"] if way["name"] == "whole"]
    [step] = [step for step in whole["steps"] if step["name"] == "aggregate"]
    return step["memory_bytes"] - plan["runtime_bytes"]


def compare(flmem, mib, counts):
    """Prints a row for each; returns how many were off by more than the limit."""
    base, misses = measure("baseline", 1, 1), 0
    for kind in ("appfl", "flower"):
        for clients in counts:
            real = measure(kind, mib, clients) - base
            plan = planned(flmem, kind, mib, clients)
            off = plan / real - 1
            misses += abs(off) > LIMIT
            print(f"{kind:7} {mib} MiB, {clients} clients: measured {real // MIB} MiB, "
                  f"planned {plan // MIB} MiB, {off:+.1%}", flush=True)
    return misses


def main():
    if sys.argv[1:2] == ["--child"]:
        child(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
        return 0
    try:
        import torch  # noqa: F401
    except ImportError:
        print("SKIP: needs PyTorch")
        return 77
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("flmem")
    parser.add_argument("--mib", type=int, default=512)
    parser.add_argument("--clients", type=int, nargs="+", default=[2, 4, 8])
    options = parser.parse_args()
    return 1 if compare(options.flmem, options.mib, options.clients) else 0


if __name__ == "__main__":
    sys.exit(main())
