# SPDX-License-Identifier: Apache-2.0
"""
Server and clients of flmem exchange, killed at random instants and started again, staged and in
lockstep: every round ends, and its model has the bytes that `flmem aggregate` writes.

usage: exchange.py BUILD [--kills N] [--seed N]
"""
import argparse
import os
import random
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

from harness import command  # noqa: E402
from harness.exchange_server import Served, write_model  # noqa: E402

CLIENTS = ("a", "b", "c")
WEIGHTS = ("3", "1", "7.5")
MODES = ("staged", "lockstep")
SHARE_OF_SERVER = 0.4
LONGEST_S = 0.35  # longest pause between two kills; a round lasts longer with kills
ROUND_S = 600


class Clients:
    """The pushes of the clients; a killed client starts again."""

    def __init__(self, flmem, url):
        self.flmem, self.url = flmem, url
        self.running = {name: self.start(name) for name in CLIENTS}

    def start(self, name):
        weight = WEIGHTS[CLIENTS.index(name)]
        with open(f"push-{name}.log", "ab") as log:
            return subprocess.Popen(
                [self.flmem, "exchange", "push", self.url, f"{name}.safetensors", "--client", name, "--weight",
                 weight, "--round", "0", "--chunk", "64KiB", "--retries", "100", "--timeout", "20s", "--quiet"],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def kill(self, name):
        """Kills a client; false if it had ended before."""
        process = self.running[name]
        process.kill()
        if process.wait() != -9:
            self.check(name, process.returncode)
            return False
        self.running[name] = self.start(name)
        return True

    @staticmethod
    def check(name, status):
        if status:
            with open(f"push-{name}.log", encoding="utf-8") as log:
                raise AssertionError(f"push of {name} ended with {status}: {log.read()[-2000:]}")

    def are_done(self):
        for name, process in self.running.items():
            if process.poll() is not None:
                self.check(name, process.returncode)
        return all(process.poll() is not None for process in self.running.values())

    def stop(self):
        for process in self.running.values():
            process.kill()
            process.wait()


def kill_one(server, clients, chance):
    """Kills a running server or client; false if there is nothing to kill any more."""
    if chance.random() < SHARE_OF_SERVER:
        server.kill()
        server.start()
        return True
    names = [name for name, process in clients.running.items() if process.poll() is None]
    return bool(names) and clients.kill(chance.choice(names))


def run_round(flmem, mode, most, chance):
    """Runs one round with at most so many kills; returns their number."""
    kills = 0
    with Served(flmem, "initial.safetensors", "--clients", str(len(CLIENTS)), "--mode", mode,
                "--chunk", "64KiB", "--reserve", "1MiB") as server:
        clients = Clients(flmem, server.url)
        until = time.monotonic() + ROUND_S
        try:
            while not clients.are_done():
                assert time.monotonic() < until, f"{mode}: the round does not end"
                time.sleep(chance.uniform(0, LONGEST_S))
                if kills < most and not clients.are_done():
                    kills += kill_one(server, clients, chance)
            subprocess.run([flmem, "exchange", "wait", server.url, "--round", "1", "--timeout", "100s", "-q"],
                           check=True)
        finally:
            clients.stop()
    return kills


def check_mode(flmem, mode, kills, seed):
    chance, done, rounds = random.Random(seed), 0, 0
    while done < kills:
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            for number, name in enumerate(("initial", *CLIENTS)):
                write_model(name + ".safetensors", 1000 * seed + 10 * rounds + number, count=400000)
            done += run_round(flmem, mode, min(kills - done, 12), chance)
            rounds += 1
            subprocess.run([flmem, "aggregate", "-q", "-o", "want", "--weights", ",".join(WEIGHTS),
                            *[name + ".safetensors" for name in CLIENTS]], check=True)
            subprocess.run(["cmp", "want", "state/rounds/1/model/initial.safetensors"], check=True)
            os.chdir("/")
    return rounds


def main():
    parser = argparse.ArgumentParser(description="Kills of the server and the clients of flmem exchange.")
    parser.add_argument("build", help="the build directory, for example build/release")
    parser.add_argument("--kills", type=int, default=200, help="in all; half of them in each mode")
    parser.add_argument("--seed", type=int, default=int.from_bytes(os.urandom(2), "little"))
    chosen = parser.parse_args()
    flmem = os.path.abspath(command.Flmem(chosen.build).path)
    print(f"seed {chosen.seed}", flush=True)
    rounds = {mode: check_mode(flmem, mode, chosen.kills // len(MODES), chosen.seed) for mode in MODES}
    print(f"{chosen.kills} kills, " + ", ".join(f"{count} rounds {mode}" for mode, count in rounds.items()) +
          ": the bytes are those of flmem aggregate")


if __name__ == "__main__":
    main()
