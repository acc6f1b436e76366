# SPDX-License-Identifier: Apache-2.0
"""
`flmem exchange` on the loopback interface: an update of 512 MiB pushed and pulled by the command and by
the client in Python, and fused, beside curl, which puts the same bytes into nginx and gets them.
"""
import json
import os
import re
import shutil
import subprocess
import tempfile
import time

import averaging
import figures
import probing
import stage
from fetching import PATHS
from harness import ports

TENSORS = 32
MODEL_MIB = 512
PEAK_MIB = 64
START_S = 60
BINDINGS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../libcore/bindings/python")

CONFIGURATION = """
{user}daemon off; pid pid; error_log stderr; worker_processes 2;
events {{ }}
http {{
  access_log off; sendfile on; client_max_body_size 0;
  client_body_temp_path a; proxy_temp_path b; fastcgi_temp_path c; uwsgi_temp_path d; scgi_temp_path e;
  server {{ listen 127.0.0.1:{port}; root {folder}/www; location / {{ dav_methods PUT; }} }}
}}
"""

# A client in Python that reports times without the start of Python and PyTorch, and the memory held
# beside the model.
PROGRAM = """
import json, resource, sys, time
import torch
from flmem import exchange
def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
client = exchange.Client(sys.argv[1], client="b")
first = time.monotonic()
state = client.pull(framework="torch")
pulled = time.monotonic()
before = peak()
client.push(state)
print(json.dumps({"pull": pulled - first, "push": time.monotonic() - pulled, "more": peak() - before}))
"""


class Process:
    def __init__(self, words, log, **more):
        with open(log, "wb") as file:
            self.process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=file,
                                            **more)
        self.log = log

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()

    def url(self):
        until = time.monotonic() + START_S
        while time.monotonic() < until and self.process.poll() is None:
            with open(self.log, encoding="utf-8") as file:
                found = re.search(r"listening at (\S+)\n", file.read())
            if found:
                return found[1]
            time.sleep(0.05)
        raise stage.Failed("the server of the exchange does not start")


def _nginx(folder, port):
    os.mkdir(os.path.join(folder, "www"))
    path = os.path.join(folder, "nginx.conf")
    with open(path, "w", encoding="utf-8") as file:
        file.write(CONFIGURATION.format(user="user root; " if os.geteuid() == 0 else "", port=port, folder=folder))
    return Process([shutil.which("nginx", path=PATHS), "-p", folder, "-c", path], os.path.join(folder, "nginx.log"))


def _in_python(url):
    done = subprocess.run([stage.PYTHON, "-B", "-c", PROGRAM, url], env={**os.environ, "PYTHONPATH": BINDINGS},
                          stdout=subprocess.PIPE, check=True)
    return json.loads(done.stdout)


def _round(bench, url, base, names, number, found):
    """Runs each way once; returns seconds and timings by way."""
    model, output = names
    words = {"curl PUT to nginx": ["curl", "-sS", "--fail", "--retry", "9", "--retry-connrefused", "-T", model,
                                   base + "model"],
             "curl GET from nginx": ["curl", "-sS", "--fail", "-o", output, base + "model"],
             "flmem push": [bench.flmem, "exchange", "push", url, model, "--client", "a", "--round", str(number)],
             "flmem pull": [bench.flmem, "exchange", "pull", url, "-o", output, "--round", str(number)]}
    for way, command in words.items():
        stage.progress(f"exchanging: round {number + 1}, {way}")
        stage.touch_memory(probing.TOUCHED_GIB)
        found.setdefault(way, []).append(bench.tools.time(*command))
    stage.progress(f"exchanging: round {number + 1}, Python")
    stage.touch_memory(probing.TOUCHED_GIB)
    found.setdefault("python", []).append(_in_python(url))
    stage.progress(f"exchanging: round {number + 1}, combining")
    found.setdefault("fuse", []).append(bench.tools.time(
        bench.flmem, "exchange", "wait", url, "--round", str(number + 1)))


def _measure(bench, folder, rounds):
    model, output = os.path.join(folder, "model.safetensors"), os.path.join(folder, "out")
    port, found = ports.free()[0], {}
    averaging.write_model(model, 1, tensors=TENSORS)
    words = [bench.flmem, "exchange", "serve", "--model", model, "--clients", "2", "--rounds", str(rounds), "--state",
             os.path.join(folder, "state"), "--listen", "127.0.0.1:0", "--settle", "60s"]
    with _nginx(folder, port), Process(words, os.path.join(folder, "serve.log")) as server:
        url = server.url()
        for number in range(rounds):
            _round(bench, url, f"http://127.0.0.1:{port}/", (model, output), number, found)
        with open(f"/proc/{server.process.pid}/status", encoding="ascii") as status:
            found["server"] = int(re.search(r"VmHWM:\s+(\d+)", status.read())[1]) / 1024
    return found


def exchange(bench):
    """Measures speed and memory of one update and one model."""
    if not shutil.which("nginx", path=PATHS) or not shutil.which("curl"):
        raise stage.Failed("needs nginx and curl")
    with tempfile.TemporaryDirectory(dir=os.environ.get("FLMEM_BENCH_DIR")) as folder:
        found = _measure(bench, folder, bench.count(5))
    seconds = {}
    for way in ("curl PUT to nginx", "flmem push", "curl GET from nginx", "flmem pull"):
        seconds[way] = [t.wall_us / 1e6 for t in found[way]]
        yield figures.of_values(f"{way}, {MODEL_MIB} MiB", seconds[way], unit="s")
    for way in ("push", "pull"):
        yield figures.of_values(f"peak RSS of {way}", [t.peak_bytes / figures.MIB for t in found[f"flmem {way}"]],
                                unit="MiB", limit=PEAK_MIB)
        yield figures.of_values(f"{way} in Python, {MODEL_MIB} MiB", [one[way] for one in found["python"]], unit="s")
    yield figures.of_values("memory of push in Python beside the model", [one["more"] / figures.MIB
                                                                          for one in found["python"]],
                            unit="MiB", limit=PEAK_MIB)
    yield figures.of_values("combining two updates, after the last one", [t.wall_us / 1e6 for t in found["fuse"]],
                            unit="s")
    yield figures.of_values("peak RSS of the server", [found["server"]], unit="MiB", limit=256)
    for way in ("push", "pull"):
        speeds = [MODEL_MIB * figures.MIB / 1e9 / one[way] for one in found["python"]]
        yield figures.of_values(f"{way} in Python", speeds,
                                unit="GB/s", limit=1.0, at_least=True)
    yield figures.ratio("push: share of the speed of curl's PUT", seconds["curl PUT to nginx"], seconds["flmem push"])
    yield figures.ratio("pull: share of the speed of curl's GET", seconds["curl GET from nginx"],
                        seconds["flmem pull"])
    yield from probing.probe(bench, Process, TENSORS)
