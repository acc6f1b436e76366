# SPDX-License-Identifier: Apache-2.0
"""
appfl_peer.py server|client pull|push CHUNK ADDRESS MODEL REPORT: APPFL's gRPC communicators, and its agent, scheduler
and aggregator behind that of the server. CHUNK is model_chunk_size with use_model_chunking, 0 for none of it; messages
have the default size, 2 MiB. Updates are not aggregated: the server has received one when its tensors are in memory.
"""
import os
import sys
import threading

import peer
import torch
from appfl.agent import ServerAgent
from appfl.comm.grpc import GRPCClientCommunicator, GRPCServerCommunicator, serve
from appfl.config import ServerAgentConfig
from omegaconf import OmegaConf

SERVER = {"num_clients": 1, "num_global_epochs": 1, "scheduler": "SyncScheduler", "scheduler_kwargs": {},
          "aggregator": "FedAvgAggregator", "aggregator_kwargs": {}, "logging_output_dirname": "output",
          "logging_output_filename": "result"}
CLIENT = {"train_configs": {}, "model_configs": {}}


class Model(torch.nn.Module):
    """A module with any tensors, by their names."""

    def __init__(self, state):
        super().__init__()
        self.state = {name: torch.from_numpy(array) for name, array in state.items()}

    def state_dict(self, *_args, **_more):
        return dict(self.state)


class Agent(ServerAgent):
    """Publishes the model; keeps the updates of clients and answers them with nothing."""

    def __init__(self, state):
        self._state = state
        self.received, self.times = {}, {}
        super().__init__(ServerAgentConfig(client_configs=OmegaConf.create(CLIENT),
                                           server_configs=OmegaConf.create(SERVER)))

    def _load_model(self):
        self.model = Model(self._state)

    def global_update(self, client_id, local_model, blocking=False, **kwargs):
        self.received.update(self._bytes_to_model(local_model))
        self.times["ended"] = peer.now()
        return {}, {}


def run_server(direction, chunking, address, model, path):
    agent = Agent(peer.read(model) if direction == "pull" else {"none": peer.numpy.zeros(1, "f4")})
    communicator = GRPCServerCommunicator(agent, **chunking)
    threading.Thread(target=serve, args=(communicator,), kwargs={"server_uri": address}, daemon=True).start()
    peer.announce(address)
    peer.wait_for_end()
    peer.report(path, agent.model.state_dict() if direction == "pull" else agent.received, **agent.times)
    os._exit(0)  # its own end takes ten seconds


def run_client(direction, chunking, address, model, path):
    state = {} if direction == "pull" else {name: torch.from_numpy(array) for name, array in peer.read(model).items()}
    communicator = GRPCClientCommunicator("a", server_uri=address, **chunking)
    communicator.get_configuration()
    began = peer.now()
    if direction == "pull":
        answer = communicator.get_global_model()
        state = answer[0] if isinstance(answer, tuple) else answer
    else:
        communicator.update_global_model(state)
    peer.report(path, state, began=began, ended=peer.now())


def main():
    role, direction, chunk, address, model, path = sys.argv[1:7]
    chunking = {"use_model_chunking": True, "model_chunk_size": int(chunk)} if int(chunk) else {}
    (run_server if role == "server" else run_client)(direction, chunking, address, model, path)


main()
