# SPDX-License-Identifier: Apache-2.0
"""
leaking_job.py DIRECTORY ROUNDS: exports a job whose clients keep one tensor of each round, to
DIRECTORY/leaking.
"""
import os
import sys

import numpy as np

from nvflare.app_common.np.recipes import NumpyFedAvgRecipe

HERE = os.path.dirname(os.path.abspath(__file__))


def main():
    os.chdir(HERE)  # 2.8 does not find a script that was named by an absolute path
    recipe = NumpyFedAvgRecipe(name="leaking", model=np.zeros((512, 512), dtype=np.float32),
                               min_clients=2, num_rounds=int(sys.argv[2]),
                               train_script="leaking_client.py")
    recipe.export(sys.argv[1])


main()
