# SPDX-License-Identifier: Apache-2.0
"""A PyTorch process that uses memory as a federated-learning server does.

Each round its worker threads receive the updates of all clients (many tensors each), keep a little
about every update, average them into the model and drop them. Then it waits for the next round,
which begins when a line arrives on standard input. It knows nothing of flmem.
"""
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import torch

CLIENTS = 8
WORKERS = 6
LAYERS = 1000
# Elements of float32 per tensor, as in a transformer: mostly small ones, some of 256 KiB.
SHAPES = [64, 512, 768, 3072, 16384, 65536]


class Server:
    def __init__(self):
        self.model = [torch.zeros(SHAPES[i % len(SHAPES)]) for i in range(LAYERS)]
        self.history = []
        self.lock = threading.Lock()
        self.round = 0

    def receive(self, client):
        """One client's update as it comes off the wire: tensor by tensor, with its statistics."""
        update, norms = [], []
        for parameter in self.model:
            update.append(parameter + (client + 1) / CLIENTS)
            norms.append(torch.linalg.vector_norm(update[-1]).reshape(1).repeat(16))
        with self.lock:
            self.history.append(norms)
        return update

    def run_round(self, pool):
        updates = list(pool.map(self.receive, range(CLIENTS)))
        self.model = [torch.stack(layers).mean(dim=0) for layers in zip(*updates)]
        self.round += 1

    def mean(self):
        return sum(float(p.mean()) for p in self.model) / LAYERS


def rss_mib():
    with open("/proc/self/status", encoding="ascii") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS")) // 1024


def main():
    torch.set_num_threads(2)
    server = Server()
    with ThreadPoolExecutor(WORKERS, "receiver") as pool:
        for _ in range(3):
            server.run_round(pool)
        while True:
            print(f"ready: round {server.round} averaged, mean weight {server.mean():.4f}, "
                  f"RSS {rss_mib()} MiB; waiting for round {server.round + 1}", flush=True)
            if not sys.stdin.readline():
                return
            began = time.monotonic()
            server.run_round(pool)
            print(f"round took {time.monotonic() - began:.1f} s", flush=True)


main()
