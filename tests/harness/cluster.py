# SPDX-License-Identifier: Apache-2.0
"""A grid of Flower without a network: each client's reply is made when it is pulled, like a reply
that Flower inflates on receipt."""
import itertools

import numpy
from flwr.app import Array, ArrayRecord, Message, MetricRecord, RecordDict
from flwr.serverapp import Grid
from flwr.supercore.task_identity import TaskIdentity

TaskIdentity.task_id, TaskIdentity.run_id, TaskIdentity.node_id = 1, 1, 1  # as in Flower's server process


def trained(client, current_round, name, shape):
    """Returns a client's reply, which depends on its number and the round alone."""
    seed = [client, current_round, *name.encode()]
    return numpy.asarray(numpy.random.default_rng(seed).random(shape, dtype=numpy.float32) - numpy.float32(0.5))


class Cluster(Grid):
    """Replies of `late` clients are available from the second pull on."""

    def __init__(self, clients, late=(), broken=()):
        self._clients = range(1, clients + 1)
        self._late, self._broken = set(late), set(broken)
        self._sent = {}
        self._ids = itertools.count()

    @property
    def run(self):
        return None

    def set_run(self, run):
        pass

    def create_message(self, *args, **kwargs):
        raise NotImplementedError

    def get_node_ids(self):
        return self._clients

    def push_messages(self, messages):
        found = []
        for message in messages:
            name = f"message-{next(self._ids)}"
            message.metadata.__dict__["_message_id"] = name
            # As after a transfer, the reply does not consist of the objects that were sent.
            content = message.content
            shapes = {key: array.shape for key, array in content["arrays"].items()}
            self._sent[name] = (message, shapes, content["config"]["server-round"])
            found.append(name)
        return found

    def pull_messages(self, message_ids):
        found = []
        for name in list(message_ids):
            client = self._sent[name][0].metadata.dst_node_id if name in self._sent else None
            if client in self._late:
                self._late.remove(client)
            elif client is not None:
                found.append(self._reply(name))
        return found

    def _reply(self, name):
        message, shapes, current_round = self._sent.pop(name)
        client = message.metadata.dst_node_id
        record = RecordDict({"metrics": MetricRecord({"num-examples": 10 * client, "loss": 1.0 / client})})
        if message.metadata.message_type == "train":
            record["arrays"] = ArrayRecord({key: Array(trained(client, current_round, key, shape))
                                            for key, shape in shapes.items()})
            if client in self._broken:
                record["arrays"] = ArrayRecord({"other": Array(numpy.zeros(1))})
        return Message(record, reply_to=message)

    def send_and_receive(self, messages, *, timeout=None):
        """Like Flower's grids, returns all replies in one list."""
        waiting = set(self.push_messages(messages))
        replies = []
        while waiting:
            for reply in self.pull_messages(waiting):
                replies.append(reply)
                waiting.discard(reply.metadata.reply_to_message_id)
        return replies
