# SPDX-License-Identifier: Apache-2.0
"""
The ServerApp: one message to the only node, with the model ("pull") or without ("push"), by Grid.send_and_receive().
The environment has FLMEM_TRANSFER_DIRECTION, _MODEL, _REPORT and _PEER, the folder of peer.py.
"""
import os
import sys
import time

from flwr.app import Array, ArrayRecord, Message, RecordDict
from flwr.serverapp import ServerApp

sys.path.insert(0, os.environ["FLMEM_TRANSFER_PEER"])

import peer  # noqa: E402

app = ServerApp()


def send_and_receive(grid, content, node):
    reply, = grid.send_and_receive([Message(content, dst_node_id=node, message_type="train")])
    if reply.has_error():
        raise SystemExit(f"the client failed: {reply.error}")
    return reply.content


@app.main()
def main(grid, _context):
    pull = os.environ["FLMEM_TRANSFER_DIRECTION"] == "pull"
    state = peer.read(os.environ["FLMEM_TRANSFER_MODEL"]) if pull else {}
    while not (nodes := list(grid.get_node_ids())):
        time.sleep(0.2)
    began = peer.now()
    content = RecordDict({"model": ArrayRecord({name: Array(array) for name, array in state.items()})} if pull else {})
    received = send_and_receive(grid, content, nodes[0])
    if not pull:
        state = {name: array.numpy() for name, array in received["model"].items()}
    times = {"began": began} if pull else {"ended": peer.now()}
    peer.report(os.environ["FLMEM_TRANSFER_REPORT"] + ".server", state, **times)
