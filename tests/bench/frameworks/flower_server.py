# SPDX-License-Identifier: Apache-2.0
"""flower_server.py WAY MIB CLIENTS: rounds of FedAvg in one process, "own" by Flower's strategy, "flmem"
by flmem.flower.FedAvg, with the grid of the tests instead of a network."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, os.pardir))

import numpy  # noqa: E402
from flwr.app import Array, ArrayRecord  # noqa: E402
from flwr.serverapp.strategy import FedAvg  # noqa: E402
from harness.cluster import Cluster  # noqa: E402

TENSOR_MIB = 16


def main():
    way, (mib, clients) = sys.argv[1], map(int, sys.argv[2:4])
    if way == "flmem":
        import flmem.flower  # pylint: disable=import-outside-toplevel

        kind = flmem.flower.FedAvg
    else:
        kind = FedAvg
    start = ArrayRecord({f"layer-{number}": Array(numpy.zeros(TENSOR_MIB << 18, "f4"))
                         for number in range(max(mib // TENSOR_MIB, 1))})
    kind(min_train_nodes=clients, min_available_nodes=clients, fraction_evaluate=0.0).start(
        Cluster(clients), start, num_rounds=2)


main()
