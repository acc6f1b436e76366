# SPDX-License-Identifier: Apache-2.0
"""Tests the client of exchanges in Python against servers that send false data; uses NumPy and
PyTorch where they are installed."""

import contextlib
import ctypes
import fractions
import gc
import hashlib
import json
import os
import random
import struct
import sys
import threading
import time
import types
import unittest
import unittest.mock

from flmem import _crc32c, _exchange_http, exchange

sys.path.insert(0, os.path.join(os.environ["FLMEM_SOURCE"], "tests"))
from harness import exchange_fake  # noqa: E402

try:
    import numpy
except ImportError:
    numpy = None
try:
    import torch
except ImportError:
    torch = None

QUICK = {"timeout": 2.0, "retries": 2}
_exchange_http._DELAY_FIRST_S = 0.02  # pylint: disable=protected-access; as many tries, but sooner


def noise(count, seed=5):
    return random.Random(seed).getrandbits(8 * count).to_bytes(count, "little")


def model():
    return {"w": exchange.Tensor("F32", (50, 40), noise(8000)), "b": exchange.Tensor("BF16", (3,), noise(6, 2)),
            "none": exchange.Tensor("I64", (0, 4), b""), "s": exchange.Tensor("F64", (), noise(8, 3))}


def as_file(tensors):
    """Makes a safetensors file from the format's specification, not by the module."""
    header, data = {}, b""
    for name, (kind, shape, content) in tensors.items():
        header[name] = {"dtype": kind, "shape": list(shape), "data_offsets": [len(data), len(data) + len(content)]}
        data += bytes(content)
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def plain(tensors):
    return {name: (one.dtype, one.shape, bytes(one.data)) for name, one in tensors.items()}


class Exchanges(unittest.TestCase):
    def serve(self, lie="", tensors=None, **more):
        server = exchange_fake.Server({"m.safetensors": as_file(model() if tensors is None else tensors)}, lie, **more)
        self.addCleanup(server.close)
        return server

    def client(self, server, **more):
        one = exchange.Client(server.base, client="a", **{"timeout": 20.0, **more})
        self.addCleanup(one.close)
        return one


