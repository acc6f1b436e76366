# SPDX-License-Identifier: Apache-2.0
"""Compares flmem.appfl with APPFL's own aggregator and scheduler; uses the real package where it is
installed."""

import os
import sys
import tempfile
import unittest
from unittest import mock

try:
    import torch
    from appfl.algorithm import aggregator as appfl_aggregators
    from appfl.algorithm.aggregator import FedAvgAggregator
    from appfl.algorithm.scheduler import SyncScheduler
    from appfl.misc.utils import create_instance_from_file
    from omegaconf import OmegaConf
except ImportError as problem:
    print(f"SKIP: no APPFL for this Python: {problem}")
    sys.exit(77)

import flmem.appfl
from flmem import _safetensors

CLIENTS = ("Client1", "Client2", "Client3")
SIZES = dict(zip(CLIENTS, (10, 30, 60)))


def model():
    torch.manual_seed(1)
    return torch.nn.Sequential(torch.nn.Linear(7, 5), torch.nn.Linear(5, 3))


def update(client):
    generator = torch.Generator().manual_seed(CLIENTS.index(client))
    return {name: torch.rand(one.shape, generator=generator) for name, one in model().state_dict().items()}


def exact(weights):
    total = sum(weights.values())
    return {name: sum(update(client)[name].double() * weight for client, weight in weights.items()) / total
            for name in update(CLIENTS[0])}


