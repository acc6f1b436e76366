# SPDX-License-Identifier: Apache-2.0
"""
A disk that becomes full while bytes are on their way, at the server and at the client; later there is
space again, and the same command goes on. Runs itself in a mount namespace: FLMEM staged|lockstep|pull
"""
import os
import socket
import subprocess
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

from harness import SKIPPED  # noqa: E402
from harness.exchange_server import Served, write_model  # noqa: E402

FLMEM = os.path.abspath(sys.argv[1])
PAUSE_BYTES = 2 << 20
BLOCK = 1 << 16
DISK = "disk"
FILLER = DISK + "/filler"


class Valve:
    """Forwards connections; stops when so many bytes have passed in one direction, until it is
    opened."""

    def __init__(self, url, upwards):
        self.to = url.partition("://")[2].rpartition(":")
        self.upwards, self.left = upwards, PAUSE_BYTES
        self.reached, self.opened = threading.Event(), threading.Event()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                near = self.listener.accept()[0]
                far = socket.create_connection((self.to[0], int(self.to[2])))
            except OSError:
                return
            for source, sink, counts in ((near, far, self.upwards), (far, near, not self.upwards)):
                threading.Thread(target=self.forward, args=(source, sink, counts), daemon=True).start()

    def forward(self, source, sink, counts):
        try:
            while data := source.recv(BLOCK):
                if counts:
                    self.left -= len(data)
                if counts and self.left < 0:
                    self.reached.set()
                    self.opened.wait()
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)
        except OSError:
            for one in (source, sink):
                one.close()


def fill_disk():
    with open(FILLER, "wb", buffering=0) as filler:
        block = b"x" * 4096
        try:
            while True:
                filler.write(block)
        except OSError:
            pass


def start(*words):
    # pylint: disable-next=consider-using-with
    return subprocess.Popen([FLMEM, "exchange", *words], stdin=subprocess.DEVNULL, stderr=subprocess.PIPE)


def fail_on_full_disk(valve, process, text):
    """Waits until the command fails with the reason once the disk is full."""
    assert valve.reached.wait(100), "not so many bytes were sent"
    fill_disk()
    valve.opened.set()
    error = process.communicate(timeout=100)[1].decode()
    assert process.returncode == 7 and text in error, (process.returncode, error)
    os.unlink(FILLER)


def compare(path):
    subprocess.run([FLMEM, "aggregate", "-q", "-o", "want", "update"], check=True)
    subprocess.run(["cmp", "want", path], check=True)


def staged():
    with Served(FLMEM, "initial", "--clients", "1", "--reserve", "64KiB") as server:
        valve = Valve(server.url, True)
        process = start("push", valve.url, "update", "--client", "a", "--chunk", "256KiB", "-q")
        fail_on_full_disk(valve, process, "507")
        subprocess.run([FLMEM, "exchange", "push", server.url, "update", "--client", "a", "-q"], check=True)
        subprocess.run([FLMEM, "exchange", "wait", server.url, "-r", "1", "--timeout", "100s", "-q"], check=True)
        compare(DISK + "/state/rounds/1/model/initial")


def lockstep():
    """The space for the result is reserved when the round begins; if anything else lacks space, the
    server ends."""
    with Served(FLMEM, "initial", "--clients", "1", "--reserve", "64KiB", "--mode", "lockstep") as server:
        valve = Valve(server.url, True)
        process = start("push", valve.url, "update", "--client", "a", "--chunk", "256KiB", "-q")
        assert valve.reached.wait(100), "not so many bytes were sent"
        fill_disk()
        valve.opened.set()
        error = process.communicate(timeout=100)[1].decode()
        os.unlink(FILLER)
        if process.returncode:
            assert "No space" in error, error
            server.kill()
            server.start()
            subprocess.run([FLMEM, "exchange", "push", server.url, "update", "--client", "a", "-q"], check=True)
        compare(DISK + "/state/rounds/1/model/initial")


def pull():
    with Served(FLMEM, "initial", "--clients", "1") as server:
        valve = Valve(server.url, False)
        process = start("pull", valve.url, "-o", DISK + "/got", "-q")
        fail_on_full_disk(valve, process, "free some space and pull again")
        subprocess.run([FLMEM, "exchange", "pull", server.url, "-o", DISK + "/got", "-q"], check=True)
        subprocess.run(["cmp", "initial", DISK + "/got"], check=True)


def main():
    if len(sys.argv) == 3:  # second start, in a namespace
        words = ["unshare", "--user", "--map-root-user", "--mount"]
        if subprocess.run([*words, "true"], check=False).returncode:
            print("SKIP: no mount namespace can be made here")
            sys.exit(SKIPPED)
        os.execvp(words[0], [*words, sys.executable, "-B", *sys.argv, "inside"])
    os.mkdir(DISK)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=40m", "none", DISK], check=True)
    write_model("initial", 0, count=800000)
    write_model("update", 1, count=800000)
    if sys.argv[2] != "pull":
        os.mkdir(DISK + "/state", 0o700)
        os.symlink(DISK + "/state", "state")
    globals()[sys.argv[2]]()


if __name__ == "__main__":
    main()
