# SPDX-License-Identifier: Apache-2.0
"""
appfl_grpc.py MODEL CLIENTS ROUNDS FILE: APPFL 1.12 itself as the server of an experiment: its agent, scheduler,
aggregator and gRPC communicator, with their defaults but for the messages (10 MiB). FILE is the last model.
"""
import socket
import sys

import models

MESSAGE_BYTES = 10 << 20
CLIENT = {"train_configs": {}, "model_configs": {}}


class Client:
    """The client's side: the real communicator; it returns the new model as the answer to an
    update."""

    def __init__(self, address, number):
        from appfl.comm.grpc import GRPCClientCommunicator  # pylint: disable=import-outside-toplevel

        self._communicator = GRPCClientCommunicator(f"client-{number}", server_uri=address,
                                                    max_message_size=MESSAGE_BYTES)
        self._communicator.get_configuration()

    @staticmethod
    def _model(answer):
        return answer[0] if isinstance(answer, tuple) else answer

    def set_weight(self, weight):
        self._communicator.invoke_custom_action(action="set_sample_size", sample_size=weight)

    def pull(self):
        return self._model(self._communicator.get_global_model())

    def push(self, state):
        return self._model(self._communicator.update_global_model(state))

    def close(self):
        self._communicator.invoke_custom_action(action="close_connection")


def make_agent(name, clients, rounds):
    """Makes APPFL's server agent with the model of the experiment."""
    import torch  # pylint: disable=import-outside-toplevel
    from appfl.agent import ServerAgent  # pylint: disable=import-outside-toplevel
    from appfl.config import ServerAgentConfig  # pylint: disable=import-outside-toplevel
    from omegaconf import OmegaConf  # pylint: disable=import-outside-toplevel

    class Agent(ServerAgent):
        """Replaces the method that would read the model from a source file."""

        def _load_model(self):
            self.model = models.make(torch, name)

    server = {"num_clients": clients, "num_global_epochs": rounds, "scheduler": "SyncScheduler", "scheduler_kwargs": {},
              "aggregator": "FedAvgAggregator", "aggregator_kwargs": {"client_weights_mode": "sample_size"},
              "logging_output_dirname": "output", "logging_output_filename": "result"}
    return Agent(ServerAgentConfig(client_configs=OmegaConf.create(CLIENT), server_configs=OmegaConf.create(server)))


def main():
    import torch  # pylint: disable=import-outside-toplevel
    from appfl.comm.grpc import GRPCServerCommunicator, serve  # pylint: disable=import-outside-toplevel

    name, clients, rounds, path = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
    agent = make_agent(name, clients, rounds)
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    communicator = GRPCServerCommunicator(agent, max_message_size=MESSAGE_BYTES)
    print(f"listening at {address}", file=sys.stderr, flush=True)  # clients wait until the channel is ready
    serve(communicator, server_uri=address, max_message_size=MESSAGE_BYTES)
    torch.save(agent.get_parameters(blocking=True, init_model=False), path)


if __name__ == "__main__":
    main()