class Push(Exchanges):
    def test_all_bytes_arrive(self):
        for lie in ("", "busy", "in-use", "mismatch", "disconnect", "disconnect-late", "location-host"):
            with self.subTest(lie):
                server = self.serve(lie)
                server.chunk_bytes = 1500
                self.assertEqual(self.client(server).push(model(), weight=2.5), 0)
                upload = next(iter(server.uploads.values()))
                sent = bytes(upload["data"])
                size = struct.unpack("<Q", sent[:8])[0]
                header = json.loads(sent[8:8 + size])
                for name, (kind, shape, data) in model().items():
                    begin, end = header[name]["data_offsets"]
                    self.assertEqual((header[name]["dtype"], tuple(header[name]["shape"])), (kind, shape))
                    self.assertEqual(sent[8 + size + begin:8 + size + end], data)
                self.assertNotIn("sha256", upload["metadata"])
                self.assertEqual(upload["metadata"]["weight"], "2.5")

    def test_a_single_try_is_not_counted(self):
        server = self.serve()
        one = self.client(server, retries=0)
        server.close()
        with self.assertRaisesRegex(exchange.ExchangeError, "^a request to "):
            one.push(model())

    def test_tensors_are_in_the_order_of_safetensors(self):
        # A server in lockstep accepts this order only: wide types first, then by name.
        values = {name: exchange.Tensor(kind, (1,), bytes(size)) for name, kind, size in (
            ("0.weight", "F32", 4), ("0.bias", "F32", 4), ("half", "BF16", 2), ("short", "F16", 2), ("flag", "BOOL", 1),
            ("10.weight", "F32", 4), ("double", "F64", 8), ("steps", "I64", 8))}
        server = self.serve()
        self.client(server).push(values)
        sent = bytes(next(iter(server.uploads.values()))["data"])
        header = json.loads(sent[8:8 + struct.unpack("<Q", sent[:8])[0]])
        order = ["steps", "double", "0.bias", "0.weight", "10.weight", "half", "short", "flag"]
        self.assertEqual(sorted(header, key=lambda name: header[name]["data_offsets"]), order)

    def test_weights_of_other_types_are_sent_as_numbers(self):
        class Real(float):  # prints itself as NumPy 2's float64 does
            def __repr__(self):
                return f"np.float64({float(self)!r})"

        weights = [(Real(2.5), "2.5"), (600, "600"), (1e-5, "1e-05"), (fractions.Fraction(1, 4), "0.25")]
        if numpy:
            weights += [(numpy.int64(600), "600"), (numpy.float32(0.5), "0.5"), (numpy.float64(2.5), "2.5")]
        for weight, text in weights:
            server = self.serve()
            self.client(server).push(model(), weight=weight)
            self.assertEqual(next(iter(server.uploads.values()))["metadata"]["weight"], text)

    def test_without_the_library_the_upload_is_known_by_its_sha256(self):
        for words in ({}, {"sha256": True}):
            server = self.serve("disconnect")
            server.chunk_bytes = 1500
            with unittest.mock.patch("flmem._crc32c.find", return_value=None) if not words else contextlib.nullcontext():
                self.client(server).push(model(), **words)
            upload = next(iter(server.uploads.values()))
            self.assertEqual(upload["metadata"]["sha256"], hashlib.sha256(bytes(upload["data"])).hexdigest())

    def test_the_data_are_there_while_the_library_reads_them(self):
        # Other Python threads run meanwhile, and reuse memory that is free.
        @ctypes.CFUNCTYPE(ctypes.c_uint32, ctypes.c_uint32, ctypes.c_void_p, ctypes.c_size_t)
        def update(crc, place, size):
            others = [bytes([at]) * size for at in range(64)]
            found.append(ctypes.string_at(place, size))
            return crc + len(others)

        library = types.SimpleNamespace(flmem_exchange_crc32c=update, flmem_exchange_crc32c_join=unittest.mock.Mock())
        for size in (1, 40, 1000, 40000):
            for data in (noise(size), bytearray(noise(size))):
                found = []
                self.assertEqual(_crc32c.Crc32c(library).update(3, memoryview(data)), 67)
                self.assertEqual(found, [bytes(data)])

    def test_bytes_of_two_models_are_not_mixed(self):
        server = self.serve()
        self.client(server).push(model())
        other = dict(model(), s=exchange.Tensor("F64", (), b"12345678"))
        with self.assertRaisesRegex(exchange.ExchangeError, "another update"):
            self.client(server).push(other)
        upload = next(iter(server.uploads.values()))
        whole = bytes(upload["data"])
        del upload["data"][5000:]
        server.lie = "checksum-none"
        with self.assertRaisesRegex(exchange.ExchangeError, "sha256=True"):
            self.client(server).push(model())
        server.lie = ""
        self.client(server).push(model())
        self.assertEqual(bytes(upload["data"]), whole)

    def test_what_was_begun_is_replaced_when_asked(self):
        server = self.serve()
        self.client(server).push(model())
        other = dict(model(), s=exchange.Tensor("F64", (), b"12345678"))
        with self.assertRaisesRegex(exchange.ExchangeError, "complete"):
            self.client(server).push(other, replace=True)
        upload = next(iter(server.uploads.values()))
        whole = bytes(upload["data"])
        del upload["data"][5000:]
        upload["data"][4000] ^= 1
        with self.assertRaisesRegex(exchange.ExchangeError, "replace=True"):
            self.client(server).push(other)
        self.client(server).push(other, replace=True)
        self.assertEqual([len(one["data"]) for one in server.uploads.values()], [len(whole)])
        self.client(server).push(other)  # the server has all bytes of it

    def test_what_the_server_has_is_not_sent_again(self):
        server = self.serve()
        self.client(server).push(model())
        server.patches = 0
        self.client(server).push(model())
        self.assertEqual(server.patches, 0)

    def test_limits_of_servers_and_proxies_are_kept(self):
        server = self.serve()
        tensors = {"w": exchange.Tensor("U8", (100000,), noise(100000))}
        server.max_request = server.proxy_limit = 700
        self.client(server).push(model())
        server.begin_again()
        server.chunk_bytes, server.max_request, server.proxy_limit = 1 << 20, None, 30000
        self.client(server).push(tensors)
        self.assertEqual(len(server.content("update.safetensors")), next(iter(server.uploads.values()))["length"])

    def test_refusals(self):
        for lie, status, text in (
                ("late", 409, "round is over"), ("late-patch", 409, "round is over"), ("refused", 422, "another shape"),
                ("quota", 413, "quota"), ("full", 507, "disk"), ("forbidden", 403, "name"),
                ("state-failed", None, "failed"), ("location-none", None, "where to send"),
                ("location-path", None, "where to send"), ("offset-beyond", None, "invalid offset"),
                ("offset-twice", None, "invalid offset"), ("offset-none", None, "invalid offset"),
                ("length-other", None, "invalid offset"), ("swallow", None, "does not confirm"),
                ("mismatch-always", 460, "of this chunk"), ("upload-forgotten", None, "forgot"),
                ("backwards", 503, "tried 3 times"), ("silent", None, "tried 3 times"), ("redirect", 307, "redirects"),
                ("drip", None, "less than 1 KiB"), ("endless-header", None, "failed"), ("garbage", None, "failed"),
                ("continues", None, "more than")):
            with self.subTest(lie):
                server = self.serve(lie)
                server.chunk_bytes = 1000
                limits = {"timeout": 1.0, "retries": 1 if lie == "silent" else 2}
                with self.assertRaises(exchange.ExchangeError) as caught:
                    self.client(server, **limits).push(model())
                self.assertIn(text.replace("3", "2") if lie == "silent" else text, str(caught.exception))
                self.assertEqual(caught.exception.status, status)
                self.assertTrue(str(caught.exception).isprintable())

    def test_bad_arguments(self):
        server = self.serve()
        client = self.client(server)
        for words in ({"w": 1}, {"w": exchange.Tensor("F32", (2,), b"1")}, {"w": exchange.Tensor("F4", (2,), b"1")}):
            with self.assertRaisesRegex(ValueError, "parameter 'w'"):
                client.push(words)
        for weight in (-1, 0, float("nan"), "1", True, 1j):
            with self.assertRaisesRegex(ValueError, "weight"):
                client.push(model(), weight=weight)
        for url in ("ftp://x", "http://", "http://user:pw@x", "http://x/?a", "http://x/\r\n", "x"):
            with self.assertRaises(ValueError):
                exchange.Client(url, client="a")
        with self.assertRaisesRegex(ValueError, "not a name"):
            exchange.Client(server.base, client="../a")


