# SPDX-License-Identifier: Apache-2.0
"""average_job.py DIRECTORY CLIENTS ROUNDS WAY: FedAvg of peaks_model.py in the simulator, one client at
a time. WAY is "memory" or "offload", NVFlare's own, or "flmem", the average from the offloaded files."""
import os
import sys

from peaks_model import Weights

from nvflare.app_opt.pt.recipes import FedAvgRecipe
from nvflare.client.config import ExchangeFormat
from nvflare.recipe import SimEnv

HERE = os.path.dirname(os.path.abspath(__file__))


def more(way):
    if way == "memory":
        return {}
    if way == "offload":
        return {"enable_tensor_disk_offload": True}
    import flmem.nvflare  # pylint: disable=import-outside-toplevel

    return {"enable_tensor_disk_offload": True, "aggregator": flmem.nvflare.Aggregator()}


def main():
    directory, (clients, rounds), way = sys.argv[1], map(int, sys.argv[2:4]), sys.argv[4]
    recipe = FedAvgRecipe(
        name="average",
        model=Weights(),
        min_clients=clients,
        num_rounds=rounds,
        train_script=os.path.join(HERE, "average_client.py"),
        server_expected_format=ExchangeFormat.PYTORCH,
        server_memory_gc_rounds=1,
        **more(way),
    )
    recipe.execute(SimEnv(num_clients=clients, num_threads=1, workspace_root=directory))


if __name__ == "__main__":
    main()
