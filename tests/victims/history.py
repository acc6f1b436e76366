# SPDX-License-Identifier: Apache-2.0
"""A Python process that keeps a history of rounds, some of it only in cycles; its threads wait.

The guide to trim shows it: `history` belongs to the job, the cycles are left to the collector."""
import gc
import sys
import threading
import time

gc.disable()
history = [bytearray(60000) for _ in range(1000)]


class Node:
    def __init__(self):
        self.me = self
        self.data = bytearray(15000)


for _ in range(3000):
    Node()
end = threading.Event()
for _ in range(4):
    threading.Thread(target=end.wait, daemon=True).start()
print("ready", flush=True)
while sys.stdin.readline():
    time.sleep(0)