class Pull(Exchanges):
    def test_all_bytes_arrive(self):
        for lie in ("", "short", "unavailable", "no-ranges"):
            with self.subTest(lie):
                client = self.client(self.serve(lie))
                self.assertEqual(plain(client.pull(framework="raw")), plain(model()))
                self.assertEqual(client.round, 0)

    def test_shards(self):
        server = self.serve()
        tensors = model()
        server.files = {"model.safetensors.index.json": b"{}", "a.safetensors": as_file({"w": tensors.pop("w")}),
                        "b.safetensors": as_file(tensors)}
        self.assertEqual(plain(self.client(server).pull(framework="raw")), plain(model()))
        server.files["c.safetensors"] = server.files["a.safetensors"]
        with self.assertRaisesRegex(exchange.ExchangeError, "in two files"):
            self.client(server).pull(framework="raw")

    def test_lies(self):
        for lie, text in (
                ("name-path", "invalid"), ("name-hidden", "invalid"), ("name-long", "invalid"), ("name-empty", "invalid"),
                ("size-huge", "invalid"), ("size-real", "invalid"), ("digest-short", "invalid"), ("file-twice", "invalid"),
                ("files-none", "invalid"), ("files-many", "invalid"), ("size-more", "more or fewer bytes"),
                ("size-less", "more or fewer bytes"), ("digest-other", "differs from its list"), ("etag", "differs from its list"),
                ("etag-later", "differs from its list"), ("range-shifted", "a range that was not requested"), ("damaged", "another SHA-256"),
                ("zipped", "compressed"), ("less", "more or fewer bytes"), ("never-more", "tried 3 times"),
                ("byte-each", "tried 3 times"),
                ("kept-no-longer", "newest two rounds"), ("more", "more bytes")):
            with self.subTest(lie), self.assertRaises(exchange.ExchangeError) as caught:
                self.client(self.serve(lie), **QUICK).pull(framework="raw")
            self.assertIn(text, str(caught.exception), lie)
        with self.assertRaisesRegex(exchange.ExchangeError, "invalid"):
            self.client(self.serve("round-other")).pull(0, framework="raw")

    def test_files_that_are_no_safetensors(self):
        entry = {"dtype": "U8", "shape": [2], "data_offsets": [0, 2]}
        for header, data in ((None, b"short"), (None, b"PK\3\4 zip archive"), ("[]", b""), ("{", b""),
                             ('{"a": 1}', b""), (json.dumps({"a": entry}), b"123"), (json.dumps({"a": entry}), b"1"),
                             (json.dumps({"a": dict(entry, shape=[3])}), b"12"), ("[" * 5000, b""),
                             (json.dumps({"a": dict(entry, shape=[-2])}), b"12"),
                             (json.dumps({"a": dict(entry, dtype="X9")}), b"12"),
                             (json.dumps({"a": dict(entry, dtype=["U8"])}), b"12"),
                             (json.dumps({"a": dict(entry, data_offsets=[1, 3])}), b"123"),
                             (json.dumps({"a": dict(entry, shape=[1] * 65)}), b"12"),
                             ('{"a": %s, "a": %s}' % ((json.dumps(entry),) * 2), b"12")):
            server = self.serve()
            text = (header or "").encode()
            server.files = {"m": data if header is None else struct.pack("<Q", len(text)) + text + data}
            with self.subTest(header), self.assertRaisesRegex(exchange.ExchangeError, "not a safetensors file"):
                self.client(server).pull(framework="raw")

    def test_into_tensors_that_are_there(self):
        server = self.serve()
        place = {name: exchange.Tensor(kind, shape, bytearray(len(data))) for name, (kind, shape, data) in model().items()}
        found = self.client(server).pull(into=place)
        self.assertTrue(all(found[name] is place[name] for name in place))
        self.assertEqual(plain(place), plain(model()))
        with self.assertRaisesRegex(exchange.ExchangeError, "no tensor"):
            self.client(server).pull(into={})
        with self.assertRaisesRegex(exchange.ExchangeError, "other tensors"):
            self.client(server).pull(into=dict(place, more=place["w"]))
        with self.assertRaisesRegex(ValueError, "the model has"):
            self.client(server).pull(into=dict(place, s=exchange.Tensor("F32", (2,), bytearray(8))))

    def test_after_a_failure_the_next_call_begins_afresh(self):
        server = self.serve()
        client = self.client(server, retries=0)
        for name in model():
            place = {key: exchange.Tensor(kind, shape, bytearray(len(data))) for key, (kind, shape, data) in model().items()}
            place[name] = exchange.Tensor("F16", (1,), bytearray(2))
            with self.assertRaisesRegex(ValueError, "the model has"):
                client.pull(into=place)
            self.assertEqual(plain(client.pull(framework="raw")), plain(model()))
        with unittest.mock.patch.object(exchange._Layout, "pieces", side_effect=RuntimeError("no memory")):
            with self.assertRaisesRegex(RuntimeError, "no memory"):
                client.push(model())
        self.assertEqual(plain(client.pull(framework="raw")), plain(model()))
        with unittest.mock.patch.object(_exchange_http.Connection, "finish", side_effect=KeyboardInterrupt):
            with self.assertRaises(KeyboardInterrupt):  # between an answer and its body
                client.pull()
        self.assertEqual(plain(client.pull(framework="raw")), plain(model()))


