# SPDX-License-Identifier: Apache-2.0
"""
Two network namespaces that only this process connects: it forwards their packets and loses some. For
kernels with and without netem. To be used in a user namespace, by its root.
"""
import array
import fcntl
import os
import random
import select
import socket
import struct
import subprocess
import sys
import threading

TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454CA, 0x0001, 0x1000  # linux/if_tun.h
NEAR, FAR = "10.77.0.1", "10.77.0.2"
PACKET_MAX = 65536


def open_end(address):
    """Creates a TUN device in the namespace of this process."""
    end = os.open("/dev/net/tun", os.O_RDWR | os.O_CLOEXEC)
    fcntl.ioctl(end, TUNSETIFF, struct.pack("16sH22x", b"lossy", IFF_TUN | IFF_NO_PI))
    subprocess.run(["ip", "addr", "add", address + "/24", "dev", "lossy"], check=True)
    subprocess.run(["ip", "link", "set", "lossy", "up"], check=True)
    return end


class Link:
    """Connects two namespaces; `far` begins a command in the other one. Counts lost packets."""

    def __init__(self, loss, seed):
        self.loss, self.chance = loss, random.Random(seed)
        self.passed = self.lost = 0
        here, there = socket.socketpair()
        # pylint: disable-next=consider-using-with
        self.other = subprocess.Popen(["unshare", "--net", sys.executable, "-B", __file__, str(there.fileno())],
                                      stdin=subprocess.PIPE, pass_fds=[there.fileno()])
        there.close()
        _, rights, _, _ = here.recvmsg(1, socket.CMSG_LEN(4))
        self.ends = [open_end(NEAR), array.array("i", rights[0][2])[0]]
        threading.Thread(target=self.forward, daemon=True).start()

    def forward(self):
        while True:
            for end in select.select(self.ends, [], [])[0]:
                packet = os.read(end, PACKET_MAX)
                if self.chance.random() < self.loss:
                    self.lost += 1
                    continue
                self.passed += 1
                try:
                    os.write(self.ends[1 - self.ends.index(end)], packet)
                except OSError:
                    pass  # the other end is being closed

    def far(self, words):
        return ["nsenter", f"--net=/proc/{self.other.pid}/ns/net", "--", *words]

    def stop(self):
        self.other.stdin.close()
        self.other.wait()


def main():
    there = socket.socket(fileno=int(sys.argv[1]))
    there.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [open_end(FAR)]))])
    sys.stdin.read()


if __name__ == "__main__":
    main()
