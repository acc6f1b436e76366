# SPDX-License-Identifier: Apache-2.0
"""
A program that is attached to: eight threads allocate and compare checksums, and one keeps a
bytearray of 4 MiB per round. Lines on standard input are orders: "round", "fork", "import NAME",
"open PATH" (which calls its function), "check"; each is answered by a line.
"""
import ctypes
import os
import sys
import threading
import time
import zlib

LEAK = 4 << 20
kept = []
faults = []
counts = [0] * 8


def work(number):
    while True:
        block = os.urandom(32) * (200 * (number + 1))
        before = zlib.crc32(block)
        copies = [bytearray(block) for _ in range(8)]
        if zlib.crc32(block) != before or any(zlib.crc32(copy) != before for copy in copies):
            faults.append(number)
        counts[number] += 1
        time.sleep(0.001)


def keep_update():
    kept.append(bytearray(LEAK))


def fork():
    child = os.fork()
    if child == 0:
        keep_update()
        time.sleep(1000)
        os._exit(0)
    return child


def obey(order):
    word, _, rest = order.partition(" ")
    if word == "round":
        keep_update()
    elif word == "fork":
        return fork()
    elif word == "import":
        __import__(rest)
    elif word == "open":
        return ctypes.CDLL(rest).open_neighbour()
    elif word == "check":
        before = list(counts)
        while any(now <= then for now, then in zip(counts, before)):
            time.sleep(0.01)
        return "faults" if faults else "sound"
    return word


def main():
    for number in range(8):
        threading.Thread(target=work, args=(number,), daemon=True).start()
    print("ready", flush=True)
    for line in sys.stdin:
        print(obey(line.strip()), flush=True)


main()