class Patience(unittest.TestCase):
    def test_only_time_in_which_the_client_waits_for_the_server_counts(self):
        now, waits = [0.0], [1, 2, 20, 21]

        class Socket:
            @staticmethod
            def readinto(_buffer):
                now[0] += waits.pop(0)
                return 1

        with unittest.mock.patch.object(_exchange_http.time, "monotonic", lambda: now[0]):
            reader = _exchange_http._Patience(Socket, 40.0)  # pylint: disable=protected-access
            for _ in range(3):
                self.assertEqual(reader.readinto(bytearray(9)), 1)
                now[0] += 3600
            with self.assertRaises(OSError):
                reader.readinto(bytearray(9))
        self.assertFalse(waits)


class State(Exchanges):
    def test_status(self):
        self.assertEqual(self.client(self.serve()).status()["rounds"], 2)

    def test_lies(self):
        for lie in ("state-text", "state-schema", "state-phase", "state-huge", "state-negative", "state-missing",
                    "state-latin", "state-limit"):
            with self.subTest(lie), self.assertRaisesRegex(exchange.ExchangeError, "is it an flmem exchange"):
                self.client(self.serve(lie), **QUICK).status()

    def test_wait(self):
        client = self.client(self.serve())
        self.assertEqual(client.wait(0)["published_round"], 0)
        with self.assertRaises(TimeoutError):
            client.wait(1, timeout=0.3)
        with self.assertRaisesRegex(exchange.ExchangeError, "will not publish"):
            client.wait(9)
        gone = self.serve()
        gone.close()
        with self.assertRaises(TimeoutError):
            self.client(gone).wait(1, timeout=0.3)
        with self.assertRaisesRegex(exchange.ExchangeError, "failed"):
            self.client(self.serve("state-failed")).wait(1)

    def test_files_of_certificates(self):
        for words, name in (({"cafile": "absent.pem"}, "absent.pem"), ({"cert": "absent.crt"}, "absent.crt"),
                            ({"cafile": os.devnull}, os.devnull)):
            with self.assertRaisesRegex(ValueError, f"cannot use the .*{name}"):
                exchange.Client("https://127.0.0.1:1", **words)

    def test_tokens(self):
        server = self.serve()
        server.token = "s3cret"
        with self.assertRaises(exchange.ExchangeError) as caught:
            self.client(server).status()
        self.assertEqual(caught.exception.status, 401)
        self.assertEqual(self.client(server, token="s3cret").status()["round"], 0)
        for url, token in (("http://192.0.2.1", "x"), ("http://127.0.0.1.example.org", "x"), (server.base, "a b")):
            with self.assertRaisesRegex(ValueError, "token"):
                exchange.Client(url, token=token)

    def test_a_server_that_restarts(self):
        """Serves the same port again while the client waits between its tries."""
        server = self.serve("silent")
        server.lie = ""
        server.chunk_bytes = 500
        client = self.client(server, timeout=5.0, retries=10)
        client.status()
        port = server.server_address[1]
        server.close()
        client.close()
        found = []
        thread = threading.Thread(target=lambda: found.append(client.push(model())))
        thread.start()
        time.sleep(0.1)
        again = exchange_fake.Server(port=port)
        self.addCleanup(again.close)
        thread.join(60)
        self.assertEqual(found, [0])


