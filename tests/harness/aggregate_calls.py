# SPDX-License-Identifier: Apache-2.0
"""Shared by the checks of `flmem aggregate`; argument 1 of the program is the command."""
import json
import signal
import subprocess
import sys

from harness.file_sizes import size_of

FLMEM = sys.argv[1]


def call(*words):
    return subprocess.run([FLMEM, "aggregate", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True, check=False)


def run(*words):
    done = call(*words, "--json")
    if done.returncode:
        raise SystemExit(f"{words}: status {done.returncode}: {done.stdout}{done.stderr}")
    return json.loads(done.stdout)


def kill_begun(output, *words, prepare=lambda: None):
    """Kills the command as soon as its journal grows, at any speed of the machine: then there is
    something to resume. A command that ended before is run again, after its preparation."""
    while True:
        prepare()
        with subprocess.Popen([FLMEM, "aggregate", "--quiet", "--resume", *words], stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL) as process:
            while process.poll() is None and not size_of(output + ".part.journal"):
                pass
            first = size_of(output + ".part.journal")
            while process.poll() is None and size_of(output + ".part.journal") <= first:
                pass
            process.kill()
        if size_of(output + ".part.journal") > first:
            return
        assert process.returncode in (0, -signal.SIGKILL), (words, process.returncode)


def refused(expected, *words, status=2):
    done = call(*words)
    assert done.returncode == status, (words, done)
    assert expected in done.stderr, f"{words}: expected {expected!r} in {done.stderr!r}"


def content(path):
    with open(path, "rb") as file:
        return file.read()


def put(path, data):
    with open(path, "wb") as file:
        file.write(data)
