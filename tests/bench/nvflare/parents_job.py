# SPDX-License-Identifier: Apache-2.0
"""
parents_job.py DIRECTORY MIB: exports a job to DIRECTORY/parents whose clients make the model so many
MiB larger in the first round, as an exported job holds a model in NumPy as text.
"""
import os
import sys

import numpy as np

from nvflare.app_common.np.recipes import NumpyFedAvgRecipe

HERE = os.path.dirname(os.path.abspath(__file__))


def main():
    os.chdir(HERE)
    recipe = NumpyFedAvgRecipe(
        name="parents",
        model=np.zeros((100, 100), dtype=np.float32),
        min_clients=2,
        num_rounds=3,
        train_script="parents_client.py",
        train_args=sys.argv[2],
        client_memory_gc_rounds=1,
    )
    recipe.export(sys.argv[1])


main()