@unittest.skipIf(numpy is None, "no NumPy for this Python")
class Arrays(Exchanges):
    def test_round_trip(self):
        values = {"a": numpy.arange(6, dtype="f4").reshape(2, 3), "t": numpy.arange(6, dtype="f8").reshape(2, 3).T,
                  "s": numpy.float32(3), "e": numpy.zeros((0, 2), "i4")}
        server = self.serve()
        self.client(server).push(values)
        server.files = {"m": server.content("update.safetensors")}
        found = self.client(server).pull(framework="numpy")
        for name, value in values.items():
            numpy.testing.assert_array_equal(found[name], value)
            self.assertEqual(found[name].dtype, value.dtype)
        found["a"][0] = 7  # the tensor can be written to
        place = {"a": numpy.zeros((2, 3), "f4"), "t": numpy.zeros((3, 2)).T.copy().T, "s": numpy.zeros((), "f4"),
                 "e": numpy.zeros((0, 2), "i4")}
        place["t"] = numpy.zeros((2, 3)).T
        self.client(server).pull(into=place)
        numpy.testing.assert_array_equal(place["t"], values["t"])

    def test_a_type_that_numpy_lacks(self):
        with self.assertRaisesRegex(ValueError, "NumPy has no type for BF16"):
            self.client(self.serve()).pull(framework="numpy")


