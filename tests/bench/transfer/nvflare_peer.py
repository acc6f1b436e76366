# SPDX-License-Identifier: Apache-2.0
"""
nvflare_peer.py server|client pull|push URL MODEL REPORT: two cells of NVFlare's CellNet. Tensors are the payload of a
request or of its answer, as in a job: FOBS replaces them by references, and the receiver downloads what these name.
"""
import os
import sys
import threading

import peer
import torch
from nvflare.app_opt.pt.decomposers import TensorDecomposer
from nvflare.fuel.f3.cellnet.cell import Cell
from nvflare.fuel.f3.cellnet.defs import MessageHeaderKey, ReturnCode
from nvflare.fuel.f3.cellnet.utils import make_reply
from nvflare.fuel.f3.message import Message
from nvflare.fuel.utils import fobs

CHANNEL, TOPIC = "transfer", "model"
TIMEOUT_S = 600.0


def tensors(model):
    return {name: torch.from_numpy(array) for name, array in peer.read(model).items()}


def run_server(direction, url, model, path):
    state, times = tensors(model) if direction == "pull" else {}, {}

    def answer(request):
        if direction == "pull":
            return make_reply(ReturnCode.OK, body=state)
        times["ended"] = peer.now()
        state.update(request.payload)
        return make_reply(ReturnCode.OK, body={})

    cell = Cell(fqcn="server", root_url=url, secure=False, credentials={})
    cell.register_request_cb(channel=CHANNEL, topic=TOPIC, cb=answer)
    cell.start()
    peer.announce(url)
    peer.wait_for_end()
    peer.report(path, state, **times)
    os._exit(0)  # the threads of the cell would keep the process alive


def run_client(direction, url, model, path):
    state = {} if direction == "pull" else tensors(model)
    cell = Cell(fqcn="client", root_url=url, secure=False, credentials={})
    connected = threading.Event()
    cell.core_cell.set_cell_connected_cb(lambda _agent: connected.set())
    cell.start()
    connected.wait(TIMEOUT_S)
    began = peer.now()
    reply = cell.send_request(channel=CHANNEL, topic=TOPIC, target="server", request=Message(payload=state),
                              timeout=TIMEOUT_S)
    ended = peer.now()
    if reply.get_header(MessageHeaderKey.RETURN_CODE) != ReturnCode.OK:
        print(f"the request failed: {reply.headers}", file=sys.stderr, flush=True)
        os._exit(1)
    peer.report(path, state or reply.payload, began=began, ended=ended)
    os._exit(0)


def main():
    role, direction, url, model, path = sys.argv[1:6]
    fobs.register(TensorDecomposer)
    (run_server if role == "server" else run_client)(direction, url, model, path)


main()
