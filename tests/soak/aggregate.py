# SPDX-License-Identifier: Apache-2.0
"""
flmem aggregate, killed at random instants and resumed, and with random chunk sizes and numbers of
threads: the output has the same bytes every time.

usage: aggregate.py BUILD [--kills N] [--variants N]
"""
import argparse
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

from harness import command, skip  # noqa: E402

CHECKS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "harness", "aggregations.py")
PYTHON = "/usr/bin/python3"
ROOM_BYTES = 1 << 30


def check(flmem, name, number):
    with tempfile.TemporaryDirectory() as folder:
        room = os.statvfs(folder)
        if room.f_bavail * room.f_frsize < ROOM_BYTES:
            skip(f"{folder} has less than 1 GiB")
        subprocess.run([PYTHON, "-B", CHECKS, flmem, name, str(number)], cwd=folder, check=True)


def main():
    parser = argparse.ArgumentParser(description="Kills of flmem aggregate, and the bits of its output.")
    parser.add_argument("build", help="the build directory, for example build/release")
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--variants", type=int, default=100)
    chosen = parser.parse_args()
    if subprocess.run([PYTHON, "-c", "import numpy"], stderr=subprocess.DEVNULL, check=False).returncode:
        skip("needs python3-numpy")
    flmem = os.path.abspath(command.Flmem(chosen.build).path)
    check(flmem, "kills", chosen.kills)
    check(flmem, "same_bits", chosen.variants)
    print(f"{chosen.kills} kills, {chosen.variants} chunk sizes and numbers of threads: the same bytes")


main()
