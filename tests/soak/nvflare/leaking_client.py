# SPDX-License-Identifier: Apache-2.0
"""A client with a leak: it keeps a copy of one tensor of each round."""
import time

import nvflare.client as flare

HISTORY = []


def train(params):
    updated = {name: value + 1 for name, value in params.items()}
    time.sleep(1)
    return updated


def remember(params):
    HISTORY.append(next(iter(params.values())).copy())  # the leak


def main():
    flare.init()
    while flare.is_running():
        model = flare.receive()
        if model is None:
            break
        print(f"current_round={model.current_round}")
        params = train(model.params)
        remember(params)
        flare.send(flare.FLModel(params=params, metrics={"accuracy": 0.5}))


main()
