# SPDX-License-Identifier: Apache-2.0
"""Installs the release of NVFlare that the benchmarks run: from the Python registry, into
~/.cache/flmem, once. It also uses the packages of the system's Python, PyTorch among them."""
import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))

VERSION = os.environ.get("FLMEM_BENCH_NVFLARE") or "2.8.3"
HOME = os.path.expanduser(f"~/.cache/flmem/nvflare-{VERSION}")
PYTHON = os.path.join(HOME, "bin", "python")
SYSTEM_PYTHON = "/usr/bin/python3"


def install():
    if os.path.exists(PYTHON) and subprocess.run(
            [PYTHON, "-c", "import nvflare"], check=False, capture_output=True).returncode == 0:
        return
    print(f"installing NVFlare {VERSION} into {HOME}", file=sys.stderr)
    subprocess.run([SYSTEM_PYTHON, "-m", "venv", "--system-site-packages", HOME], check=True)
    subprocess.run([os.path.join(HOME, "bin", "pip"), "install", "--quiet", f"nvflare=={VERSION}"],
                   check=True)


class Failed(Exception):
    """Raised when a run did not complete."""


class Job:
    """A script of this folder that runs a job in a separate directory, its first argument."""

    def __init__(self, directory, script, words, env):
        self.directory = directory
        self._out = os.path.join(directory, "out")
        with open(self._out, "wb") as out:
            self.process = subprocess.Popen(
                [PYTHON, os.path.join(HERE, script), directory, *map(str, words)], stdout=out,
                stderr=out, stdin=subprocess.DEVNULL, start_new_session=True, env=env)

    def output(self):
        with open(self._out, encoding="utf-8", errors="replace") as out:
            return out.read()

    def fail(self):
        raise Failed(f"the job failed: {self.output()[-2000:]}")


@contextlib.contextmanager
def running(script, *words, env=None):
    """Yields the started Job; afterwards all processes that it started are ended and its directory
    is removed."""
    directory = tempfile.mkdtemp(prefix="flmem-nvflare-")
    job = None
    try:
        job = Job(directory, script, words, env)
        yield job
    finally:
        if job and job.process.poll() is None:
            os.killpg(job.process.pid, signal.SIGKILL)
            job.process.wait()
        shutil.rmtree(directory)
