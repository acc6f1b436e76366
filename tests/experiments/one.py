# SPDX-License-Identifier: Apache-2.0
"""
One variant of an experiment: a server and its clients as separate processes, with their peaks. Called by `run`,
which watches this process and its descendants.
"""
import argparse
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time

import models

HERE = os.path.dirname(os.path.abspath(__file__))
SYSTEM_PYTHON = "/usr/bin/python3"  # the interpreter that Debian's PyTorch belongs to
START_S = 600
GENERATED = "generate:"
GENERATED_START_S = 24 * 3600  # the server generates the whole model once, for its SHA-256
EVERY_S = 0.01


def status(pid):
    """Returns (RssAnon, VmHWM) of a process in bytes; zeros when it has ended."""
    try:
        with open(f"/proc/{pid}/status", encoding="utf-8", errors="replace") as file:
            text = file.read()
    except OSError:
        return 0, 0
    found = [re.search(rf"^{name}:\s+(\d+) kB", text, re.M) for name in ("RssAnon", "VmHWM")]
    return tuple(int(one[1]) * 1024 if one else 0 for one in found)


def children(pid):
    try:
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
            return [int(word) for word in file.read().split()]
    except OSError:
        return []


class Peaks:  # pylint: disable=too-few-public-methods
    """Samples the highest memory of each process with its children."""

    def __init__(self):
        self.pids, self.anonymous, self.resident = {}, {}, {}
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self):
        while not self._ended.wait(EVERY_S):
            for name, pid in list(self.pids.items()):
                found = [status(one) for one in (pid, *children(pid))]
                self.anonymous[name] = max(self.anonymous.get(name, 0), sum(anonymous for anonymous, _ in found))
                self.resident[name] = max(self.resident.get(name, 0), *(peak for _, peak in found))

    def close(self):
        self._ended.set()
        self._thread.join()


def address_of(server, path, limit_s):
    """Returns the server's address, once it has printed it."""
    until = time.monotonic() + limit_s
    while time.monotonic() < until and server.poll() is None:
        with open(path, encoding="utf-8") as file:
            found = re.search(r"listening at (\S+)\n", file.read())
        if found:
            return found[1]
        time.sleep(0.02)
    with open(path, encoding="utf-8") as file:
        raise SystemExit(f"experiment: the server does not start: {file.read()[-500:]}")


def is_sanitised(program):
    """True for a program with AddressSanitizer, which refuses to start beside another preloaded
    library."""
    with open(program, "rb") as file:
        return b"libasan.so" in file.read()


def sampled(options, process, words):
    """Returns the words that run a command under flmem profile, if that is wanted, in the same
    process."""
    if not options.profiles or words[0] == options.flmem and is_sanitised(options.flmem):
        return words
    path = os.path.join(options.profiles, f"{options.model}-{options.way}-{process}.prof")
    return [options.flmem, "profile", "run", "--force", "--interval", "64KiB", "-o", path, "--", *words]


PROGRAMS = {"original": "original.py", "appfl": "appfl_grpc.py"}


def is_generated(options):
    return options.first.startswith(GENERATED)


def verified_by(path):
    """Returns the line in which a server that writes nothing reports its check."""
    with open(path, encoding="utf-8") as file:
        found = re.search(r"^nothing was written: .*$", file.read(), re.M)
    if not found:
        raise SystemExit("experiment: the server has verified nothing")
    return found[0]


def server_words(options, way):
    if way in PROGRAMS:
        what = "final.pt" if options.model in models.SMALL else str(options.layers)
        return [options.python, "-B", os.path.join(HERE, PROGRAMS[way]), options.model, str(options.clients),
                str(options.rounds), what]
    words = [options.flmem, "exchange", "serve", "--model", options.first, "--clients", str(options.clients), "--rounds",
             str(options.rounds), "--state", "state", "--listen", "127.0.0.1:0", "--settle", "1h"]
    if is_generated(options):
        words += ["--mode", "lockstep"]
        for number in range(1, options.clients + 1):
            words += ["--verify", f"client-{number}={options.first}&client={number}"]
    return words


def run_clients(options, way, address, peaks):
    """Runs all clients at a time; returns their times."""
    kind = "flmem-files" if way == "flmem" and options.model in models.LLAMA else way
    if is_generated(options):
        kind = "flmem-generated"
    model = options.first if is_generated(options) else options.model
    processes = []
    for number in range(1, options.clients + 1):
        words = [options.python, "-B", os.path.join(HERE, "client.py"), kind, address, model, str(number),
                 str(options.rounds), str(options.steps), f"times-{number}.json"]
        # pylint: disable-next=consider-using-with
        processes.append(subprocess.Popen(sampled(options, f"client-{number}", words),
                                          env={**os.environ, "FLMEM": options.flmem}))
        peaks.pids[f"client {number}"] = processes[-1].pid
    failed = [one for one in processes if one.wait()]
    if failed:
        raise SystemExit("experiment: a client failed")
    times = []
    for number in range(1, options.clients + 1):
        with open(f"times-{number}.json", encoding="ascii") as file:
            times.append(json.load(file))
    return times


def received_by(server):
    """Returns the bytes that a process has read, from sockets and files."""
    with open(f"/proc/{server.pid}/io", encoding="ascii") as file:
        return int(re.search(r"rchar: (\d+)", file.read())[1])


def finish(options, way, server, address):
    """Keeps the last model of flmem, and ends the server."""
    if way == "flmem":
        if options.model in models.SMALL:
            subprocess.run([options.flmem, "exchange", "pull", address, "-o", "final.safetensors", "-q"], check=True)
        server.send_signal(signal.SIGTERM)
    server.wait()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("way")
    parser.add_argument("model")
    for name in ("clients", "rounds", "steps", "layers"):
        parser.add_argument(f"--{name}", type=int)
    parser.add_argument("--python", default=SYSTEM_PYTHON)
    parser.add_argument("--flmem")
    parser.add_argument("--first")
    parser.add_argument("--profiles", help="sample the heaps of all processes, into this directory")
    options = parser.parse_args()
    words = sampled(options, "server", server_words(options, options.way))
    peaks = Peaks()
    try:
        with open("server.log", "wb") as log, subprocess.Popen(words, stderr=log, stdout=log) as server:
            peaks.pids["server"] = server.pid
            try:
                limit_s = GENERATED_START_S if is_generated(options) else START_S
                address = address_of(server, "server.log", limit_s)
                began = time.monotonic()
                times = run_clients(options, options.way, address, peaks)
                took = time.monotonic() - began
                read = received_by(server) if options.way == "flmem" else None
                finish(options, options.way, server, address)
            finally:
                if server.poll() is None:
                    server.kill()
    finally:
        peaks.close()
    with open("result.json", "w", encoding="ascii") as file:
        json.dump({"seconds": took, "times": times, "anonymous": peaks.anonymous, "resident": peaks.resident,
                   "server_read_bytes": read,
                   "verified": verified_by("server.log") if is_generated(options) else None}, file)


if __name__ == "__main__":
    sys.dont_write_bytecode = True
    main()
