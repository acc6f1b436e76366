# SPDX-License-Identifier: Apache-2.0
"""
The ways in which the part "transfer" moves a model: flmem, and the frameworks' own, each by real processes on the
loopback interface. A way is measured in one direction at a time; who receives has tensors or a file of the same digest.
"""
import collections
import contextlib
import json
import os
import re
import subprocess
import sys
import tempfile
import time

import stage
from harness import ports, proc

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "python"))

import frameworks  # noqa: E402

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "transfer")
BINDINGS = os.path.join(HERE, "../../../libcore/bindings/python")
DIRECTIONS = ("pull", "push")
TIMEOUT_S = 300
CHUNKS = 8

# Peaks are in bytes; `between` is the peak of processes that pass the model on.
Moved = collections.namedtuple("Moved", "seconds sender receiver between")
# the model of the server, and the client's update
Models = collections.namedtuple("Models", "first update")


def environment(**more):
    """Returns an environment without proxies that writes no bytecode into the tree."""
    kept = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
    return {**kept, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": BINDINGS, **more}


def digest(path):
    """Returns the digest of a file, computed as a peer computes it from its tensors."""
    program = "import sys; sys.path.insert(0, sys.argv[1]); import peer; print(peer.digest(peer.read(sys.argv[2])))"
    done = subprocess.run([stage.PYTHON, "-B", "-c", program, HERE, path], stdout=subprocess.PIPE, check=True, text=True)
    return done.stdout.strip()


def compare(way, sent, received):
    if sent != received:
        raise stage.Failed(f"{way}: the model that arrived is not the one that was sent")


class Process:
    """A process whose messages are kept; it ends with the block."""

    def __init__(self, words, log, **more):
        self.words, self.log = words, log
        with open(log, "wb") as file:
            self.process = subprocess.Popen(words, stdout=file, stderr=file, **{"env": environment(), **more})

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        try:
            self.process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def text(self):
        with open(self.log, encoding="utf-8", errors="replace") as file:
            return file.read()

    def wait_until(self, done):
        """Returns the value of done() once it is true."""
        until = time.monotonic() + TIMEOUT_S
        while not (found := done()):
            if self.process.poll() is not None or time.monotonic() > until:
                raise stage.Failed(f"{os.path.basename(self.words[0])} failed: {self.text()[-1500:]}")
            time.sleep(0.05)
        return found

    def wait_for(self, pattern):
        """Returns the first group of the pattern, once the messages match."""
        return self.wait_until(lambda: re.search(pattern, self.text()))[1]

    def peak(self):
        return stage.kibibytes(self.process.pid, "VmHWM") << 10


def run_to_end(words, folder, name):
    with Process(words, os.path.join(folder, name + ".log"), stdin=subprocess.DEVNULL, cwd=folder) as running:
        if running.process.wait(timeout=TIMEOUT_S):
            raise stage.Failed(f"{' '.join(words[:3])}: {running.text()[-1500:]}")


def load(path):
    with open(path, encoding="ascii") as file:
        return json.load(file)


def moved(way, direction, server, client, between=0):
    """Combines the reports of both sides. A pull of a client begins with its request, one of Flower
    with the server's message."""
    compare(way, server["digest"], client["digest"])
    sender, receiver = (server, client) if direction == "pull" else (client, server)
    began = sender["began"] if "began" in sender else receiver["began"]
    return Moved(receiver["ended"] - began, sender["peak"], receiver["peak"], between)


class Flmem:
    """`flmem exchange`: either the command, which has files, or the client in Python, which has
    tensors."""

    framework = "flmem"

    def __init__(self, bench, in_python):
        self.bench, self.in_python = bench, in_python
        self.name = "flmem, Python" if in_python else "flmem, command"

    @staticmethod
    def absent():
        """Returns None: flmem is the built one and never missing."""
        return None

    @contextlib.contextmanager
    def _serving(self, folder, model):
        words = [self.bench.flmem, "exchange", "serve", "--model", model, "--clients", "1", "--rounds", "1", "--state",
                 os.path.join(folder, "state"), "--listen", "127.0.0.1:0", "--settle", "60s"]
        with Process(words, os.path.join(folder, "serve.log"), stdin=subprocess.DEVNULL) as server:
            yield server, server.wait_for(r"listening at (\S+)\n")

    def _by_command(self, direction, url, models, folder):
        output = os.path.join(folder, "out.safetensors")
        words = {"pull": ["pull", url, "-o", output, "--round", "0"],
                 "push": ["push", url, models.update, "--client", "a", "--round", "0"]}[direction]
        timing = self.bench.tools.time(self.bench.flmem, "exchange", *words)
        return timing.wall_us / 1e6, timing.peak_bytes, digest(output if direction == "pull" else models.update)

    @staticmethod
    def _by_python(direction, url, models, folder):
        report = os.path.join(folder, "client.json")
        run_to_end([stage.PYTHON, os.path.join(HERE, "flmem_peer.py"), direction, url, models.update, report], folder,
                   "client")
        found = load(report)
        return found["ended"] - found["began"], found["peak"], found["digest"]

    def move(self, direction, models, folder):
        with self._serving(folder, models.first) as (server, url):
            seconds, client, theirs = (self._by_python if self.in_python else self._by_command)(
                direction, url, models, folder)
            peak = server.peak()
            if direction == "pull":
                compare(self.name, digest(models.first), theirs)
                return Moved(seconds, peak, client, 0)
            # The average of one update is that update, bit by bit.
            after = os.path.join(folder, "after.safetensors")
            for words in (["wait", url, "--round", "1"], ["pull", url, "-o", after, "--round", "1"]):
                self.bench.tools.time(self.bench.flmem, "exchange", *words)
            compare(self.name, theirs, digest(after))
            return Moved(seconds, client, peak, 0)


class Pair:
    """Two processes of a framework, both of one script."""

    def __init__(self, name, framework, script, scheme="", extra=None):
        self.name, self.framework, self.script, self.scheme = name, framework, script, scheme
        self._extra = extra or (lambda size: [])

    def absent(self):
        if os.path.exists(os.path.join(frameworks.home(self.framework), "bin", "python")):
            return None
        return f"tests/python/frameworks.py make {self.framework}"

    def move(self, direction, models, folder):
        address = f"{self.scheme}127.0.0.1:{ports.free()[0]}"
        size = os.path.getsize(models.first)

        def words(role, model):
            return [os.path.join(frameworks.home(self.framework), "bin", "python"), os.path.join(HERE, self.script), role,
                    direction, *self._extra(size), address, model, os.path.join(folder, role + ".json")]

        with Process(words("server", models.first), os.path.join(folder, "server.log"), stdin=subprocess.PIPE,
                     cwd=folder) as server:
            server.wait_for(r"listening at (\S+)\n")
            run_to_end(words("client", models.update), folder, "client")
            server.process.stdin.close()
            server.process.wait(timeout=TIMEOUT_S)
            if server.process.returncode:
                raise stage.Failed(f"{self.name}: {server.text()[-1500:]}")
        reports = [load(os.path.join(folder, role + ".json")) for role in ("server", "client")]
        return moved(self.name, direction, *reports)


class FlowerProcess(Process):
    """Ends SuperLink or SuperNode with the processes that they start in their own sessions."""

    def __exit__(self, *unused):
        children = proc.descendants(self.process.pid)
        super().__exit__(*unused)
        until = time.monotonic() + 20
        while any(os.path.exists(f"/proc/{child}") for child in children):
            if time.monotonic() > until:
                raise stage.Failed(f"processes of Flower do not end: {children}")
            time.sleep(0.1)


class Flower:
    """SuperLink and SuperNode, and the ServerApp and ClientApp that they start; `flwr run` starts
    the run."""

    name, framework = "Flower", "flower"

    def __init__(self):
        self._bin = os.path.join(frameworks.home("flower"), "bin")

    def absent(self):
        python = os.path.join(self._bin, "python")
        if os.path.exists(python) and not subprocess.run(
                [python, "-B", "-c", "import flwr.superlink.cli, flwr.supernode.cli"], check=False,
                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode:
            return None
        return "tests/python/frameworks.py make flower"

    def _words(self, script, *words):
        return [os.path.join(self._bin, "python"), os.path.join(self._bin, script), *words]

    def _environment(self, direction, model, folder, port):
        home = os.path.join(folder, "home")
        os.mkdir(home)
        with open(os.path.join(home, "config.toml"), "w", encoding="ascii") as file:
            file.write(f'[superlink]\ndefault = "here"\n[superlink.here]\naddress = "127.0.0.1:{port}"\n'
                       'insecure = true\n')
        return environment(FLWR_HOME=home, FLWR_TELEMETRY_ENABLED="0", FLWR_DISABLE_UPDATE_CHECK="1",
                           FLMEM_TRANSFER_DIRECTION=direction, FLMEM_TRANSFER_MODEL=model, FLMEM_TRANSFER_PEER=HERE,
                           FLMEM_TRANSFER_REPORT=os.path.join(folder, "report"),
                           PATH=self._bin + os.pathsep + os.environ["PATH"])

    def move(self, direction, models, folder):
        superlink_port, supernode_port = ports.free(2)
        more = {"env": self._environment(direction, models.first if direction == "pull" else models.update, folder,
                                         superlink_port), "stdin": subprocess.DEVNULL, "cwd": folder}
        superlink = self._words("flower-superlink", "--insecure", "--port", str(superlink_port),
                                "--disable-runtime-dependency-installation")
        supernode = self._words("flower-supernode", "--insecure", "--superlink", f"127.0.0.1:{superlink_port}",
                                "--port", str(supernode_port))
        with FlowerProcess(superlink, os.path.join(folder, "superlink.log"), **more) as link:
            link.wait_for(r"(Uvicorn running)")
            with FlowerProcess(supernode, os.path.join(folder, "supernode.log"), **more) as node:
                node.wait_for(r"SuperNode ID: (\d+)")
                run = self._words("flwr", "run", os.path.join(HERE, "flower"), "here")
                with Process(run, os.path.join(folder, "run.log"), **more) as starting:
                    if starting.process.wait(timeout=TIMEOUT_S):
                        raise stage.Failed(f"flwr run: {starting.text()[-1500:]}")
                reports = [os.path.join(folder, "report." + role) for role in ("server", "client")]
                link.wait_until(lambda: all(map(os.path.exists, reports)))
                between = link.peak() + node.peak()
        return moved(self.name, direction, *map(load, reports), between)


def all_ways(bench):
    """Returns the ways; flmem is placed between the others, so that it is measured in turn with
    each."""
    return [Flmem(bench, False), Pair("APPFL", "appfl", "appfl_peer.py", extra=lambda size: ["0"]),
            Flmem(bench, True),
            Pair("APPFL, chunks of 1/8", "appfl", "appfl_peer.py", extra=lambda size: [str(size // CHUNKS)]),
            Pair("NVFlare, tcp", "nvflare", "nvflare_peer.py", scheme="tcp://"),
            Pair("NVFlare, grpc", "nvflare", "nvflare_peer.py", scheme="grpc://"), Flower()]


@contextlib.contextmanager
def place():
    """Yields a folder in memory where possible: no disk is measured."""
    with tempfile.TemporaryDirectory(dir=stage.memory_folder(), prefix="flmem-transfer-") as folder:
        yield folder
