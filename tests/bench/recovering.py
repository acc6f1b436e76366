# SPDX-License-Identifier: Apache-2.0
"""
Pushes of 512 MiB that are cut when the server has half of them: the client is killed and pushes again,
or the server is killed and started again while the same push goes on. What is sent twice, and how long
the rest takes beside a whole push.
"""
import glob
import json
import os
import subprocess
import tempfile
import time

import averaging
import exchanging
import figures
import stage
from harness import ports

WAIT_S = 60
# Chunks in flight at a cut: one that is sent, and one that the server has not flushed.
CHUNKS = 2


class _Exchange:
    """A server in a folder, which can be killed and started again at its address."""

    def __init__(self, bench, folder, rounds):
        self.flmem, self.folder = bench.flmem, folder
        self.model = os.path.join(folder, "model.safetensors")
        averaging.write_model(self.model, 1, tensors=exchanging.TENSORS)
        self.size = os.path.getsize(self.model)
        self.address = f"127.0.0.1:{ports.free()[0]}"
        self.words = [bench.flmem, "exchange", "serve", "--model", self.model, "--clients", "1", "--rounds", str(rounds),
                      "--state", os.path.join(folder, "state"), "--listen", self.address]
        self.server = None

    def start(self):
        self.server = exchanging.Process(self.words, os.path.join(self.folder, "serve.log"))
        self.server.url()

    def kill(self):
        self.server.process.kill()
        self.server.process.wait()

    def push(self, number):
        """Starts a push of this round."""
        return subprocess.Popen([self.flmem, "exchange", "push", f"http://{self.address}", self.model, "--client", "a",
                                 "--round", str(number), "--json"], stdout=subprocess.PIPE)

    def received(self):
        """Returns the bytes that the server has of incomplete updates."""
        paths = glob.glob(os.path.join(self.folder, "state", "uploads", "*.data"))
        return max((os.path.getsize(path) for path in paths), default=0)

    def await_half(self, push):
        until = time.monotonic() + WAIT_S
        while time.monotonic() < until and push.poll() is None:
            if self.received() >= self.size // 2:
                return
            time.sleep(0.001)
        raise stage.Failed("no push was half done")


def _finish(push):
    """Returns the result of a push, and when it ended."""
    output = push.communicate(timeout=WAIT_S)[0]
    if push.returncode:
        raise stage.Failed(f"a push ended with {push.returncode}")
    return json.loads(output), time.monotonic()


def _whole(exchange, number, found):
    first = time.monotonic()
    found["whole"].append(_finish(exchange.push(number))[1] - first)


def _cut_client(exchange, number, found):
    push = exchange.push(number)
    exchange.await_half(push)
    push.kill()
    push.communicate()
    first = time.monotonic()
    result, last = _finish(exchange.push(number))
    found["client"].append(last - first)
    found["kept"].append(100 * result["resumed_bytes"] / exchange.size)
    if result["resumed_bytes"] + result["sent_bytes"] != exchange.size:
        raise stage.Failed("the second push sent something twice")


def _cut_server(exchange, number, found):
    push = exchange.push(number)
    exchange.await_half(push)
    exchange.kill()
    first = time.monotonic()
    exchange.start()
    result, last = _finish(push)
    found["server"].append(last - first)
    found["again"].append((result["sent_bytes"] - exchange.size) / figures.MIB)
    found["chunk"] = result["chunk_bytes"] / figures.MIB


def _measure(bench, folder, rounds):
    ways = (_whole, _cut_client, _cut_server)
    found = {"whole": [], "client": [], "server": [], "kept": [], "again": []}
    exchange = _Exchange(bench, folder, rounds * len(ways))
    exchange.start()
    try:
        for number in range(rounds * len(ways)):
            stage.progress(f"recovering: push {number + 1} of {rounds * len(ways)}")
            ways[number % len(ways)](exchange, number, found)
            subprocess.run([bench.flmem, "exchange", "wait", f"http://{exchange.address}", "--round", str(number + 1)],
                           stdout=subprocess.DEVNULL, check=True)
    finally:
        exchange.kill()
    return found


def recover(bench):
    """Measures what a cut in the middle of a push costs."""
    with tempfile.TemporaryDirectory(dir=stage.memory_folder()) as folder:
        found = _measure(bench, folder, bench.count(5))
    yield figures.of_values("a whole push", found["whole"], unit="s")
    yield figures.of_values("the second push, after the client was killed in the middle", found["client"], unit="s")
    yield figures.of_values("what the server kept of the first one", found["kept"], unit="%", limit=50, at_least=True)
    yield figures.of_values("a server killed in the middle of a push, from then to its end", found["server"], unit="s")
    yield figures.of_values("sent again in that push", found["again"], unit="MiB", limit=CHUNKS * found["chunk"],
                            judged="p99")
