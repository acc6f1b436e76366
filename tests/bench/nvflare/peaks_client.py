# SPDX-License-Identifier: Apache-2.0
"""A client as NVFlare's examples for PyTorch have it, without the training: a network of its own takes
what was received, and what it then holds is sent."""
from peaks_model import Weights

import nvflare.client as flare


def main():
    network = Weights()
    flare.init()
    while flare.is_running():
        model = flare.receive()
        if model is None:
            break
        network.load_state_dict(model.params)
        flare.send(flare.FLModel(params=network.state_dict(), metrics={"accuracy": 0.5}))


if __name__ == "__main__":
    main()
