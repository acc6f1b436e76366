# SPDX-License-Identifier: Apache-2.0
"""parents_client.py MIB: returns the model with so many MiB more, in pieces of 16 MiB."""
import sys

import numpy as np

import nvflare.client as flare

PIECE_MIB = 16


def main():
    pieces = int(sys.argv[1]) // PIECE_MIB
    flare.init()
    while flare.is_running():
        model = flare.receive()
        if model is None:
            break
        params = dict(model.params)
        for i in range(pieces):
            params[f"layer{i}"] = np.ones((2048, 2048), dtype=np.float32)
        flare.send(flare.FLModel(params=params, metrics={"accuracy": 0.5}), clear_cache=True)


main()
