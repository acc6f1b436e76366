# SPDX-License-Identifier: Apache-2.0
"""
dropin_job.py DIRECTORY ROUNDS: exports a job to DIRECTORY/dropin whose server has flmem's installer
as a component, and cleans up on both sides after every round.
"""
import json
import os
import sys

import numpy as np

from nvflare.app_common.np.recipes import NumpyFedAvgRecipe

HERE = os.path.dirname(os.path.abspath(__file__))


def main():
    os.chdir(HERE)
    recipe = NumpyFedAvgRecipe(name="dropin", model=np.zeros((10, 10), dtype=np.float32),
                               min_clients=2, num_rounds=int(sys.argv[2]),
                               train_script="dropin_client.py", client_memory_gc_rounds=1)
    recipe.export(sys.argv[1])
    path = os.path.join(sys.argv[1], "dropin", "app", "config", "config_fed_server.json")
    with open(path, encoding="utf-8") as file:
        config = json.load(file)
    config["workflows"][0]["args"]["memory_gc_rounds"] = 1
    config.setdefault("components", []).append({"id": "flmem", "path": "flmem.Installer", "args": {}})
    with open(path, "w", encoding="utf-8") as file:
        json.dump(config, file)


main()
