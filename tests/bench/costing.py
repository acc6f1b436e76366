# SPDX-License-Identifier: Apache-2.0
"""
Processor time of `flmem exchange push` and `pull` on both sides, plain and with TLS and certificates on both sides, for
each GB. It depends less on other work than elapsed time does, and more on where the files are: in `FLMEM_BENCH_DIR`,
else in memory, in pages of 4 KiB unless that file system has huge ones.
"""
import os
import subprocess
import tempfile
import time

import averaging
import exchanging
import figures
import probing
import stage

SIDES = ("client", "server")


def _clock(pid):
    """Returns the processor time of all threads of a process in seconds
    (clock_getcpuclockid(3))."""
    return time.clock_gettime(~pid << 3 | 2)


def _run(words, server):
    """Runs a command; returns the processor time in seconds of the client and of the server."""
    before = _clock(server)
    with subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL) as client:
        _, client.returncode, usage = os.wait4(client.pid, 0)
    if client.returncode:
        raise stage.Failed(f"{words[2]} fails")
    return usage.ru_utime + usage.ru_stime, _clock(server) - before


def _measure(bench, way, model, folder, rounds):
    state, output = (os.path.join(folder, f"{name}-{way.name.replace(' ', '-')}") for name in ("state", "out"))
    found = {(what, side): [] for what in ("push", "pull") for side in SIDES}
    words = [bench.flmem, "exchange", "serve", "--model", model, "--clients", "1", "--rounds", str(rounds), "--state",
             state, "--listen", "127.0.0.1:0", "--settle", "60s", *way.serve]
    with exchanging.Process(words, os.path.join(folder, "serve.log")) as server:
        url, pid = server.url(), server.process.pid
        for number in range(rounds):
            last = ["--round", str(number), *way.client]
            for what, more in (("push", [model, "-c", "a"]), ("pull", ["-o", output])):
                stage.progress(f"costing: {way.name}, round {number + 1}, {what}")
                for side, seconds in zip(SIDES, _run([bench.flmem, "exchange", what, url, *more, *last], pid)):
                    found[what, side].append(seconds)
                if what == "push":  # the server combines then
                    bench.tools.time(bench.flmem, "exchange", "wait", url, "--round", str(number + 1), *way.client)
            os.unlink(output)
    return found


def cost(bench):
    """Measures seconds of processor time per GB."""
    with tempfile.TemporaryDirectory(dir=os.environ.get("FLMEM_BENCH_DIR") or stage.memory_folder()) as folder:
        model = os.path.join(folder, "model.safetensors")
        averaging.write_model(model, 1, tensors=exchanging.TENSORS)
        probing.make_certificates(folder)
        size = os.path.getsize(model) / probing.GB
        for name in probing.AIMS:
            found = _measure(bench, probing.Way(name, folder), model, folder, bench.count(7))
            for (what, side), seconds in found.items():
                yield figures.of_values(f"{what}, {name}: {side}", [one / size for one in seconds], unit="s/GB")