@unittest.skipIf(torch is None, "no PyTorch for this Python")
class Torch(Exchanges):
    def test_round_trip(self):
        values = {"w": torch.randn(30, 40), "t": torch.randn(4, 5).t(), "h": torch.randn(9).to(torch.bfloat16),
                  "n": torch.tensor(5), "b": torch.tensor([True, False]), "e": torch.empty(0, 3)}
        server = self.serve()
        self.client(server).push(values)
        server.files = {"m": server.content("update.safetensors")}
        found = self.client(server).pull()
        gc.collect()
        for name, value in values.items():
            self.assertEqual(found[name].dtype, value.dtype)
            self.assertTrue(torch.equal(found[name], value), name)

    def test_into_a_model(self):
        source, target = torch.nn.Linear(7, 5), torch.nn.Linear(7, 5)
        server = self.serve()
        self.client(server).push(source.state_dict())
        server.files = {"m": server.content("update.safetensors")}
        self.client(server).pull(into=target.state_dict())
        self.assertTrue(torch.equal(source.weight, target.weight) and torch.equal(source.bias, target.bias))
        strided = {"weight": torch.zeros(7, 5).t(), "bias": torch.zeros(5)}
        self.client(server).pull(into=strided)
        self.assertTrue(torch.equal(source.weight, strided["weight"]))

    @unittest.skipUnless(hasattr(torch, "resolve_neg"), "a version of PyTorch without such views")
    def test_views_with_negated_memory(self):
        value = torch.complex(torch.zeros(1), torch.ones(1)).conj().imag
        self.assertTrue(value.is_neg() and value.is_contiguous())
        server = self.serve()
        self.client(server).push({"v": value})
        server.files = {"m": server.content("update.safetensors")}
        self.assertEqual(self.client(server).pull()["v"].tolist(), [-1])
        place = torch.zeros(1, dtype=torch.complex64).conj().imag
        self.client(server).pull(into={"v": place})
        self.assertEqual(place.tolist(), [-1])

    def test_what_is_more_than_its_memory(self):
        class Wrapped(torch.Tensor):  # like MaskedTensor and DTensor of PyTorch
            @classmethod
            def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
                raise NotImplementedError

        client = self.client(self.serve())
        wrapped = torch.Tensor._make_wrapper_subclass(Wrapped, (4,))  # pylint: disable=protected-access
        with self.assertRaisesRegex(ValueError, "parameter 'w': unsupported type Wrapped"):
            client.push({"w": wrapped})
        with self.assertRaisesRegex(ValueError, "parameter 'w': a masked array"):
            client.push({"w": numpy.ma.masked_array([1.0, 2.0], [0, 1])})


if __name__ == "__main__":
    unittest.main()
