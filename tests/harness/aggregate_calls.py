# SPDX-License-Identifier: Apache-2.0
"""What the checks of `flmem aggregate` have in common; argument 1 of the program is the command."""
import json
import subprocess
import sys

FLMEM = sys.argv[1]


def call(*words):
    return subprocess.run([FLMEM, "aggregate", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True, check=False)


def run(*words):
    done = call(*words, "--json")
    if done.returncode:
        raise SystemExit(f"{words}: status {done.returncode}: {done.stdout}{done.stderr}")
    return json.loads(done.stdout)


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
