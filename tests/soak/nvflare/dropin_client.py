# SPDX-License-Identifier: Apache-2.0
"""A client that installs flmem's clean-up, and leaves garbage to it in each round."""
import flmem

import nvflare.client as flare


def main():
    print("installed:", flmem.install())
    flare.init()
    while flare.is_running():
        model = flare.receive()
        if model is None:
            break
        for _ in range(1000):
            ring = []
            ring.append(ring)
        params = {name: value + 1 for name, value in model.params.items()}
        flare.send(flare.FLModel(params=params, metrics={"accuracy": 0.5}))


main()
