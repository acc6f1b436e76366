# SPDX-License-Identifier: Apache-2.0
"""
Many slow clients of flmem exchange at the same time, staged and in lockstep: the server's memory stays below a
limit, no client is left behind, and the result has the bytes that `flmem aggregate` writes.

usage: exchange_slow.py BUILD [--clients N] [--floats N] [--pause SECONDS]
"""
import argparse
import asyncio
import base64
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import urllib.request

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

from harness import command  # noqa: E402
from harness.exchange_server import Served, write_model  # noqa: E402

MODES = ("staged", "lockstep")
FILES = 4  # number of different updates
BODY_BYTES = 64 << 10
FEW = 16  # number of clients for which the limit is lower
LIMITS_MIB = {True: 256, False: 512}
LEAST_SHARE = 0.25  # share that each client must have sent when the first one has sent all
ROUND_S = 1500


class Slow:
    """One client: it sends small bodies with pauses between them, on one connection."""

    def __init__(self, number, address, data, pause):
        self.name, self.data, self.pause = f"client-{number:04}", data, pause
        self.host, self.port = address.rsplit(":", 1)
        self.offset, self.path, self.reader, self.writer = 0, None, None, None

    async def ask(self, method, path, headers, body=b""):
        """Sends a request; returns (status, headers) of the answer, whose body is dropped."""
        lines = [f"{method} {path} HTTP/1.1", f"Host: {self.host}", "Tus-Resumable: 1.0.0",
                 f"Content-Length: {len(body)}", *(f"{name}: {value}" for name, value in headers.items())]
        self.writer.write("\r\n".join(lines).encode() + b"\r\n\r\n" + body)
        await self.writer.drain()
        text = (await self.reader.readuntil(b"\r\n\r\n")).decode()
        found = {name.lower(): value.strip() for name, _, value in
                 (line.partition(":") for line in text.split("\r\n")[1:] if line)}
        if method != "HEAD" and int(found.get("content-length", 0)):
            await self.reader.readexactly(int(found["content-length"]))
        return int(text.split()[1]), found

    async def create(self):
        values = {"round": "0", "client": self.name, "filename": "u.safetensors"}
        metadata = ",".join(f"{key} {base64.b64encode(value.encode()).decode()}" for key, value in values.items())
        status, found = await self.ask("POST", "/v1/uploads", {"Upload-Length": len(self.data),
                                                               "Upload-Metadata": metadata})
        assert status == 201, (self.name, status)
        self.path = "/v1/uploads/" + found["location"].rpartition("/")[2]

    async def send(self):
        """Sends the next body; bytes that the server did not keep are sent again."""
        body = self.data[self.offset:self.offset + BODY_BYTES]
        status, found = await self.ask("PATCH", self.path, {"Content-Type": "application/offset+octet-stream",
                                                            "Upload-Offset": self.offset}, body)
        if status == 503:  # ahead of the others, or the round is not published yet
            status, found = await self.ask("HEAD", self.path, {})
        assert status in (200, 204), (self.name, status)
        self.offset = int(found["upload-offset"])

    async def run(self):
        self.reader, self.writer = await asyncio.open_connection(self.host, int(self.port))
        await self.create()
        while self.offset < len(self.data):
            await self.send()
            await asyncio.sleep(self.pause)
        self.writer.close()


class Behind:  # pylint: disable=too-few-public-methods
    """The share that the slowest client has sent when the first one has sent all but a byte."""

    def __init__(self, clients):
        self.clients, self.share = clients, None

    async def watch(self):
        while not any(one.offset >= len(one.data) - 1 for one in self.clients):
            await asyncio.sleep(0.01)
        self.share = min(one.offset / len(one.data) for one in self.clients)


async def run_clients(clients):
    behind = Behind(clients)
    await asyncio.wait_for(asyncio.gather(behind.watch(), *(one.run() for one in clients)), ROUND_S)
    return behind.share


def await_round(url):
    """Waits until the model of round 1 is published."""
    until = time.monotonic() + ROUND_S
    while time.monotonic() < until:
        with urllib.request.urlopen(url + "/v1/status?after=0&wait=60", timeout=100) as answer:
            if json.load(answer)["published_round"] == 1:
                return
    raise AssertionError("the round is not published")


def peak_mib(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        return int(re.search(r"VmHWM:\s+(\d+)", file.read())[1]) / 1024


def run_mode(flmem, mode, chosen):
    """Runs the test; returns the findings as text."""
    files = [f"update-{number % FILES}.safetensors" for number in range(chosen.clients)]
    data = {}
    for path in set(files):
        with open(path, "rb") as file:
            data[path] = file.read()
    most = str(2 * chosen.clients)
    with Served(flmem, "initial.safetensors", "--clients", str(chosen.clients), "--mode", mode, "--connections", most,
                "--address-connections", most, "--reserve", "1MiB") as server:
        began = time.monotonic()
        clients = [Slow(number, server.listen, data[path], chosen.pause) for number, path in enumerate(files)]
        share = asyncio.run(run_clients(clients))
        await_round(server.url)
        took, peak = time.monotonic() - began, peak_mib(server.process.pid)
    subprocess.run(["cmp", "want", "state/rounds/1/model/initial.safetensors"], check=True)
    subprocess.run(["rm", "-r", "state"], check=True)
    assert peak <= LIMITS_MIB[chosen.clients <= FEW], f"{mode}: peak RSS of the server {peak:.0f} MiB"
    assert share >= LEAST_SHARE, f"{mode}: a client had sent {share:.0%} when another one was complete"
    return f"{mode}: peak RSS {peak:.0f} MiB, slowest at {share:.0%} when the first was complete, {took:.0f} s"


def main():
    parser = argparse.ArgumentParser(description="Many slow clients of flmem exchange.")
    parser.add_argument("build", help="the build directory, for example build/release")
    parser.add_argument("--clients", type=int, default=256)
    parser.add_argument("--floats", type=int, default=250000, help="of each of the model's three tensors")
    parser.add_argument("--pause", type=float, default=0.2, help="after each body of 64 KiB")
    chosen = parser.parse_args()
    flmem = os.path.abspath(command.Flmem(chosen.build).path)
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for number in range(FILES):
            write_model(f"update-{number}.safetensors", number, count=chosen.floats)
        write_model("initial.safetensors", FILES, count=chosen.floats)
        subprocess.run([flmem, "aggregate", "-q", "-o", "want",
                        *(f"update-{number % FILES}.safetensors" for number in range(chosen.clients))], check=True)
        found = [run_mode(flmem, mode, chosen) for mode in MODES]
        os.chdir("/")
    print(f"{chosen.clients} clients; " + "; ".join(found))


if __name__ == "__main__":
    main()
