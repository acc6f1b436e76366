# SPDX-License-Identifier: Apache-2.0
"""
client.py WAY ADDRESS MODEL NUMBER ROUNDS STEPS OUTPUT: one client of an experiment; the last argument is where
its times go, as JSON. "flmem" uses flmem.exchange, "flmem-files" the command, which trains nothing, "flmem-generated"
the same with a generated MODEL and nothing written; "appfl" is APPFL itself.
"""
import json
import os
import subprocess
import sys
import time

import appfl_grpc
import models
import original


class Times(dict):
    """Sums up seconds by activity, and bytes."""

    def of(self, what, call, *args, **more):
        began = time.monotonic()
        result = call(*args, **more)
        self[what] = self.get(what, 0) + time.monotonic() - began
        return result


def by_flmem(times, address, name, client, rounds, steps):
    """Moves tensors straight between the socket and the model."""
    import torch  # pylint: disable=import-outside-toplevel

    from flmem import exchange  # pylint: disable=import-outside-toplevel

    model = models.make(torch, name)
    with exchange.Client(address, client=f"client-{client}") as connection:
        for number in range(rounds):
            times.of("pull", connection.pull, number, into=model.state_dict())
            times.of("train", models.train, torch, name, model, client, number, steps)
            times.of("push", connection.push, model.state_dict(), weight=client)
            times.of("wait", connection.wait, number + 1)


def by_flmem_files(times, address, name, client, rounds, _steps):
    """Moves the model through a file; no process has it in memory."""
    del name
    flmem, path = os.environ["FLMEM"], f"client-{client}.safetensors"

    def run(verb, *words):
        subprocess.run([flmem, "exchange", verb, address, "-q", *words], check=True)

    for number in range(rounds):
        times.of("pull", run, "pull", "-o", path, "--round", str(number))
        times.of("push", run, "push", path, "-c", f"client-{client}", "-w", str(client), "--round", str(number))
        os.unlink(path)
        times.of("wait", run, "wait", "--round", str(number + 1))


def by_flmem_generated(times, address, name, client, _rounds, _steps):
    """Generates the model while it is sent, and only compares it where it is received."""
    flmem = os.environ["FLMEM"]

    def run(verb, *words):
        subprocess.run([flmem, "exchange", verb, address, "-q", *words], check=True)

    times.of("pull", run, "pull", "-o", "verify:", "--round", "0")
    times.of("push", run, "push", f"{name}&client={client}", "-c", f"client-{client}", "-w", str(client))


def by_original(times, address, name, client, rounds, steps):
    """Keeps whole models in memory, as APPFL does."""
    import torch  # pylint: disable=import-outside-toplevel

    model = models.make(torch, name) if name in models.SMALL else None
    connection = original.Client(address, client)
    for number in range(rounds):
        state = times.of("pull", connection.pull, number)
        if model is not None:
            model.load_state_dict(state)
            times.of("train", models.train, torch, name, model, client, number, steps)
            state = model.state_dict()
        times.of("push", connection.push, number, state, client)
        del state
        times.of("wait", connection.wait, number + 1)
    connection.close()


def by_appfl(times, address, name, client, rounds, steps):
    """Uses APPFL itself: an update is answered with the next model, so waiting and that pull are
    part of the push."""
    import torch  # pylint: disable=import-outside-toplevel

    model = models.make(torch, name)
    connection = appfl_grpc.Client(address, client)
    connection.set_weight(client)
    state = times.of("pull", connection.pull)
    for number in range(rounds):
        model.load_state_dict(state)
        del state
        times.of("train", models.train, torch, name, model, client, number, steps)
        state = times.of("push", connection.push, model.state_dict())  # noqa: F841 read by the next round
    connection.close()


WAYS = {"flmem": by_flmem, "flmem-files": by_flmem_files, "flmem-generated": by_flmem_generated,
        "original": by_original, "appfl": by_appfl}


def main():
    way, address, name = sys.argv[1:4]
    client, rounds, steps = map(int, sys.argv[4:7])
    times = Times()
    WAYS[way](times, address, name, client, rounds, steps)
    with open(sys.argv[7], "w", encoding="ascii") as file:
        json.dump(times, file)


if __name__ == "__main__":
    main()
