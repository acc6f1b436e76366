# SPDX-License-Identifier: Apache-2.0
"""Compares flmem.nvflare.Aggregator with NVFlare's own FedAvg; uses the real package where it is
installed."""

import os
import sys
import tempfile
import unittest

try:
    import torch
    from nvflare.app_common.abstract.fl_model import FLModel, ParamsType
    from nvflare.app_common.workflows.base_fedavg import BaseFedAvg
    from nvflare.app_opt.pt.lazy_tensor_dict import LazyTensorDict
    from safetensors.torch import save_file
except ImportError as problem:
    print(f"SKIP: no NVFlare for this Python: {problem}")
    sys.exit(77)

import flmem.nvflare

SHAPES = {"layers.0.weight": (30, 7), "layers.0.bias": (7,), "scale": ()}


def values(client):
    generator = torch.Generator().manual_seed(client)
    return {name: torch.rand(shape, generator=generator) for name, shape in SHAPES.items()}


class Updates(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()  # pylint: disable=consider-using-with
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def offloaded(self, client, params):
        """Leaves tensors in files as NVFlare's DiskTensorConsumer does."""
        folder = tempfile.mkdtemp(dir=self.folder)
        places = {}
        for number, (name, tensor) in enumerate(params.items()):
            path = os.path.join(folder, f"chunk_{number}.safetensors")
            save_file({f"T{number}": tensor}, path)
            places[f"T{number}"] = (path, f"T{number}")
        lazy = LazyTensorDict(places, folder)
        return {name: lazy.make_lazy_ref(f"T{number}") for number, name in enumerate(params)}

    def model(self, client, offload=True, params=None, **more):
        params = params or values(client)
        meta = {"client_name": f"site-{client}", "NUM_STEPS_CURRENT_ROUND": 10 * client}
        return FLModel(params=self.offloaded(client, params) if offload else params,
                       params_type=more.pop("params_type", ParamsType.FULL),
                       metrics=more.pop("metrics", {"loss": 1.0 / client, "text": "x"}), meta=meta, **more)

    def average(self, models, **options):
        one = flmem.nvflare.Aggregator(**options)
        one.reset_stats()
        for model in models:
            one.accept_model(model)
        return one.aggregate_model()

    def test_the_average_is_nvflares_but_for_rounding(self):
        own = BaseFedAvg.aggregate_fn([self.model(client, False) for client in (1, 2, 3)])
        for offload in (True, False):
            ours = self.average([self.model(client, offload) for client in (3, 1, 2)])
            self.assertEqual(list(ours.params), list(own.params))
            for name, value in own.params.items():
                torch.testing.assert_close(ours.params[name], value, atol=2e-7, rtol=0)
                exact = sum(values(client)[name].double() * client for client in (1, 2, 3)) / 6
                self.assertTrue(torch.equal(ours.params[name], exact.float()), name)
            self.assertEqual(ours.params_type, own.params_type)
            self.assertEqual(list(ours.metrics), ["loss"])
            self.assertAlmostEqual(ours.metrics["loss"], own.metrics["loss"])

    def test_files_are_gone_after_the_round(self):
        one = flmem.nvflare.Aggregator()
        for _ in range(2):
            one.reset_stats()
            for client in (1, 2):
                one.accept_model(self.model(client))
            self.assertEqual(len(one.aggregate_model().params), len(SHAPES))
            self.assertEqual(os.listdir(self.folder), [])

    def test_weights_and_exclusions(self):
        found = self.average([self.model(1), self.model(2)], aggregation_weights={"site-1": 2.0},
                             exclude_vars="bias|scale")
        self.assertEqual(list(found.params), ["layers.0.weight"])
        exact = (values(1)["layers.0.weight"].double() + values(2)["layers.0.weight"]) / 2
        self.assertTrue(torch.equal(found.params["layers.0.weight"], exact.float()))

    def test_a_client_without_metrics(self):
        self.assertIsNone(self.average([self.model(1), self.model(2, metrics=None)]).metrics)

    def test_refused_with_the_reason(self):
        with self.assertRaisesRegex(ValueError, "site-2 sent .*DIFF"):
            self.average([self.model(1), self.model(2, params_type=ParamsType.DIFF)])
        params = {**values(2), "scale": torch.tensor(float("nan"))}
        with self.assertRaisesRegex(ValueError, "'site-2' has a NaN .*'scale'"):
            self.average([self.model(1), self.model(2, params=params)])
        with self.assertRaisesRegex(ValueError, "no update"):
            self.average([])

    def test_options(self):
        params = {**values(3), "scale": torch.tensor(float("nan"))}
        with self.assertLogs("flmem") as logs:
            found = self.average([self.model(1), self.model(2), self.model(3, params=params)], nan="skip-client")
        self.assertIn("'site-3' is not part of the average: ", logs.output[0])
        self.assertAlmostEqual(float(found.params["scale"]),
                               float((values(1)["scale"] + 2 * values(2)["scale"]) / 3), places=6)
        found = self.average([self.model(client) for client in (1, 2, 3)], algorithm="median")
        middle = torch.stack([values(client)["scale"] for client in (1, 2, 3)]).median()
        self.assertEqual(float(found.params["scale"]), float(middle))


if __name__ == "__main__":
    unittest.main()
