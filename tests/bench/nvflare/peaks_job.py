# SPDX-License-Identifier: Apache-2.0
"""peaks_job.py DIRECTORY CLIENTS ROUNDS: FedAvg of peaks_model.py in the simulator, with the memory
settings that flmem plans for."""
import os
import sys

from peaks_model import Weights

from nvflare.app_opt.pt.recipes import FedAvgRecipe
from nvflare.recipe import SimEnv

HERE = os.path.dirname(os.path.abspath(__file__))


def main():
    directory, (clients, rounds) = sys.argv[1], map(int, sys.argv[2:4])
    recipe = FedAvgRecipe(
        name="peaks",
        model=Weights(),
        min_clients=clients,
        num_rounds=rounds,
        train_script=os.path.join(HERE, "peaks_client.py"),
        server_memory_gc_rounds=1,
        client_memory_gc_rounds=1,
    )
    recipe.execute(SimEnv(num_clients=clients, num_threads=clients, workspace_root=directory))


if __name__ == "__main__":
    main()
