# SPDX-License-Identifier: Apache-2.0
"""job.py DIRECTORY ROUNDS GC_ROUNDS: runs the job in NVFlare's simulator, with its own memory
management every GC_ROUNDS rounds (0: none)."""
import os
import sys

import numpy as np

from nvflare.app_common.np.recipes import NumpyFedAvgRecipe
from nvflare.recipe import SimEnv

HERE = os.path.dirname(os.path.abspath(__file__))


def main():
    directory, rounds, gc_rounds = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    recipe = NumpyFedAvgRecipe(
        name="growing",
        model=np.zeros((500, 1000), dtype=np.float32),
        min_clients=2,
        num_rounds=rounds,
        train_script=os.path.join(HERE, "client.py"),
        client_memory_gc_rounds=gc_rounds,
    )
    print(recipe.execute(SimEnv(num_clients=2, num_threads=2, workspace_root=directory)))


if __name__ == "__main__":
    main()
