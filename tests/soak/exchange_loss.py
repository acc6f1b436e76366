# SPDX-License-Identifier: Apache-2.0
"""
flmem exchange over a network that loses 30 % of the packets in each direction, staged and in lockstep: rounds
end, and the bytes are those of `flmem aggregate`.

usage: exchange_loss.py BUILD [--loss SHARE] [--floats N]
"""
import argparse
import os
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

from harness import command, skip  # noqa: E402
from harness.exchange_server import Served, write_model  # noqa: E402
from harness.lossy_link import NEAR, Link  # noqa: E402

INSIDE = "FLMEM_LOSSY_NAMESPACE"
CLIENTS = ("a", "b")
PATIENT = ("--retries", "100", "--timeout", "200s", "--quiet")


def enter_namespace():
    """Runs this script again in a namespace where it may create devices."""
    words = ["unshare", "--user", "--map-root-user", "--net"]
    if os.environ.get(INSIDE):
        return
    probe = [*words, sys.executable, "-c", "import os; os.open('/dev/net/tun', os.O_RDWR)"]
    if subprocess.run(probe, stderr=subprocess.DEVNULL, check=False).returncode:
        skip("no network namespace can be made here, or there is no /dev/net/tun")
    os.environ[INSIDE] = "1"
    os.execvp(words[0], [*words, sys.executable, "-B", *sys.argv])


def run_round(flmem, link, mode):
    with Served(flmem, "initial", "--clients", str(len(CLIENTS)), "--mode", mode, "--reserve", "1MiB", "--insecure",
                "--chunk", "16KiB", listen=NEAR + ":0") as server:
        pushes = [subprocess.Popen(link.far([flmem, "exchange", "push", server.url, name, "--client", name,
                                             "--round", "0", *PATIENT])) for name in CLIENTS]
        try:
            assert not any(push.wait(1500) for push in pushes), mode
        finally:
            for push in pushes:
                push.kill()
                push.wait()
        subprocess.run(link.far([flmem, "exchange", "wait", server.url, "-r", "1", "--retries", "100", "-q"]), check=True)
        subprocess.run(link.far([flmem, "exchange", "pull", server.url, "-o", "got", *PATIENT]), check=True)
    subprocess.run(["cmp", "want", "got"], check=True)
    subprocess.run(["rm", "-r", "got", "state"], check=True)


def main():
    parser = argparse.ArgumentParser(description="flmem exchange with packets lost.")
    parser.add_argument("build", help="the build directory, for example build/release")
    parser.add_argument("--loss", type=float, default=0.3)
    parser.add_argument("--floats", type=int, default=8000)
    chosen = parser.parse_args()
    enter_namespace()
    flmem = os.path.abspath(command.Flmem(chosen.build).path)
    link = Link(chosen.loss, 1)
    try:
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            for number, name in enumerate(("initial", *CLIENTS)):
                write_model(name, number, count=chosen.floats)
            subprocess.run([flmem, "aggregate", "-q", "-o", "want", *CLIENTS], check=True)
            began, took = time.monotonic(), []
            for mode in ("staged", "lockstep"):
                run_round(flmem, link, mode)
                took.append(f"{mode} {time.monotonic() - began:.0f} s")
                began = time.monotonic()
            os.chdir("/")
    finally:
        link.stop()
    print(f"{link.lost} of {link.lost + link.passed} packets lost: {', '.join(took)}")


if __name__ == "__main__":
    main()
