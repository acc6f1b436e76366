# SPDX-License-Identifier: Apache-2.0
"""A client as in NVFlare's examples for PyTorch, without the training: its network loads the
received model, and sends the values that it then holds."""
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
