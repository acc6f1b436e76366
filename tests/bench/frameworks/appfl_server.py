# SPDX-License-Identifier: Apache-2.0
"""appfl_server.py WAY MIB CLIENTS: rounds of FedAvg in one process, "own" by APPFL's scheduler and
aggregator, "flmem" by those of flmem.appfl. Each update is one that torch.load() has read, as in APPFL's
server; its gRPC server keeps the bytes as well until the round ends, which is not part of this."""
import io
import sys

import torch
from appfl.algorithm.aggregator import FedAvgAggregator
from appfl.algorithm.scheduler import SyncScheduler
from omegaconf import OmegaConf

TENSOR_MIB = 16


def received(tensors, client):
    """Returns the update that a client sends."""
    generator = torch.Generator().manual_seed(client)
    file = io.BytesIO()
    torch.save({f"{number}": torch.rand(TENSOR_MIB << 18, generator=generator) for number in range(tensors)}, file)
    file.seek(0)
    return torch.load(file)


def main():
    way, (mib, clients) = sys.argv[1], map(int, sys.argv[2:4])
    aggregator, scheduler = FedAvgAggregator, SyncScheduler
    if way == "flmem":
        import flmem.appfl  # pylint: disable=import-outside-toplevel

        aggregator, scheduler = flmem.appfl.Aggregator, flmem.appfl.Scheduler
    tensors = max(mib // TENSOR_MIB, 1)
    model = torch.nn.ParameterList(torch.nn.Parameter(torch.ones(TENSOR_MIB << 18)) for _ in range(tensors))
    server = scheduler(OmegaConf.create({"num_clients": clients}),
                       aggregator(model=model, aggregator_configs=OmegaConf.create({}), logger=None), None)
    for _ in range(2):
        futures = [server.schedule(f"Client{number}", received(tensors, number)) for number in range(clients)]
        assert all(len(one.result()) == tensors for one in futures)


main()
