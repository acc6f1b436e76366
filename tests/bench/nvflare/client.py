# SPDX-License-Identifier: Apache-2.0
"""
A client of a federated job whose memory grows, as an NVFlare user writes one; it knows nothing of
flmem. Each round's batches are a little larger than those of the round before, so that they do not
fit where the old ones lay, and a few small results are kept: what is free between those stays with
the allocator. The kept results themselves are a true, small growth. Cycles keep some of each round's
memory from going until the garbage collector comes by.
"""
import sys
import time

import numpy as np

import nvflare.client as flare

BATCHES = 6000
KEPT_EVERY = 40  # one of so many batches leaves a result
CYCLES = 40


class Step:
    """One step of training with its history: a cycle, as frameworks make them."""

    def __init__(self, size):
        self.buffer = np.ones(size, dtype=np.uint8)
        self.history = [self]


def train(weights, number, results):
    """Takes about 100 MB for the length of a round."""
    # bytes; below the size from which malloc maps each block separately
    size = 12000 + 900 * number
    batches = []
    for i in range(BATCHES):
        batches.append(np.full(size, i & 0xff, dtype=np.uint8))
        if i % KEPT_EVERY == 0:
            results.append(np.array([batches[-1].mean()]))
            results.append(bytes(2000))
    steps = [Step(100000) for _ in range(CYCLES)]
    time.sleep(1.5)
    return {name: value + len(steps) / 1000 for name, value in weights.items()}


def main():
    results = []
    flare.init()
    while flare.is_running():
        model = flare.receive()
        if model is None:
            break
        weights = train(model.params, model.current_round, results)
        flare.send(flare.FLModel(params=weights, metrics={"kept": len(results)}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
