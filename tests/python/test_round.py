# SPDX-License-Identifier: Apache-2.0
"""Tests the rounds that the aggregators for frameworks share; uses NumPy and PyTorch where they are
installed."""

import os
import random
import resource
import struct
import sys
import tempfile
import unittest
from unittest import mock

from flmem import _round, _safetensors

try:
    import numpy
except ImportError:
    print("SKIP: no NumPy for this Python")
    sys.exit(77)
try:
    import torch
except ImportError:
    torch = None


class Reference:
    """An object as NVFlare passes it for a tensor that it left in a file."""

    def __init__(self, file_path, key):
        self.file_path = file_path
        self.key = key

    def materialize(self):
        raise AssertionError("read into memory")


class Rounds(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()  # pylint: disable=consider-using-with
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.round = _round.Round(self.folder)

    def offload(self, client, values, keys=None):
        """Leaves files as NVFlare does: a folder for each client, in it a file for each tensor, by
        numbers."""
        folder = os.path.join(self.folder, "offload-" + client)
        os.mkdir(folder)
        found = {}
        for number, (name, value) in enumerate(values.items()):
            key = keys[name] if keys else f"T{number}"
            path = os.path.join(folder, f"chunk_{number}.safetensors")
            if key not in [one.key for one in found.values()]:
                _safetensors.write(path, [(key, _safetensors.of_value(name, value))])
            found[name] = Reference(next((one.file_path for one in found.values() if one.key == key), path), key)
        return found


class Arrays(Rounds):
    def test_weighted_mean(self):
        self.round.add("b", 3, {"w": numpy.float32([4, 8]), "s": numpy.float64(1)})
        self.round.add("a", 1, {"w": numpy.float32([0, 4]), "s": numpy.float64(5)})
        found = self.round.combine()
        self.assertEqual(found["w"].tolist(), [3, 7])
        self.assertEqual((found["w"].dtype, found["s"].shape, float(found["s"])), (numpy.float32, (), 2))

    def test_the_order_of_arrival_does_not_matter(self):
        values = random.Random(1)
        updates = [(f"site-{n}", values.random(), {"w": numpy.array([values.uniform(-1, 1) for _ in range(999)])})
                   for n in range(7)]
        results = set()
        for _ in range(5):
            values.shuffle(updates)
            one = _round.Round(self.folder)
            for update in updates:
                one.add(*update)
            results.add(one.combine()["w"].tobytes())
            one.clear()
        self.assertEqual(len(results), 1)

    def test_nothing_is_left(self):
        self.round.add("a", 1, {"w": numpy.float32([1])})
        kept = self.round.combine()["w"]
        self.round.clear()
        self.assertEqual(os.listdir(self.folder), [])
        self.assertEqual(kept.tolist(), [1])
        kept += 1
        self.assertEqual(kept.tolist(), [2])

    def test_the_round_can_be_used_again(self):
        for value in (1, 2):
            self.round.add("a", 1, {"w": numpy.float32([value])})
            self.assertEqual(self.round.combine()["w"].tolist(), [value])
            self.round.clear()
        with self.assertRaisesRegex(ValueError, "no update"):
            self.round.combine()

    def test_types_and_shapes(self):
        params = {name: numpy.ones(shape, kind) for name, shape, kind in (
            ("f2", (2, 3), "f2"), ("f8", (1,), "f8"), ("i8", (3, 1), "i8"), ("u1", (5,), "u1"),
            ("bool", (2,), "?"), ("none", (0, 4), "f4"), ("scalar", (), "f4"))}
        params["strided"] = numpy.arange(12, dtype="f4").reshape(3, 4).T
        for client in ("a", "b"):
            self.round.add(client, 1, params)
        found = self.round.combine()
        self.assertEqual(list(found), list(params))
        for name, value in params.items():
            self.assertEqual((found[name].dtype, found[name].shape), (value.dtype, value.shape), name)
            self.assertEqual(found[name].tolist(), value.tolist(), name)

    def test_options_reach_the_library(self):
        for client, value in (("a", 1), ("b", 2), ("c", 100)):
            self.round.add(client, 1, {"n": numpy.int64([value]), "w": numpy.float32([value])})
        found = self.round.combine(algorithm="median", non_float="first")
        self.assertEqual((found["n"].tolist(), found["w"].tolist()), ([1], [2]))

    def test_errors_name_the_client_and_the_parameter(self):
        for value in ("text", 1.5, numpy.array([1j]), numpy.array([1], ">f4")):
            with self.assertRaisesRegex(ValueError, "parameter 'w': unsupported type"):
                self.round.add("a", 1, {"w": value})
        self.round.add("site-1", 1, {"w": numpy.float32([1])})
        self.round.add("site-2", 1, {"w": numpy.float32([1, 2])})
        with self.assertRaisesRegex(ValueError, "'w' is F32 .* in 'site-1', but .* in 'site-2'"):
            self.round.combine()


@unittest.skipIf(torch is None, "no PyTorch for this Python")
class Tensors(Rounds):
    CLIENTS = {"a": [1.0, 2.0], "b": [3.0, 6.0]}

    def values(self, client):
        return {"x.weight": torch.tensor(self.CLIENTS[client]), "bias": torch.tensor(self.CLIENTS[client][0]),
                "half": torch.tensor(self.CLIENTS[client]).bfloat16(), "count": torch.tensor([7])}

    def check(self, found):
        self.assertEqual(list(found), ["x.weight", "bias", "half", "count"])
        self.assertEqual([one.tolist() for one in found.values()], [[2, 4], 2, [2, 4], [7]])
        self.assertEqual([one.dtype for one in found.values()],
                         [torch.float32, torch.float32, torch.bfloat16, torch.int64])

    def test_from_memory(self):
        for client in self.CLIENTS:
            self.round.add(client, 1, self.values(client))
        self.check(self.round.combine())

    def test_from_the_files_of_others(self):
        for client in self.CLIENTS:
            self.round.add(client, 1, self.offload(client, self.values(client)))
        with mock.patch.object(_safetensors.Source, "copy_to", side_effect=AssertionError("copied")):
            self.check(self.round.combine())

    def test_files_with_other_names_are_copied(self):
        other = {"x.weight": "T3", "bias": "T2", "half": "T1", "count": "T0"}
        self.round.add("a", 1, self.offload("a", self.values("a")))
        self.round.add("b", 1, self.offload("b", self.values("b"), other))
        self.check(self.round.combine())

    def test_files_and_memory(self):
        for client in self.CLIENTS:
            values = self.values(client)
            references = self.offload(client, {"bias": values["bias"], "count": values["count"]})
            self.round.add(client, 1, {**values, **references})
        self.check(self.round.combine())

    def test_tied_parameters(self):
        keys = {"x.weight": "T0", "bias": "T1", "half": "T2", "count": "T3", "tied": "T0"}
        for client in self.CLIENTS:
            values = self.values(client)
            self.round.add(client, 1, self.offload(client, {**values, "tied": values["x.weight"]}, keys))
        found = self.round.combine()
        self.assertEqual(found.pop("tied").tolist(), [2, 4])
        self.check(found)

    def test_errors_name_parameters_of_files(self):
        self.round.add("site-1", 1, self.offload("1", {"x": torch.zeros(1), "y": torch.zeros(2)}))
        self.round.add("site-2", 1, self.offload("2", {"x": torch.zeros(1), "y": torch.zeros(3)}))
        with self.assertRaisesRegex(ValueError, "'y' is F32 .* in 'site-1', but .* in 'site-2'"):
            self.round.combine()

    def test_more_files_than_the_limit(self):
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        self.addCleanup(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        values = {f"layer-{number}": torch.tensor([float(number)]) for number in range(200)}
        for client in ("a", "b"):
            self.round.add(client, 1, self.offload(client, values))
        resource.setrlimit(resource.RLIMIT_NOFILE, (128, hard))
        self.assertEqual(self.round.combine()["layer-199"].tolist(), [199])
        self.assertEqual(resource.getrlimit(resource.RLIMIT_NOFILE)[0], 128)
        with mock.patch.object(resource, "getrlimit", return_value=(128, 256)):
            self.assertEqual(self.round.combine()["layer-7"].tolist(), [7])


class Hostile(Rounds):
    def test_files_that_are_none(self):
        path = os.path.join(self.folder, "x")
        for content in (b"", b"\xff" * 9, struct.pack("<Q", 1 << 62), struct.pack("<Q", 2) + b"[]",
                        struct.pack("<Q", 4) + b"nul"):
            with open(path, "wb") as file:
                file.write(content)
            with self.assertRaisesRegex(ValueError, "is not a safetensors file"):
                _safetensors.of_file(path, "w")
        _safetensors.write(path, [])
        with self.assertRaisesRegex(ValueError, "has no tensor 'w'"):
            _safetensors.of_file(path, "w")


if __name__ == "__main__":
    unittest.main()
