# SPDX-License-Identifier: Apache-2.0
"""Tests flmem.inspect, flmem.diff and flmem.convert, with the standard library alone."""

import json
import os
import signal
import struct
import tempfile
import threading
import unittest

import flmem


def write(path, values, kind="F32", code="f"):
    data = struct.pack(f"<{len(values)}{code}", *values)
    header = {"w": {"dtype": kind, "shape": [len(values)], "data_offsets": [0, len(data)]}}
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


def write_hole(path, elements):
    """Writes F64 numbers as a hole that takes no room on the disk."""
    text = json.dumps({"w": {"dtype": "F64", "shape": [elements], "data_offsets": [0, elements * 8]}}).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        file.truncate(8 + len(text) + elements * 8)


class Models(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()  # pylint: disable=consider-using-with
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.model, self.out = self.path("model"), self.path("out")
        write(self.model, [1, 2, -4.5])

    def path(self, name):
        return os.path.join(self.folder, name)

    def test_inspect(self):
        found = flmem.inspect(self.model, stats=True)
        self.assertEqual((found["path"], found["format"], found["tensor_count"]), (self.model, "safetensors", 1))
        tensor = found["tensors"][0]
        self.assertEqual((tensor["name"], tensor["dtype"], tensor["shape"]), ("w", "F32", [3]))
        self.assertEqual((tensor["statistics"]["min"], tensor["statistics"]["max"]), (-4.5, 2))
        bare = flmem.inspect(os.fsencode(self.model), headers_only=True)
        self.assertIsNone(bare["tensors"][0]["crc32c"])
        self.assertIsNotNone(flmem.inspect(self.model)["files"][0]["crc32c"])

    def test_diff(self):
        write(self.out, [1, 2.5, -4.5])
        found = flmem.diff(self.model, self.out)
        self.assertEqual((found["exceeding"], found["differing"][0]["absolute"]), (1, 0.5))
        self.assertEqual(flmem.diff(self.model, self.out, tolerance=1)["exceeding"], 0)
        self.assertEqual(flmem.diff(self.model, self.model)["differing"], [])
        self.assertEqual(flmem.diff(self.model, self.out, threads=1), found)
        with self.assertRaisesRegex(ValueError, "accepts at most 32"):
            flmem.diff(self.model, self.out, threads=33)
        with self.assertRaisesRegex(ValueError, "accepts at most 32"):
            flmem.inspect(self.model, threads=33)

    def test_convert(self):
        found = flmem.convert(self.model, self.out, dtype="fp16")
        self.assertEqual((found["converted"], found["resumed_bytes"], found["restarted"]), (1, 0, False))
        self.assertEqual(flmem.inspect(self.out)["tensors"][0]["dtype"], "F16")
        self.assertEqual(flmem.inspect(self.out)["files"][0]["crc32c"], found["crc32c"])
        flmem.convert(self.model, self.path("shards"), shard_bytes=1 << 20)
        self.assertEqual(flmem.diff(self.model, self.path("shards"))["exceeding"], 0)
        flmem.convert(self.model, self.out, resume=True)
        self.assertEqual(flmem.diff(self.model, self.out)["exceeding"], 0)

    def test_errors(self):
        missing = self.path("missing")
        calls = (
            lambda path: flmem.inspect(path),  # pylint: disable=unnecessary-lambda
            lambda path: flmem.diff(self.model, path),
            lambda path: flmem.convert(path, self.out),
        )
        for call in calls:
            with self.assertRaisesRegex(ValueError, "missing"):
                call(missing)
            with self.assertRaisesRegex(ValueError, "null byte"):
                call("a\0b")
            with self.assertRaisesRegex(TypeError, "not None"):
                call(None)
        for wrong in (
            lambda: flmem.inspect(self.model, stats=True, headers_only=True),
            lambda: flmem.inspect(self.model, key="state_dict\0"),
            lambda: flmem.diff(self.model, self.model, tolerance=-1),
            lambda: flmem.convert(self.model, self.out, dtype="i8"),
            lambda: flmem.convert(self.model, self.out, shard_bytes=-1),
            lambda: flmem.convert(self.model, self.out, shard_bytes=0),
            lambda: flmem.convert(self.model, self.path("x.npy")),
            lambda: flmem.inspect("http://127.0.0.1:9/x", headers=["Range: bytes=0-1"]),
        ):
            self.assertRaises((ValueError, OSError), wrong)
        with self.assertRaises((ValueError, OSError)):
            flmem.convert(self.model, self.path("none/out"))
        self.assertEqual(sorted(os.listdir(self.folder)), ["model"])

    def every_call(self, progress):
        """Interrupts the work on a model that takes several times longer than a first report."""
        large = self.path("large")
        write_hole(large, 1 << 30)
        return (
            lambda: flmem.inspect(large, stats=True, progress=progress),
            lambda: flmem.diff(large, large, progress=progress),
            lambda: flmem.convert(large, self.out, dtype="f16", progress=progress),
        )

    def test_progress_stops_it(self):
        seen = []

        def stop(done, total):
            seen.append((done, total))
            return False
        for call in self.every_call(stop):
            seen.clear()
            with self.assertRaisesRegex(OSError, "stopped before"):
                call()
            self.assertEqual(len(seen), 1)
            self.assertTrue(0 < seen[0][0] <= seen[0][1], seen)

    def test_an_exception_is_passed_on(self):
        def fail(_done, _total):
            raise KeyError("from progress")
        for call in self.every_call(fail):
            self.assertRaisesRegex(KeyError, "from progress", call)

    def test_ctrl_c(self):
        def interrupt(_done, _total):
            os.kill(os.getpid(), signal.SIGINT)
        for call in self.every_call(interrupt):
            self.assertRaises(KeyboardInterrupt, call)

    def test_other_threads_go_on(self):
        called, ran = threading.Event(), threading.Event()

        def other():
            called.wait()
            ran.set()

        def progress(_done, _total):
            called.set()
            return not ran.is_set()
        for call in self.every_call(progress):
            called.clear()
            ran.clear()
            thread = threading.Thread(target=other, daemon=True)
            thread.start()
            with self.assertRaises(OSError):
                call()
            thread.join()


if __name__ == "__main__":
    unittest.main()
