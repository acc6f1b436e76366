# SPDX-License-Identifier: Apache-2.0
"""Compares flmem.flower.FedAvg with Flower's own; uses the real package where it is installed."""

import os
import sys
import tempfile
import unittest
from unittest import mock

try:
    import numpy
    from flwr.app import Array, ArrayRecord, ConfigRecord
    from flwr.serverapp import strategy as flower_strategies
    from flwr.serverapp.exception import InconsistentMessageReplies
    from flwr.serverapp.strategy import FedAvg
except ImportError as problem:
    print(f"SKIP: no Flower for this Python: {problem}")
    sys.exit(77)

sys.path.insert(0, os.path.join(os.environ["FLMEM_SOURCE"], "tests"))

from harness.cluster import Cluster, trained  # noqa: E402

import flmem.flower  # noqa: E402
from flmem import _safetensors  # noqa: E402

SHAPES = {"w": (300, 7), "b": (7,), "scalar": ()}


def exact(clients, current_round):
    weights = {client: 10.0 * client for client in clients}
    return {name: sum(trained(client, current_round, name, shape).astype("f8") * weight
                      for client, weight in weights.items()) / sum(weights.values())
            for name, shape in SHAPES.items()}


class Strategy(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()  # pylint: disable=consider-using-with
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        patch = mock.patch("time.sleep")
        patch.start()
        self.addCleanup(patch.stop)

    def strategy(self, **more):
        return flmem.flower.FedAvg(min_train_nodes=3, min_evaluate_nodes=3, min_available_nodes=3,
                                   directory=self.folder, **more)

    @staticmethod
    def run_it(strategy, cluster, rounds=2):
        start = ArrayRecord({name: Array(numpy.zeros(shape, "f4")) for name, shape in SHAPES.items()})
        return strategy.start(cluster, start, num_rounds=rounds)

    def test_the_average_is_the_exact_one(self):
        result = self.run_it(self.strategy(), Cluster(5, late=[2, 5]))
        for name, value in exact(range(1, 6), 2).items():
            found = result.arrays[name].numpy()
            self.assertEqual((found.dtype, found.shape), (numpy.float32, SHAPES[name]))
            numpy.testing.assert_array_equal(found, value.astype("f4"))
        self.assertEqual(os.listdir(self.folder), [])

    def test_it_is_flowers_but_for_rounding(self):
        own = self.run_it(FedAvg(min_train_nodes=3, min_available_nodes=3), Cluster(3))
        ours = self.run_it(self.strategy(), Cluster(3))
        for name in SHAPES:
            numpy.testing.assert_allclose(ours.arrays[name].numpy(), own.arrays[name].numpy(), atol=2e-7)
        self.assertEqual(ours.train_metrics_clientapp, own.train_metrics_clientapp)
        self.assertEqual(ours.evaluate_metrics_clientapp, own.evaluate_metrics_clientapp)

    def test_one_update_at_a_time(self):
        held = []

        def take(strategy, reply, real=flmem.flower.FedAvg.take):
            held.append(sum(bool(array.data) for record in reply.content.array_records.values()
                            for array in record.values()))
            real(strategy, reply)
            held.append(sum(bool(array.data) for record in reply.content.array_records.values()
                            for array in record.values()))
        with mock.patch.object(flmem.flower.FedAvg, "take", take):
            self.run_it(self.strategy(), Cluster(3), rounds=1)
        self.assertEqual([count for count in held if count], [len(SHAPES)] * 3)

    def test_options_reach_the_library(self):
        result = self.run_it(self.strategy(algorithm="median"), Cluster(3), rounds=1)
        middle = numpy.median([trained(client, 1, "w", SHAPES["w"]) for client in (1, 2, 3)], axis=0)
        numpy.testing.assert_array_equal(result.arrays["w"].numpy(), middle)
        with self.assertRaises(TypeError):
            self.strategy(algorithms="median")

    def test_other_tensors_are_refused_as_by_flower(self):
        with self.assertRaises(InconsistentMessageReplies):
            self.run_it(self.strategy(), Cluster(3, broken=[2]))
        self.assertEqual(os.listdir(self.folder), [])

    def test_replies_of_another_grid(self):
        cluster, strategy = Cluster(3), self.strategy()
        messages = strategy.configure_train(1, ArrayRecord({"b": Array(numpy.zeros(7, "f4"))}),
                                            ConfigRecord(), cluster)
        arrays, metrics = strategy.aggregate_train(1, cluster.send_and_receive(messages))
        numpy.testing.assert_array_equal(arrays["b"].numpy(), exact((1, 2, 3), 1)["b"].astype("f4"))
        self.assertIn("loss", metrics)

    def test_views_of_arrays(self):
        for value in (numpy.arange(6, dtype="f2").reshape(2, 3), numpy.zeros((0, 3)), numpy.float64(2.5),
                      numpy.asfortranarray(numpy.arange(6.0).reshape(2, 3))):
            array = Array(numpy.asarray(value))
            numpy.testing.assert_array_equal(flmem.flower._view(array), value)


class Adaptive(unittest.TestCase):
    """Compares flmem.aggregate with a state with Flower's strategies, over three rounds."""

    ETA, TAU, BETA1, BETA2 = 0.1, 0.001, 0.9, 0.99

    def options(self, name, number):
        if name == "FedAvgM":
            return {"beta1": self.BETA1}
        found = {"server_rate": self.ETA, "tau": self.TAU}
        if name == "FedAdam":  # Flower's FedAdam corrects the bias through the rate
            found["server_rate"] *= (1 - self.BETA2 ** (number + 1)) ** 0.5 / (1 - self.BETA1 ** (number + 1))
        return found if name == "FedAdagrad" else {**found, "beta1": self.BETA1, "beta2": self.BETA2}

    def strategy(self, name, start):
        nodes = {"min_train_nodes": 3, "min_available_nodes": 3, "fraction_evaluate": 0.0}
        kind = getattr(flower_strategies, name)
        if name == "FedAvgM":
            return kind(server_momentum=self.BETA1, **nodes)
        betas = {} if name == "FedAdagrad" else {"beta_1": self.BETA1, "beta_2": self.BETA2}
        found = kind(eta=self.ETA, tau=self.TAU, **betas, **nodes)
        # Flower starts with 0 here, flmem as in Reddi et al.
        found.v_t = {key: numpy.full_like(value, self.TAU ** 2) for key, value in start.items()}
        return found

    @staticmethod
    def write(path, values):
        _safetensors.write(path, [(key, _safetensors.of_value(key, value)) for key, value in values.items()])

    def check(self, name, folder):
        start = {key: numpy.full(shape, 0.25, "f4") for key, shape in SHAPES.items()}
        strategy, cluster = self.strategy(name, start), Cluster(3)
        arrays = ArrayRecord({key: Array(value) for key, value in start.items()})
        base, out, state = (os.path.join(folder, one) for one in ("base", "out", "state"))
        self.write(base, start)
        for number in (1, 2, 3):
            messages = strategy.configure_train(number, arrays, ConfigRecord(), cluster)
            arrays, _ = strategy.aggregate_train(number, cluster.send_and_receive(messages))
            inputs = [os.path.join(folder, f"client-{client}") for client in (1, 2, 3)]
            for client, path in enumerate(inputs, 1):
                self.write(path, {key: trained(client, number, key, shape) for key, shape in SHAPES.items()})
            flmem.aggregate(inputs, [10, 20, 30], out, algorithm=name.lower(), base=base, state=state,
                            **self.options(name, number))
            ours = _safetensors.map_tensors(out, dict.fromkeys(SHAPES, False))
            for key, array in arrays.items():
                numpy.testing.assert_allclose(ours[key], array.numpy(), rtol=1e-5, atol=1e-5)

    def test_as_flower(self):
        for name in ("FedAdam", "FedYogi", "FedAdagrad", "FedAvgM"):
            with self.subTest(name), tempfile.TemporaryDirectory() as folder:
                self.check(name, folder)


if __name__ == "__main__":
    unittest.main()
