# SPDX-License-Identifier: Apache-2.0
"""
original.py MODEL CLIENTS ROUNDS FILE: the server of the experiments' other side, which transfers and combines
whole models. It re-implements the way of APPFL 1.12 (its gRPC communicator, VanillaTrainer and FedAvgAggregator)
and is not APPFL itself: torch.save() into memory, messages of 10 MiB, a receiver that keeps all messages and
joins them, torch.load() of the whole, one state dict per client until the round ends, sums in the type of the
tensors. The messages go over TCP in place of gRPC, which would hold more.

The first model is read from FILE (torch.save()), or is made here from its shapes if FILE is "-".
"""
import copy
import io
import socket
import struct
import sys
import threading
import time

import models

MESSAGE_BYTES = 10 << 20
PULL, PUSH, WAIT = range(3)


def _receive(connection, count):
    data = bytearray()
    while len(data) < count:
        part = connection.recv(min(count - len(data), 1 << 20))
        if not part:
            raise EOFError
        data += part
    return bytes(data)


def send_whole(connection, state):
    """Serialises a state dict into messages."""
    import torch  # pylint: disable=import-outside-toplevel

    buffer = io.BytesIO()
    torch.save(state, buffer)
    whole = buffer.getvalue()
    connection.sendall(struct.pack("<Q", len(whole)))
    for begin in range(0, len(whole), MESSAGE_BYTES):
        message = whole[begin:begin + MESSAGE_BYTES]
        connection.sendall(struct.pack("<I", len(message)))
        connection.sendall(message)


def receive_whole(connection):
    """Collects all messages, joins them and reads the result."""
    import torch  # pylint: disable=import-outside-toplevel

    left, messages = struct.unpack("<Q", _receive(connection, 8))[0], []
    while left:
        messages.append(_receive(connection, struct.unpack("<I", _receive(connection, 4))[0]))
        left -= len(messages[-1])
    return torch.load(io.BytesIO(b"".join(messages)))


class Client:
    """The client's side."""

    def __init__(self, address, number):
        host, port = address.rsplit(":", 1)
        self._connection = socket.create_connection((host, int(port)))
        self._number = number

    def _ask(self, what, number, weight=0):
        self._connection.sendall(struct.pack("<BIId", what, self._number, number, weight))

    def pull(self, number):
        self._ask(PULL, number)
        return receive_whole(self._connection)

    def push(self, number, state, weight):
        self._ask(PUSH, number, weight)
        send_whole(self._connection, copy.deepcopy(state))
        _receive(self._connection, 1)

    def wait(self, number):
        self._ask(WAIT, number)
        _receive(self._connection, 1)

    def close(self):
        self._connection.close()


class Server:  # pylint: disable=too-few-public-methods
    """Runs all rounds of the server."""

    def __init__(self, state, clients, rounds):
        self.state, self.clients, self.rounds = state, clients, rounds
        self.round, self.updates = 0, {}
        self.changed = threading.Condition()

    def _combine(self):
        """FedAvg over the state dicts of all clients."""
        total = sum(weight for _, weight in self.updates.values())
        combined = {name: value.clone().zero_() for name, value in self.state.items()}
        for _, (state, weight) in sorted(self.updates.items()):
            for name, value in state.items():
                if value.is_floating_point():
                    combined[name] += value * (weight / total)
                else:
                    combined[name] = value
        self.state, self.updates = combined, {}
        self.round += 1
        self.changed.notify_all()

    def serve(self, connection):
        """Serves one client."""
        while True:
            try:
                what, client, number, weight = struct.unpack("<BIId", _receive(connection, 17))
            except EOFError:
                return
            if what == PULL:
                send_whole(connection, self.state)
            elif what == PUSH:
                update = receive_whole(connection)
                with self.changed:
                    self.updates[client] = (update, weight)
                    del update
                    if len(self.updates) == self.clients:
                        self._combine()
                connection.sendall(b"+")
            else:
                with self.changed:
                    self.changed.wait_for(lambda number=number: self.round >= number)
                connection.sendall(b"+")


def first_state(name, path):
    """Returns the model from which all start."""
    import torch  # pylint: disable=import-outside-toplevel

    if name in models.SMALL:
        return models.make(torch, name).state_dict()
    return {tensor: torch.full(shape, 0.01, dtype=torch.bfloat16)
            for tensor, shape in models.llama_tensors(name, int(path))}


def main():
    name, clients, rounds, path = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
    server = Server(first_state(name, path), clients, rounds)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        print(f"listening at 127.0.0.1:{listener.getsockname()[1]}", file=sys.stderr, flush=True)
        threads = [threading.Thread(target=server.serve, args=(listener.accept()[0],)) for _ in range(clients)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    time.sleep(0)
    if name in models.SMALL:
        import torch  # pylint: disable=import-outside-toplevel

        torch.save(server.state, path)


if __name__ == "__main__":
    main()
