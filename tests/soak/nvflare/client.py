# SPDX-License-Identifier: Apache-2.0
"""The training of a client: adds one to the model, slowly enough to be observed."""
import time

import nvflare.client as flare


def main():
    flare.init()
    while flare.is_running():
        model = flare.receive()
        if model is None:
            break
        time.sleep(2)
        params = {name: value + 1 for name, value in model.params.items()}
        flare.send(flare.FLModel(params=params, metrics={"accuracy": 0.5}), clear_cache=True)


main()
