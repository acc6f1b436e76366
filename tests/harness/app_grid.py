# SPDX-License-Identifier: Apache-2.0
"""A grid of Flower without a network whose nodes run a ClientApp; all nodes with a message run at
the same time."""
from concurrent.futures import ThreadPoolExecutor

from flwr.app import Context, RecordDict

from harness.cluster import Cluster


class AppGrid(Cluster):
    """`losses` has each node's report, `array_records` the number of models in messages."""

    def __init__(self, app, clients, run_config):
        super().__init__(clients)
        self._app = app
        self._contexts = {node: Context(run_id=1, node_id=node, node_config={"partition-id": node}, state=RecordDict(),
                                        run_config=run_config) for node in self._clients}
        self.losses = {node: [] for node in self._clients}
        self.array_records = 0

    def push_messages(self, messages):
        found = []
        for message in messages:
            name = f"message-{next(self._ids)}"
            message.metadata.__dict__["_message_id"] = name
            self._sent[name] = message
            self.array_records += len(message.content.array_records)
            found.append(name)
        return found

    def _work(self, name):
        message = self._sent.pop(name)
        node = message.metadata.dst_node_id
        reply = self._app(message, self._contexts[node])
        self.losses[node].append(reply.content["metrics"]["loss"])
        self.array_records += len(reply.content.array_records)
        return reply

    def pull_messages(self, message_ids):
        with ThreadPoolExecutor(len(message_ids)) as pool:
            return list(pool.map(self._work, sorted(message_ids)))
