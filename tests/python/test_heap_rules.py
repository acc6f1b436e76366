# SPDX-License-Identifier: Apache-2.0
"""
test_heap_rules.py FLMEM FRAMEWORK: the code of a framework itself, sampled by flmem profile, and what flmem
recommend finds in the profile. Rules name functions and files: a release that renames one fails here.
"""
# Each program imports what it samples, and nothing else.
# pylint: disable=import-outside-toplevel,import-error,unused-import

import io
import itertools
import json
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
SERVERS = os.path.join(HERE, os.pardir, "bench", "frameworks")
MIB = 1 << 20
UPLOAD_MIB = 128


def appfl_whole():
    """Aggregates models of clients by APPFL's own scheduler and aggregator."""
    sys.argv[1:] = ["own", "32", "3"]
    sys.path.insert(0, SERVERS)
    import appfl_server  # noqa: F401  pylint: disable=import-outside-toplevel,import-error,unused-import


def appfl_chunks():
    """Aggregates in chunks, as APPFL's gRPC server passes them on: nothing to recommend."""
    import torch
    from appfl.algorithm.aggregator import FedAvgAggregator
    from omegaconf import OmegaConf

    tensors = {str(number): torch.ones(MIB) for number in range(8)}
    aggregator = FedAvgAggregator(model=torch.nn.ParameterDict(tensors), aggregator_configs=OmegaConf.create({}))
    for number in range(8):
        aggregator.aggregate({client: {str(number): torch.rand(MIB)} for client in "abc"},
                             **{key: dict.fromkeys("abc", value) for key, value in (
                                 ("_chunk_idx", number), ("_total_chunks", 8), ("_chunk_keys", [str(number)]))})


def appfl_upload(**settings):
    """Receives an upload by APPFL's own gRPC server, without a network."""
    from appfl.comm.grpc import grpc_communicator_pb2 as pb2
    from appfl.comm.grpc.grpc_server_communicator import GRPCServerCommunicator

    class Agent:
        """A server agent that takes any model."""
        server_agent_config = None

        def get_num_clients(self):
            """Returns one client."""
            return 1

        def global_update(self, *_args, **_others):
            """Ends the upload: the answer has no model."""
            raise RuntimeError("received")

    GRPCServerCommunicator._load_proxystore = lambda *_: None
    GRPCServerCommunicator._load_google_drive = lambda *_: None
    server = GRPCServerCommunicator(Agent(), **settings)
    head = pb2.UpdateGlobalModelRequest(header=pb2.ClientHeader(client_id="Client1")).SerializeToString()
    if not settings.get("optimize_memory", True):
        # The model is a field of the message, preceded by its size as a varint.
        number = pb2.UpdateGlobalModelRequest.DESCRIPTOR.fields_by_name["local_model"].number
        size = [UPLOAD_MIB * MIB >> shift & 127 for shift in (0, 7, 14, 21)]
        head += bytes([number << 3 | 2, *(part | 128 for part in size[:-1]), size[-1]])
    parts = itertools.chain([head], itertools.repeat(os.urandom(MIB), UPLOAD_MIB))
    try:
        list(server.UpdateGlobalModel((pb2.DataBuffer(data_bytes=part) for part in parts), None))
    except Exception as problem:  # pylint: disable=broad-except
        print("the server:", problem)


def appfl_joined():
    """Uploads with optimize_memory off."""
    appfl_upload(optimize_memory=False)


def appfl_streamed():
    """Uploads with the default settings."""
    appfl_upload()


def flower_collect():
    """Averages replies of clients by Flower's own strategy."""
    sys.argv[1:] = ["own", "32", "3"]
    sys.path.insert(0, SERVERS)
    import flower_server  # noqa: F401  pylint: disable=import-outside-toplevel,import-error,unused-import


def flower_numpy():
    """Makes a record of a client's arrays."""
    import numpy
    from flwr.app import ArrayRecord

    kept = ArrayRecord([numpy.ones(MIB) for _ in range(4)])
    assert len(kept) == 4


