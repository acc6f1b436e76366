#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
The training loops of docs/guides/exchange-clients.md with the real server, and where they have one, with
the real framework; in the current directory, which is empty:

    exchange_loops.py FLMEM plain|flower|appfl
"""
import importlib.util
import json
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

from harness import skip  # noqa: E402
from harness.exchange_checks import put, run  # noqa: E402
from harness.exchange_server import Served  # noqa: E402

try:
    import torch
except ImportError:
    skip("needs python3-torch")

FLMEM = sys.argv[1]
GUIDE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../docs/guides/exchange-clients.md")
CLIENTS, ROUNDS = 2, 3


def write_program(path, word):
    """Returns the example of the guide that contains this word."""
    with open(GUIDE, encoding="utf-8") as text:
        found = [block.split("```")[0] for block in text.read().split("```python\n")[1:] if word in block.split("```")[0]]
    assert len(found) == 1, word
    put(path, found[0].encode())


def serve():
    """A server with the model that all three loops train."""
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1))
    torch.save(model.state_dict(), "initial.pt")
    subprocess.run([FLMEM, "aggregate", "convert", "-q", "-o", "initial", "initial.pt"], check=True)
    return Served(FLMEM, "initial", "--clients", str(CLIENTS), "--rounds", str(ROUNDS))


def run_clients(commands):
    """Returns the standard output of each command; they run at the same time."""
    clients = [subprocess.Popen(command, stdout=subprocess.PIPE) for command in commands]
    try:
        texts = [one.communicate(timeout=250)[0].decode() for one in clients]
    finally:
        for one in clients:
            one.kill()
            one.wait()
    assert not any(one.returncode for one in clients), texts
    return texts


def check_published(server):
    """Checks that the last model is published, and differs from the first."""
    run("wait", server.url, "--round", str(ROUNDS), "--timeout", "60s")
    run("pull", server.url, "-o", "last")
    assert subprocess.run([FLMEM, "aggregate", "diff", "initial", "last"], check=False,
                          stdout=subprocess.DEVNULL).returncode == 1


def plain():
    """Trains in a loop of PyTorch, by two clients at a time; the model learns."""
    write_program("train.py", "def main(url, name, seed)")
    with serve() as server:
        texts = run_clients([[sys.executable, "-B", "train.py", server.url, name, str(seed)]
                             for seed, name in enumerate(("site-1", "site-2"))])
        check_published(server)
    for text in texts:
        losses = [float(line.rpartition(" ")[2]) for line in text.splitlines()]
        assert len(losses) == ROUNDS and losses[-1] < losses[0], text


def flower():
    """Runs Flower's apps; a grid in this process passes their messages on."""
    try:
        from flwr.app import Context, RecordDict
    except ImportError as problem:
        skip(f"no Flower for this Python: {problem}")
    from harness.app_grid import AppGrid
    write_program("loop.py", "ClientApp()")
    spec = importlib.util.spec_from_file_location("loop", "loop.py")
    loop = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loop)
    with serve() as server:
        config = {"exchange-address": server.url}
        grid = AppGrid(loop.client_app, CLIENTS, config)
        loop.server_app(grid, Context(run_id=1, node_id=0, node_config={}, state=RecordDict(), run_config=config))
        check_published(server)
    assert grid.array_records == 0
    assert [len(losses) for losses in grid.losses.values()] == [ROUNDS] * CLIENTS, grid.losses
    assert all(losses[-1] < losses[0] for losses in grid.losses.values()), grid.losses


APPFL_MODEL = """
import torch


def make():
    return torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1))


def data(seed):
    generator = torch.Generator().manual_seed(seed)
    inputs = torch.randn(64, 8, generator=generator)
    return torch.utils.data.TensorDataset(inputs, inputs.sum(dim=1, keepdim=True)), None


def error(wanted, found):
    with open("errors", "a", encoding="ascii") as file:
        file.write(f"{((wanted - found) ** 2).mean()}\\n")
    return 0.0
"""


def appfl_configuration(number):
    """Returns the configuration of one client, in its folder."""
    folder = f"client-{number}"
    os.mkdir(folder)
    here = os.path.abspath("parts.py")
    put(f"{folder}/client.yaml", json.dumps({
        "client_id": f"site-{number}",
        "model_configs": {"model_path": here, "model_name": "make"},
        "data_configs": {"dataset_path": here, "dataset_name": "data", "dataset_kwargs": {"seed": number}},
        "train_configs": {"trainer": "VanillaTrainer", "mode": "epoch", "num_local_epochs": 5, "optim": "SGD",
                          "optim_args": {"lr": 0.05}, "loss_fn": "MSELoss", "metric_path": here, "metric_name": "error",
                          "train_batch_size": 16, "logging_output_dirname": "output"}}).encode())
    return folder


def appfl():
    """Runs APPFL's client agent and trainer, by two clients at a time; the model learns."""
    try:
        import appfl.agent  # noqa: F401 pylint: disable=unused-import
    except ImportError as problem:
        skip(f"no APPFL with its agents for this Python: {problem}")
    write_program("loop.py", "ClientAgent(")
    put("parts.py", APPFL_MODEL.encode())
    folders = [appfl_configuration(number) for number in range(CLIENTS)]
    with serve() as server:
        run_clients([["sh", "-c", 'cd "$1" && exec "$2" -B ../loop.py "$3" client.yaml', "sh", folder, sys.executable,
                      server.url] for folder in folders])
        check_published(server)
    for folder in folders:
        with open(f"{folder}/errors", encoding="ascii") as file:
            errors = [float(line) for line in file]
        assert len(errors) == 5 * ROUNDS and errors[-1] < errors[0], errors


if __name__ == "__main__":
    globals()[sys.argv[2]]()
