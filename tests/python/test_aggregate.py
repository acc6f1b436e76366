# SPDX-License-Identifier: Apache-2.0
"""flmem.aggregate, with the standard library alone."""

import json
import os
import signal
import struct
import tempfile
import threading
import time
import unittest

import flmem


def write(path, values, kind="F32", code="f"):
    data = struct.pack(f"<{len(values)}{code}", *values)
    header = {"w": {"dtype": kind, "shape": [len(values)], "data_offsets": [0, len(data)]}}
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


def read(path, code="f"):
    with open(path, "rb") as file:
        content = file.read()
    start = 8 + struct.unpack("<Q", content[:8])[0]
    count = (len(content) - start) // struct.calcsize(code)
    return list(struct.unpack(f"<{count}{code}", content[start:]))


class Aggregate(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()  # pylint: disable=consider-using-with
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.inputs = [self.path(f"client-{number}") for number in range(7)]
        for number, path in enumerate(self.inputs):
            write(path, [number, number * number, -number])
        self.out = self.path("out")

    def path(self, name):
        return os.path.join(self.folder, name)

    def test_mean(self):
        result = flmem.aggregate(self.inputs[:3], None, self.out)
        self.assertEqual(read(self.out), [1, struct.unpack("f", struct.pack("f", 5 / 3))[0], -1])
        self.assertEqual(result["schema"], "flmem.aggregate/1")
        self.assertEqual([one["path"] for one in result["inputs"]], self.inputs[:3])

    def test_every_argument_reaches_the_library(self):
        result = flmem.aggregate(self.inputs[:2], [3, 1], self.out, chunk_bytes=131072, threads=2)
        self.assertEqual(read(self.out), [0.25, 0.25, -0.25])
        self.assertEqual((result["chunk_bytes"], result["threads"]), (131072, 2))
        flmem.aggregate(self.inputs[:5], None, self.out, algorithm="trimmed-mean", trim=0.4)
        self.assertEqual(read(self.out), [2, 4, -2])
        result = flmem.aggregate(self.inputs, [1] * 7, self.out, algorithm="multi-krum", hostile=1, keep=2)
        self.assertEqual(sum(one["skipped"] is None for one in result["inputs"]), 2)
        zero = self.path("zero")
        write(zero, [0, 0, 0])
        flmem.aggregate([self.inputs[3]], None, self.out, algorithm="norm-clipped-mean", base=zero,
                        clip_norm=1)
        self.assertAlmostEqual(sum(value * value for value in read(self.out)), 1, places=5)
        one, state = [self.inputs[1]], self.path("state")
        flmem.aggregate(one, None, self.out, algorithm="fedavgm", base=zero, state=state, server_rate=0.5)
        self.assertEqual(read(self.out), [0.5, 0.5, -0.5])
        flmem.aggregate(one, None, self.out, algorithm="fedavgm", state=state, server_rate=0.5, beta1=0)
        self.assertEqual(read(self.out), [0.75, 0.75, -0.75])
        flmem.aggregate(one, None, self.out, algorithm="fedadam", base=zero, state=self.path("adam"),
                        server_rate=1, beta1=0, beta2=0, tau=1)
        self.assertEqual(read(self.out), [0.5, 0.5, -0.5])
        write(self.path("nan"), [float("nan"), 1, 1])
        flmem.aggregate([self.inputs[1], self.path("nan")], None, self.out, nan="skip-client")
        self.assertEqual(read(self.out), [1, 1, -1])
        for number, name in enumerate(("a", "b")):
            write(self.path(name), [number, 2], "I32", "i")
        flmem.aggregate([self.path("b"), self.path("a")], None, self.out, non_float="first")
        self.assertEqual(read(self.out, "i"), [1, 2])
        flmem.aggregate([self.path("b"), self.path("a")], None, self.out, algorithm="sum")
        self.assertEqual(read(self.out, "i"), [1, 4])

    def test_errors(self):
        for arguments, words in (
                ((self.inputs[:2], [1], self.out), "1 weights for 2 inputs"),
                (([], None, self.out), "no input is named"),
                (([self.path("none")], None, self.out), "cannot read"),
                ((["a\0b"], None, self.out), "null byte")):
            with self.assertRaisesRegex(ValueError, words):
                flmem.aggregate(*arguments)
        for options, words in (({"nan": "maybe"}, "choose from"), ({"threads": -1}, "invalid threads"),
                               ({"trim": 0, "algorithm": "trimmed-mean"}, "invalid trim 0; expected more than 0"),
                               ({"clip_norm": 0.0, "algorithm": "norm-clipped-mean"}, "invalid clip_norm 0.0"),
                               ({"server_rate": 0, "algorithm": "fedadam"}, "invalid server_rate 0"),
                               ({"tau": 0, "algorithm": "fedadam"}, "invalid tau 0"),
                               ({"hostile": 0, "algorithm": "krum"}, "invalid hostile 0; expected 1 or more, or None"),
                               ({"keep": 0, "algorithm": "multi-krum"}, "invalid keep 0; expected 1 or more"),
                               ({"threads": 0}, "invalid threads 0"), ({"chunk_bytes": 0}, "invalid chunk_bytes 0"),
                               ({"shard_bytes": 0}, "invalid shard_bytes 0"), ({"shard_bytes": -1}, "shard_bytes -1"),
                               ({"algorithm": "x"}, "unknown algorithm 'x'; choose from fedavg, .*, bulyan$")):
            with self.assertRaisesRegex(ValueError, words):
                flmem.aggregate(self.inputs, None, self.out, **options)
        for arguments in (([1], None, self.out), ([None], None, self.out), (self.inputs, None, None)):
            with self.assertRaises(TypeError):
                flmem.aggregate(*arguments)
        with self.assertRaisesRegex(TypeError, "progress is a function"):
            flmem.aggregate(self.inputs, None, self.out, progress=5)
        with self.assertRaisesRegex(ValueError, "null byte in a header"):
            flmem.aggregate(self.inputs, None, self.out, headers=["A: b\0"])
        with self.assertRaisesRegex(TypeError, "list of paths"):
            flmem.aggregate(self.inputs[0], None, self.out)
        with self.assertRaisesRegex(TypeError, "list of lines"):
            flmem.aggregate(self.inputs, None, self.out, headers="Authorization: x")
        self.assertFalse(os.path.exists(self.out))

    def long_call(self, progress):
        """Makes a call that cannot end before `progress` was called."""
        large = self.path("large")
        with open(large, "wb") as file:  # the file is a hole, which reads as zeros
            size = 256 << 20
            text = json.dumps({"w": {"dtype": "F32", "shape": [size // 4],
                                     "data_offsets": [0, size]}}).encode()
            file.write(struct.pack("<Q", len(text)) + text)
            file.truncate(8 + len(text) + size)
        return flmem.aggregate([large] * 64, None, self.out, algorithm="median", progress=progress)

    def test_progress_stops_it(self):
        calls = []

        def stop(done, total):
            calls.append((done, total))
            return False
        with self.assertRaisesRegex(OSError, "^stopped before.*--resume"):
            self.long_call(stop)
        self.assertEqual(calls[0][1], 64 * 256 << 20)
        self.assertFalse(os.path.exists(self.out))

    def test_an_exception_is_passed_on(self):
        def interrupt(_done, _total):
            raise KeyboardInterrupt
        with self.assertRaises(KeyboardInterrupt):
            self.long_call(interrupt)

    def test_ctrl_c(self):
        """Interrupts the call in the library, with and without progress."""
        for with_progress in (False, True):
            began = threading.Event()

            def interrupt():
                while not os.path.exists(self.out + ".part"):  # the call is in the library
                    time.sleep(0.01)
                began.set()
                os.kill(os.getpid(), signal.SIGINT)
            thread = threading.Thread(target=interrupt)
            thread.start()
            with self.assertRaises(KeyboardInterrupt):
                self.long_call((lambda done, total: True) if with_progress else None)
            thread.join()
            self.assertTrue(began.is_set())
            os.unlink(self.out + ".part")

    def test_other_threads_go_on(self):
        ran = threading.Event()
        called = threading.Event()

        def other():
            called.wait()
            ran.set()
        thread = threading.Thread(target=other)
        thread.start()

        def progress(_done, _total):
            if called.is_set():  # the thread ran all the time between two calls
                return not ran.is_set()
            called.set()
            return True
        with self.assertRaises(OSError):
            self.long_call(progress)
        thread.join()
        self.assertTrue(ran.is_set())


if __name__ == "__main__":
    unittest.main()
