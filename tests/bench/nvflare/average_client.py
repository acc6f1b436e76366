# SPDX-License-Identifier: Apache-2.0
"""A client whose "training" depends only on its name and the round, so that jobs can be
compared."""
import zlib

import torch

import nvflare.client as flare


def trained(site, current_round, name, tensor):
    """Changes a tensor in place by numbers from -1 to 1."""
    seed = zlib.crc32(f"{site} {current_round} {name}".encode())
    return tensor.uniform_(-1, 1, generator=torch.Generator().manual_seed(seed))


def main():
    flare.init()
    site = flare.get_site_name()
    steps = 10 * int(site.rpartition("-")[2])
    while flare.is_running():
        model = flare.receive()
        if model is None:
            break
        params = {name: trained(site, model.current_round, name, tensor)
                  for name, tensor in model.params.items()}
        flare.send(flare.FLModel(params=params, metrics={"accuracy": steps / 100},
                                 meta={"NUM_STEPS_CURRENT_ROUND": steps}))


if __name__ == "__main__":
    main()
