# SPDX-License-Identifier: Apache-2.0
"""
Processor time of `flmem exchange push` and `pull` on both sides and of the bare probe, plain and with TLS and
certificates on both sides, for each GB; the speed that this allows where the processors do nothing else; and the time
of a request without a body. It depends less on other work than elapsed time does, and more on where the files are: in
`FLMEM_BENCH_DIR`, else in memory, in pages of 4 KiB unless that file system has huge ones.
"""
import http.client
import os
import ssl
import subprocess
import tempfile
import time
import urllib.parse

import averaging
import exchanging
import figures
import probing
import stage

SIDES = ("client", "server")
REQUESTS = 300


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
        raise stage.Failed(f"{words[0]} {words[2]} fails")
    return usage.ru_utime + usage.ru_stime, _clock(server) - before


def _request(url, pid, way, folder):
    """Returns the server's processor time in us of one of many requests of a connection."""
    parts, context = urllib.parse.urlsplit(url), None
    if way.tls:
        context = ssl.create_default_context(cafile=os.path.join(folder, "ca.pem"))
        context.load_cert_chain(os.path.join(folder, "a.pem"), os.path.join(folder, "a.key"))
    kind = http.client.HTTPSConnection if way.tls else http.client.HTTPConnection
    connection = kind(parts.hostname, parts.port, **({"context": context} if way.tls else {}))
    before = None
    for _ in range(REQUESTS + 1):
        connection.request("GET", "/v1/status")
        answer = connection.getresponse()
        answer.read()
        if answer.status != 200:
            raise stage.Failed(f"a request is answered with {answer.status}")
        before = before or _clock(pid)
    spent = _clock(pid) - before
    connection.close()
    return spent / REQUESTS * 1e6


def _measure(bench, way, model, folder, rounds):
    # pylint: disable=too-many-locals
    state, output = (os.path.join(folder, f"{name}-{way.name.replace(' ', '-')}") for name in ("state", "out"))
    found = {(what, side): [] for what in ("bare probe", "push", "pull") for side in SIDES}
    requests = []
    words = [bench.flmem, "exchange", "serve", "--model", model, "--clients", "1", "--rounds", str(rounds), "--state",
             state, "--listen", "127.0.0.1:0", "--settle", "60s", *way.serve]
    with probing.bare_server(bench, way) as (bare, address), \
            exchanging.Process(words, os.path.join(folder, "serve.log")) as server:
        url, pid = server.url(), server.process.pid
        for number in range(rounds):
            last = ["--round", str(number), *way.client]
            commands = {"bare probe": (probing.probe_words(model, way, address), bare.pid),
                        "push": ([bench.flmem, "exchange", "push", url, model, "-c", "a", *last], pid),
                        "pull": ([bench.flmem, "exchange", "pull", url, "-o", output, *last], pid)}
            for what, (command, other) in commands.items():
                stage.progress(f"costing: {way.name}, round {number + 1}, {what}")
                for side, seconds in zip(SIDES, _run(command, other)):
                    found[what, side].append(seconds)
                if what == "push":  # the server combines then
                    bench.tools.time(bench.flmem, "exchange", "wait", url, "--round", str(number + 1), *way.client)
            requests.append(_request(url, pid, way, folder))
            os.unlink(output)
    return found, requests


def cost(bench):
    """Measures seconds of processor time per GB."""
    with tempfile.TemporaryDirectory(dir=os.environ.get("FLMEM_BENCH_DIR") or stage.memory_folder()) as folder:
        model = os.path.join(folder, "model.safetensors")
        averaging.write_model(model, 1, tensors=exchanging.TENSORS)
        probing.make_certificates(folder)
        size = os.path.getsize(model) / probing.GB
        for name in probing.AIMS:
            found, requests = _measure(bench, probing.Way(name, folder), model, folder, bench.count(7))
            for (what, side), seconds in found.items():
                yield figures.of_values(f"{what}, {name}: {side}", [one / size for one in seconds], unit="s/GB")
                if side == SIDES[-1]:
                    both = [os.cpu_count() * size / sum(pair)
                            for pair in zip(found[what, SIDES[0]], found[what, SIDES[1]])]
                    yield figures.of_values(f"{what}, {name}: at most, with {os.cpu_count()} processors", both,
                                            unit="GB/s")
            yield figures.of_values(f"a request, {name}: server", requests, unit="us")
