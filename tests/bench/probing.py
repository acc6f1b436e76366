# SPDX-License-Identifier: Apache-2.0
"""
`flmem exchange push` and `pull`, plain and with TLS and certificates on both sides, beside the bare
probe: curl that puts the same bytes into a server which adds them to a sum and keeps nothing.
"""
import contextlib
import os
import subprocess
import tempfile

import averaging
import figures
import stage

GB = 1e9
# (GB/s that are aimed for, by kind of connection)
AIMS = {"plain": 4.0, "mutual TLS": 1.6}
SHARE = 0.6
TOUCHED_GIB = 2  # size of the received file, and of what sockets hold


def make_certificates(folder):
    """Makes an authority, and a key with its certificate for the server and one for the client."""
    def at(name):
        return os.path.join(folder, name)

    def openssl(*words):
        subprocess.run(["openssl", *words], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    new = ["req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    openssl(*new, "-x509", "-subj", "/CN=authority", "-days", "2", "-keyout", at("ca.key"), "-out", at("ca.pem"))
    with open(at("extensions"), "w", encoding="ascii") as file:
        file.write("subjectAltName=IP:127.0.0.1\n")
    for name in ("server", "a"):
        openssl(*new, "-subj", f"/CN={name}", "-keyout", at(f"{name}.key"), "-out", at(f"{name}.csr"))
        openssl("x509", "-req", "-in", at(f"{name}.csr"), "-CA", at("ca.pem"), "-CAkey", at("ca.key"),
                "-CAcreateserial", "-days", "2", "-extfile", at("extensions"), "-out", at(f"{name}.pem"))
    with open(at("clients"), "w", encoding="ascii") as file:
        file.write("a CN=a\n")


class Way:  # pylint: disable=too-few-public-methods
    """The options with which server and client get the certificates."""

    def __init__(self, name, folder):
        self.name = name
        self.tls = name != "plain"
        key, certificate, authority, own, own_key, clients = (
            os.path.join(folder, file) for file in ("server.key", "server.pem", "ca.pem", "a.pem", "a.key", "clients"))
        self.probe = [key, certificate, authority] if self.tls else []
        self.curl = ["--cacert", authority, "--cert", own, "--key", own_key] if self.tls else []
        self.serve = ["--tls-cert", certificate, "--tls-key", key, "--client-ca", authority,
                      "--authorised-clients", clients] if self.tls else []
        self.client = ["--ca", authority, "--cert", own, "--key", own_key] if self.tls else []


@contextlib.contextmanager
def bare_server(bench, way):
    """Runs the server of the probe; yields its process and its address."""
    with subprocess.Popen([bench.tools.bareput, *way.probe], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as bare:
        yield bare, f"{'https' if way.tls else 'http'}://127.0.0.1:{int(bare.stdout.readline())}/x"
        bare.stdin.close()


def probe_words(model, way, address):
    return ["curl", "-sS", "--fail", "-H", "Expect:", "-T", model, *way.curl, address]


def _measure_way(bench, way, model, folder, rounds, start):
    """Returns timings of each command by its name; `start` starts a server."""
    # pylint: disable=too-many-arguments,too-many-locals
    found = {"probe": [], "push": [], "pull": []}
    output = os.path.join(folder, "out")
    state = os.path.join(folder, "state-" + way.name.replace(" ", "-"))
    words = [bench.flmem, "exchange", "serve", "--model", model, "--clients", "1", "--rounds", str(rounds), "--state",
             state, "--listen", "127.0.0.1:0", "--settle", "60s", *way.serve]
    with bare_server(bench, way) as (_, address), start(words, os.path.join(folder, "serve.log")) as server:
        url = server.url()
        for number in range(rounds):
            commands = {
                "probe": probe_words(model, way, address),
                "push": [bench.flmem, "exchange", "push", url, model, "-c", "a", "--round", str(number), *way.client],
                "pull": [bench.flmem, "exchange", "pull", url, "-o", output, "--round", str(number), *way.client]}
            for name, command in commands.items():
                stage.progress(f"exchanging: {way.name}, round {number + 1}, {name}")
                stage.touch_memory(TOUCHED_GIB)
                found[name].append(bench.tools.time(*command))
                # the next pull must not be slowed down by a server that combines
                if name == "push":
                    bench.tools.time(bench.flmem, "exchange", "wait", url, "--round", str(number + 1), *way.client)
    return found


def probe(bench, start, tensors):
    """Yields rows of speeds. Files are in memory where possible: no disk is measured here."""
    with tempfile.TemporaryDirectory(dir=stage.memory_folder()) as folder:
        model = os.path.join(folder, "model.safetensors")
        averaging.write_model(model, 1, tensors=tensors)
        make_certificates(folder)
        size = os.path.getsize(model)
        for name, aim in AIMS.items():
            found = _measure_way(bench, Way(name, folder), model, folder, bench.count(5), start)
            speeds = {what: [size / t.wall_us * 1e6 / GB for t in timings] for what, timings in found.items()}
            yield figures.of_values(f"bare probe, {name}", speeds["probe"], unit="GB/s")
            yield figures.of_values(f"push, {name}", speeds["push"], unit="GB/s", limit=aim, at_least=True)
            yield figures.of_values(f"pull, {name}", speeds["pull"], unit="GB/s")
            yield figures.ratio(f"push: share of the bare probe, {name}", speeds["push"], speeds["probe"], limit=SHARE)
