# SPDX-License-Identifier: Apache-2.0
"""job.py DIRECTORY: exports a job whose clients train in a separate process, to DIRECTORY/kit."""
import os
import sys

import numpy as np

from nvflare.app_common.np.recipes import NumpyFedAvgRecipe

HERE = os.path.dirname(os.path.abspath(__file__))


def main():
    os.chdir(HERE)  # 2.8 does not find a script that was named by an absolute path
    recipe = NumpyFedAvgRecipe(
        name="kit",
        model=np.zeros((100, 100), dtype=np.float32),
        min_clients=2,
        num_rounds=3,
        train_script="client.py",
        launch_external_process=True,
        client_memory_gc_rounds=2,
    )
    recipe.export(sys.argv[1])


main()
