# SPDX-License-Identifier: Apache-2.0
"""flmem_peer.py pull|push URL MODEL REPORT: runs the client in Python, between the server and
tensors of PyTorch in memory."""
import sys

import torch
from flmem import exchange

import peer


def main():
    direction, url, model, path = sys.argv[1:5]
    with exchange.Client(url, client="a") as client:
        if direction == "pull":
            began = peer.now()
            state = client.pull(framework="torch")
        else:
            state = {name: torch.from_numpy(array) for name, array in peer.read(model).items()}
            began = peer.now()
            client.push(state)
        peer.report(path, state, began=began, ended=peer.now())


main()
