# SPDX-License-Identifier: Apache-2.0
"""
flmem aggregate, and both sides of flmem exchange, where each call that writes, opens or reads fails once, or
from one on all of them.

usage: failing_disks.py BUILD [--every N]
"""
import argparse
import os
import subprocess
import sys

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
sys.path.insert(0, ROOT)

from harness import command  # noqa: E402

SCENARIOS = ("mean", "npz", "shards", "state", "pull", "pull-folder", "staged", "digests", "rounds", "optimizer", "restart",
             "lockstep", "lockstep-rounds")
KINDS = "full,quota,damaged,stays-full,stays-damaged,unread,descriptors,dead,stale,read-only,killed"


def main():
    parser = argparse.ArgumentParser(description="Disks that fail under flmem aggregate and exchange.")
    parser.add_argument("build", help="the build directory, for example build/release")
    parser.add_argument("--every", type=int, default=1, help="of the calls only every so many-th")
    chosen = parser.parse_args()
    flmem = os.path.abspath(command.Flmem(chosen.build).path)
    library = os.path.join(os.path.abspath(chosen.build), "tests/victims/sampled/fail_calls.so")
    bad = [scenario for scenario in SCENARIOS if subprocess.run(
        [sys.executable, "-B", os.path.join(ROOT, "harness/failing_calls.py"), flmem, library, scenario, "--kinds", KINDS,
         "--every", str(chosen.every)], check=False).returncode]
    print("wrong: " + ", ".join(bad) if bad else f"{len(SCENARIOS)} scenarios: nothing hung, nothing was lost")
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