class Server(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()  # pylint: disable=consider-using-with
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def server(self, aggregator=flmem.appfl.Aggregator, scheduler=flmem.appfl.Scheduler, **more):
        configs = OmegaConf.create({"directory": self.folder, **more})
        one = aggregator(model=model(), aggregator_configs=configs, logger=None)
        for client, size in SIZES.items():
            one.set_client_sample_size(client, size)
        return scheduler(scheduler_configs=OmegaConf.create({"num_clients": 3}), aggregator=one, logger=None)

    @staticmethod
    def one_round(server, clients=CLIENTS, **more):
        futures = [server.schedule(client, update(client), **more) for client in clients]
        return [one.result(timeout=60) for one in futures]

    def check(self, found, expected):
        self.assertEqual(sorted(found), sorted(expected))
        for name, value in expected.items():
            self.assertTrue(torch.equal(found[name], value.float()), name)

    def test_the_average_is_the_exact_one(self):
        for mode, weights in (("equal", dict.fromkeys(CLIENTS, 1)), ("sample_size", SIZES)):
            for clients in (CLIENTS, CLIENTS[::-1]):
                server = self.server(client_weights_mode=mode)
                for _ in range(2):
                    for found in self.one_round(server, clients):
                        self.check(found, exact(weights))
                self.check(server.aggregator.get_parameters(), exact(weights))
                self.check(server.aggregator.model.state_dict(), exact(weights))
                self.assertEqual(server.get_num_global_epochs(), 2)
        self.assertEqual(os.listdir(self.folder), [])

    def test_it_is_appfls_but_for_rounding(self):
        for mode in ("equal", "sample_size"):
            own = self.one_round(self.server(FedAvgAggregator, SyncScheduler, client_weights_mode=mode))[0]
            ours = self.one_round(self.server(client_weights_mode=mode))[0]
            for name, value in own.items():
                torch.testing.assert_close(ours[name], value, atol=2e-7, rtol=0)

    def test_updates_are_not_kept(self):
        server = self.server()
        server.schedule(CLIENTS[0], update(CLIENTS[0]))
        server.schedule(CLIENTS[1], update(CLIENTS[1]))
        self.assertEqual([len(one) for one in server.local_models.values()], [0, 0])
        server.schedule(CLIENTS[2], update(CLIENTS[2]))
        self.check(server.aggregator.get_parameters(), exact(dict.fromkeys(CLIENTS, 1)))

    def test_chunks(self):
        server, found = self.server(), {}
        keys = sorted(update(CLIENTS[0]))
        for number, part in enumerate((keys[:2], keys[2:])):
            futures = [server.schedule(client, {key: update(client)[key] for key in part}, _chunk_idx=number,
                                       _total_chunks=2, _chunk_keys=part) for client in CLIENTS]
            chunk = futures[0].result(timeout=60)
            self.assertEqual(sorted(chunk), part)
            found.update(chunk)
            self.assertEqual(server.get_num_global_epochs(), number)
        self.check(found, exact(dict.fromkeys(CLIENTS, 1)))
        self.check(server.aggregator.get_parameters(), found)

    def test_with_appfls_own_scheduler(self):
        found = self.one_round(self.server(scheduler=SyncScheduler))[0]
        self.check(found, exact(dict.fromkeys(CLIENTS, 1)))

    def test_loaded_by_its_path(self):
        with mock.patch.object(sys, "path", list(sys.path)):
            path = flmem.appfl.__file__
            aggregator = create_instance_from_file(path, "Aggregator", model=model(), logger=None,
                                                   aggregator_configs=OmegaConf.create({}))
            scheduler = create_instance_from_file(path, "Scheduler", aggregator=aggregator, logger=None,
                                                  scheduler_configs=OmegaConf.create({"num_clients": 3}))
        self.check(self.one_round(scheduler)[0], exact(dict.fromkeys(CLIENTS, 1)))

    def test_options(self):
        found = self.one_round(self.server(algorithm="median"))[0]
        for name, value in found.items():
            self.assertTrue(torch.equal(value, torch.stack([update(one)[name] for one in CLIENTS]).median(0)[0]))
        with self.assertRaisesRegex(ValueError, "masked"):
            self.server(use_secure_agg=True)

    def test_different_models_are_refused(self):
        server = self.server()
        for client in CLIENTS[:2]:
            server.schedule(client, update(client))
        with self.assertRaisesRegex(ValueError, "'Client3'"):
            server.schedule(CLIENTS[2], {"0.weight": torch.zeros(1)})
        self.assertEqual(os.listdir(self.folder), [])


class Adaptive(unittest.TestCase):
    """Compares flmem.aggregate with a state with APPFL's aggregators, over three rounds."""

    CONFIGS = {"server_learning_rate": 0.1, "server_adapt_param": 0.001, "server_momentum_param_1": 0.9,
               "server_momentum_param_2": 0.99}
    OPTIONS = {"server_rate": 0.1, "tau": 0.001, "beta1": 0.9, "beta2": 0.99}

    def rounds(self, folder, name, options):
        """Yields (APPFL's model, flmem's) after each round."""
        own = getattr(appfl_aggregators, name + "Aggregator")(
            model=model(), aggregator_configs=OmegaConf.create(self.CONFIGS), logger=None)
        paths = {one: os.path.join(folder, one) for one in (*CLIENTS, "base", "out", "state")}
        self.write(paths["base"], model().state_dict())
        for number in range(3):
            updates = {one: {key: value + number / 8 for key, value in update(one).items()} for one in CLIENTS}
            for one, values in updates.items():
                self.write(paths[one], values)
            flmem.aggregate([paths[one] for one in CLIENTS], None, paths["out"], algorithm=name.lower(),
                            state=paths["state"], base=paths["base"], **options)
            yield own.aggregate(updates), _safetensors.map_tensors(paths["out"], dict.fromkeys(updates[one], True))

    @staticmethod
    def write(path, values):
        _safetensors.write(path, [(key, _safetensors.of_value(key, value)) for key, value in values.items()])

    def test_as_appfl(self):
        for name, options in (("FedAdam", self.OPTIONS), ("FedYogi", self.OPTIONS),
                              ("FedAdagrad", {**self.OPTIONS, "beta2": None}), ("FedAvgM", {"beta1": 0.9})):
            with self.subTest(name), tempfile.TemporaryDirectory() as folder:
                for own, ours in self.rounds(folder, name, options):
                    self.assertEqual(sorted(own), sorted(ours))
                    for key, value in own.items():
                        torch.testing.assert_close(ours[key], value, atol=2e-6, rtol=2e-6)


if __name__ == "__main__":
    unittest.main()
