# SPDX-License-Identifier: Apache-2.0
"""`flmem exchange serve` as a process of a test, and models for it."""
import json
import os
import random
import re
import struct
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../libcore/bindings/python"))

START_S = 60


def write_model(path, seed, count=250000, names=("a", "b", "c")):
    """Writes safetensors with finite numbers that depend on the seed."""
    chance, header, data = random.Random(seed), {}, b""
    for name in names:
        part = struct.pack(f"<{count}f", *[chance.uniform(-1, 1)] * count)
        header[name] = {"dtype": "F32", "shape": [count], "data_offsets": [len(data), len(data) + len(part)]}
        data += part
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)
    return path


class Served:
    """A server; `kill` and `start` again keep its address and its state."""

    def __init__(self, flmem, model, *options, listen="127.0.0.1:0"):
        self.words = [flmem, "exchange", "serve", "--model", model, "--state", "state", "--settle", "1h", *options]
        self.listen, self.url, self.process, self.log = listen, None, None, "serve.log"
        self.start()

    def start(self):
        with open(self.log, "ab") as log:
            begin = log.tell()
            # pylint: disable-next=consider-using-with
            self.process = subprocess.Popen([*self.words, "--listen", self.listen], stdin=subprocess.DEVNULL,
                                            stdout=subprocess.DEVNULL, stderr=log)
        until = time.monotonic() + START_S
        while time.monotonic() < until:
            with open(self.log, encoding="utf-8") as log:
                log.seek(begin)
                found = re.search(r"listening at (\S+)\n", log.read())
            if found:
                self.url = found[1]
                self.listen = self.url.partition("://")[2]
                return
            if self.process.poll() is not None:
                break
            time.sleep(0.02)
        self.stop()
        with open(self.log, encoding="utf-8") as log:
            raise AssertionError("no server: " + log.read()[-2000:])

    def kill(self):
        self.process.kill()
        self.process.wait()

    def stop(self):
        if self.process.poll() is None:
            self.process.terminate()
        try:
            self.process.wait(START_S)
        except subprocess.TimeoutExpired:
            self.kill()

    def __enter__(self):
        return self

    def __exit__(self, *problem):
        if any(problem):
            with open(self.log, encoding="utf-8") as log:
                print("the server:", log.read()[-4000:])
        self.stop()