def flower_torch():
    """Makes a record of a client's model."""
    import torch
    from flwr.app import ArrayRecord

    kept = ArrayRecord({str(number): torch.ones(MIB) for number in range(4)})
    assert len(kept) == 4


def _items():
    import torch
    from safetensors.torch import save

    return [save({str(number): torch.ones(4 * MIB)}) for number in range(4)]


def nvflare_received():
    """Receives tensors into memory, as NVFlare's server does."""
    from nvflare.app_opt.pt.tensor_downloader import TensorConsumer

    result = {}
    for item in _items():
        result = TensorConsumer(None, {}).consume_items([item], result)
    assert len(result) == 4


def nvflare_offloaded():
    """Receives tensors with enable_tensor_disk_offload: nothing to recommend."""
    from nvflare.app_opt.pt.tensor_downloader import DiskTensorConsumer

    with tempfile.TemporaryDirectory() as folder:
        assert len(DiskTensorConsumer(folder).consume_items(_items(), None)) == 4


def nvflare_diff():
    """Computes the difference that a client of transfer type DIFF sends."""
    import numpy
    from nvflare.client.config import ExchangeFormat
    from nvflare.client.utils import DIFF_FUNCS

    models = [{str(number): numpy.ones(MIB) for number in range(4)} for _ in range(2)]
    assert len(DIFF_FUNCS[ExchangeFormat.NUMPY](*models)) == 4


def nvflare_streams():
    """Sends streams."""
    from unittest import mock

    from nvflare.fuel.f3.streaming.byte_streamer import STREAM_CHUNK_SIZE, TxTask

    tasks = [TxTask(mock.Mock(), STREAM_CHUNK_SIZE, "channel", "topic", "target", {},
                    mock.Mock(**{"get_size.return_value": 10}), None, False, False) for _ in range(64)]
    assert len(tasks) == 64


# The findings that each program must have, of the rules about the framework's code.
EXPECTED = {
    "appfl": {"appfl_whole": {"APPFL-HEAP-WHOLE"}, "appfl_chunks": set(), "appfl_joined": {"APPFL-HEAP-OPTMEM"},
              "appfl_streamed": set()},
    "flower": {"flower_collect": {"FLWR-HEAP-COLLECT"}, "flower_numpy": {"FLWR-HEAP-NUMPY-RECORD"},
               "flower_torch": {"FLWR-HEAP-TORCH-RECORD"}},
    "nvflare": {"nvflare_received": {"NVF-HEAP-RECEIVED"}, "nvflare_offloaded": set(),
                "nvflare_diff": {"NVF-HEAP-DIFF"}, "nvflare_streams": {"NVF-HEAP-STREAM"}},
}


def found_in(flmem, folder, name):
    """Returns the rules about framework code that one program breaks, with their findings."""
    profile = os.path.join(folder, name)
    done = subprocess.run([flmem, "profile", "run", "-o", profile, "--interval", "64KiB", "--limit", "16MiB", "--",
                           sys.executable, "-B", os.path.abspath(__file__), "--program", name],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    said = done.stdout.decode(errors="replace")
    if done.returncode:
        raise SystemExit(f"{name}: exit status {done.returncode}\n{said}")
    done = subprocess.run([flmem, "recommend", "--json", profile], stdout=subprocess.PIPE, check=True)
    return {finding["rule"]: finding for finding in json.loads(done.stdout)["findings"] if "-HEAP-" in finding["rule"]}


def main():
    if sys.argv[1] == "--program":
        sys.stdout = io.TextIOWrapper(sys.stdout.buffer, line_buffering=True)
        globals()[sys.argv[2]]()
        return 0
    flmem, framework = sys.argv[1:]
    wrong = []
    with tempfile.TemporaryDirectory() as folder:
        for name, expected in EXPECTED[framework].items():
            found = found_in(flmem, folder, name)
            print(f"{name}: {sorted(found)}")
            wrong += [name] if set(found) != expected else []
            for finding in found.values():
                print("   ", finding["message"][-120:], finding["path"], finding["proposed"])
                assert finding["current"] == "unknown" and "of the peak" in finding["message"], finding
    print(f"wrong: {wrong}" if wrong else "as expected")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
