# SPDX-License-Identifier: Apache-2.0
"""
`flmem aggregate` of two models of 512 MiB from nginx on this machine, beside curl, which fetches the
same bytes and drops them, and beside the same files without a server.
"""
import json
import os
import shutil
import subprocess
import tempfile

import averaging
import figures
import stage
from harness import ports

INPUTS, TENSORS = 2, 32
PEAK_MIB = 64
PATHS = os.environ.get("PATH", "") + ":/usr/sbin"

CONFIGURATION = """
{user}daemon off; pid pid; error_log stderr; worker_processes 2;
events {{ }}
http {{
  access_log off; sendfile on;
  client_body_temp_path a; proxy_temp_path b; fastcgi_temp_path c; uwsgi_temp_path d; scgi_temp_path e;
  server {{ listen 127.0.0.1:{port}; root {folder}; }}
}}
"""


class _Server:
    def __init__(self, folder):
        self.base = f"http://127.0.0.1:{(port := ports.free()[0])}/"
        path = os.path.join(folder, "nginx.conf")
        with open(path, "w", encoding="utf-8") as file:
            file.write(CONFIGURATION.format(user="user root; " if os.geteuid() == 0 else "", port=port, folder=folder))
        self.process = subprocess.Popen([shutil.which("nginx", path=PATHS), "-p", folder, "-c", path],
                                        stderr=subprocess.DEVNULL)

    def __enter__(self):
        return self.base

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()


def _run_all(bench, urls, files, output):
    """Returns timings by way; each round takes all ways in turn."""
    words = {"curl": ["curl", "-sS", "--fail", "--parallel", "--retry", "9", "--retry-connrefused",
                      *(word for url in urls for word in ("-o", "/dev/null", url))],
             "flmem": [bench.flmem, "aggregate", "--json", "--retries", "20", "-o", output, *urls],
             "flmem, from files": [bench.flmem, "aggregate", "--json", "-o", output, *files]}
    timings = {}
    for number in range(bench.count(5)):
        for way in words:
            stage.progress(f"fetching: round {number + 1}, {way}")
            timings.setdefault(way, []).append(bench.tools.time(*words[way], keep=True))
        os.unlink(output)
    return timings


def fetch(bench):
    """Measures speed and memory of an average of two models on a web server."""
    if not shutil.which("nginx", path=PATHS) or not shutil.which("curl"):
        raise stage.Failed("needs nginx and curl")
    with tempfile.TemporaryDirectory(dir=os.environ.get("FLMEM_BENCH_DIR")) as folder:
        names = [f"client-{n}.safetensors" for n in range(INPUTS)]
        for number, name in enumerate(names):
            stage.progress(f"fetching: writing model {number + 1}")
            averaging.write_model(os.path.join(folder, name), number, tensors=TENSORS)
        with _Server(folder) as base:
            timings = _run_all(bench, [base + name for name in names],
                               [os.path.join(folder, name) for name in names], os.path.join(folder, "out"))
    seconds = {way: [t.wall_us / 1e6 for t in rows] for way, rows in timings.items()}
    for way, rows in timings.items():
        yield figures.of_values(f"{way}, 2 x 512 MiB", seconds[way], unit="s")
        yield figures.of_values(f"peak RSS of {way}", [t.peak_bytes / figures.MIB for t in rows], unit="MiB")
    yield figures.ratio("share of curl's speed, which writes nothing", seconds["curl"], seconds["flmem"])
    yield figures.ratio("share of the speed from files", seconds["flmem, from files"], seconds["flmem"])
    yield figures.of_values("anonymous memory", [json.loads(t.output)["peak_anon_bytes"] / figures.MIB
                                                 for t in timings["flmem"]], unit="MiB", limit=PEAK_MIB)
