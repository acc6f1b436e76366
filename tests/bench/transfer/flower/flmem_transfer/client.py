# SPDX-License-Identifier: Apache-2.0
"""The ClientApp: reports the model that it received, or answers with one, and reports then when its
process ends."""
import atexit
import os
import sys

from flwr.app import Array, ArrayRecord, Message, RecordDict
from flwr.clientapp import ClientApp

sys.path.insert(0, os.environ["FLMEM_TRANSFER_PEER"])

import peer  # noqa: E402

app = ClientApp()
REPORT = os.environ["FLMEM_TRANSFER_REPORT"] + ".client"


@app.train()
def train(message, _context):
    if "model" in message.content:
        state = {name: array.numpy() for name, array in message.content["model"].items()}
        peer.report(REPORT, state, ended=peer.now())
        return Message(RecordDict(), reply_to=message)
    state = peer.read(os.environ["FLMEM_TRANSFER_MODEL"])
    digest = peer.digest(state)
    began = peer.now()
    atexit.register(lambda: peer.report(REPORT, state, began=began, digest=digest))
    content = RecordDict({"model": ArrayRecord({name: Array(array) for name, array in state.items()})})
    return Message(content, reply_to=message)
