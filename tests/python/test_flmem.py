# SPDX-License-Identifier: Apache-2.0
"""Tests the Python module with the built library and each allocator that is installed here."""
import inspect
import json
import logging
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import types
import typing
import unittest
from unittest import mock

import flmem
from flmem import _library

# The contract: the functions of nvflare.fuel.utils.memory_utils in NVFlare 2.7's documentation.
NVFLARE_SIGNATURES = {
    "cleanup_memory": "(cuda_empty_cache: bool = False) -> None",
    "get_allocator_type": "() -> str",
    "try_malloc_trim": "() -> Optional[int]",
}

LIBRARIES = "/usr/lib/%s-linux-gnu/" % os.uname().machine
PRELOADS = {
    "jemalloc": LIBRARIES + "libjemalloc.so.2",
    "tcmalloc": LIBRARIES + "libtcmalloc_minimal.so.4",
    "tcmalloc, full": LIBRARIES + "libtcmalloc.so.4",
    "mimalloc": LIBRARIES + "libmimalloc.so.2",
}

# Allocates blocks of tensor size and small ones through malloc itself, and frees every other one
# last, so that the allocator keeps pages that it could return.
WORKLOAD = """
import ctypes, json, os, sys
import flmem

def rss():
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGESIZE")

libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
libc.malloc.argtypes = [ctypes.c_size_t]
libc.free.argtypes = [ctypes.c_void_p]
libc.memset.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t]

def churn():
    blocks = []
    for i in range(20000):
        size = 6000 + (i % 7) * 1500
        block = libc.malloc(size)
        libc.memset(block, 1, size)
        blocks.append(block)
    last = blocks.pop()
    for block in blocks:
        libc.free(block)
    return last

churn()
before = rss()
answer = {"name": flmem.allocator_name(), "type": flmem.get_allocator_type(), "before": before}
if "trim" in sys.argv:
    answer["trim"] = flmem.try_malloc_trim()
else:
    answer["result"] = flmem.cleanup_memory()
answer["after"] = rss()
print(json.dumps(answer))
"""


def run(code, *arguments, preload=None, **environment):
    """Runs code in a fresh interpreter of the same version; returns the finished process."""
    env = dict(os.environ, **environment)
    # Keep allocators from returning memory by themselves, which would blur the measurement.
    env["MALLOC_CONF"] = "dirty_decay_ms:-1,muzzy_decay_ms:-1"
    env["MALLOC_TRIM_THRESHOLD_"] = str(1 << 40)
    env["MALLOC_MMAP_THRESHOLD_"] = str(1 << 25)
    env["MIMALLOC_PAGE_RESET"] = "0"
    if preload:
        env["LD_PRELOAD"] = preload
    return subprocess.run([sys.executable, "-B", "-c", code, *arguments], env=env, timeout=120,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True)


def answer_of(test, *arguments, **options):
    done = run(WORKLOAD, *arguments, **options)
    test.assertEqual(done.returncode, 0, done.stderr)
    return json.loads(done.stdout)


class Contract(unittest.TestCase):
    def test_signatures_are_those_of_nvflare(self):
        for name, expected in NVFLARE_SIGNATURES.items():
            signature = str(inspect.signature(getattr(flmem, name)))
            # Python 3.14 prints Optional[int] as a union.
            signature = re.sub(r"typing\.|Union\[int, None\]|int \| None",
                               lambda m: "" if m.group() == "typing." else "Optional[int]",
                               signature)
            signature = signature.replace("Union[int, NoneType]", "Optional[int]")
            self.assertEqual(signature, expected)
            self.assertIn(name, flmem.__all__)

    def test_annotations_resolve(self):
        hints = typing.get_type_hints(flmem.try_malloc_trim)
        self.assertEqual(hints, {"return": typing.Optional[int]})

    def test_every_function_is_documented(self):
        for name in flmem.__all__:
            self.assertTrue(inspect.getdoc(getattr(flmem, name)))

    def test_versions_agree(self):
        source = os.environ["FLMEM_SOURCE"]
        with open(os.path.join(source, "libcore/bindings/python/pyproject.toml")) as project:
            self.assertIn('version = "%s"' % os.environ["FLMEM_VERSION"], project.read())

    def test_the_error_has_the_size_that_the_header_says(self):
        header = os.path.join(os.environ["FLMEM_SOURCE"], "libcore/include/flmem/error.h")
        with open(header) as text:
            size = re.search(r"#define FLMEM_ERROR_MESSAGE_MAX (\d+)", text.read()).group(1)
        self.assertEqual(_library._MESSAGE_MAX, int(size))


class Allocators(unittest.TestCase):
    def check_release(self, answer):
        """Checks that most of some 200 MB of freed memory was returned."""
        self.assertGreater(answer["before"], 150 << 20, answer)
        self.assertLess(answer["after"], answer["before"] - (100 << 20), answer)

    def test_glibc(self):
        answer = answer_of(self)
        self.assertEqual((answer["name"], answer["type"]), ("glibc", "glibc"))
        self.assertIsNone(answer["result"])
        self.check_release(answer)

    def test_glibc_trim_says_whether_memory_went_back(self):
        answer = answer_of(self, "trim")
        self.assertEqual(answer["trim"], 1)
        self.check_release(answer)

    def test_preloaded(self):
        for label, path in PRELOADS.items():
            with self.subTest(label):
                if not os.path.exists(path):
                    self.skipTest("%s is not installed" % path)
                name = label.split(",")[0]
                answer = answer_of(self, preload=path)
                self.assertEqual(answer["name"], name)
                self.assertEqual(answer["type"], name if name == "jemalloc" else "unknown")
                self.check_release(answer)

    def test_malloc_trim_is_not_called_for_others(self):
        for label, path in PRELOADS.items():
            with self.subTest(label):
                if not os.path.exists(path):
                    self.skipTest("%s is not installed" % path)
                answer = answer_of(self, "trim", preload=path)
                self.assertIsNone(answer["trim"])

    def test_many_threads_at_once(self):
        names = []
        threads = [threading.Thread(target=lambda: (names.append(flmem.get_allocator_type()),
                                                    flmem.cleanup_memory()))
                   for _ in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(set(names), {"glibc"})


class Collection(unittest.TestCase):
    def test_garbage_is_collected_first(self):
        class Node:
            alive = 0

            def __init__(self):
                Node.alive += 1
                self.me = self

            def __del__(self):
                Node.alive -= 1

        for _ in range(10):
            Node()
        order = []
        with mock.patch.object(flmem.gc, "collect", wraps=flmem.gc.collect) as collect, \
                mock.patch.object(flmem, "_release_heap") as release:
            collect.side_effect = lambda: order.append("collect") or mock.DEFAULT
            release.side_effect = lambda _flags: order.append("release")
            flmem.cleanup_memory()
        self.assertEqual(order, ["collect", "release"])
        self.assertEqual(Node.alive, 0)


    def test_what_was_freed_is_logged_at_nvflares_level(self):
        for freed, expected in ((7, True), (0, False)):
            with mock.patch.object(flmem.gc, "collect", return_value=freed), \
                    self.assertLogs("flmem", logging.DEBUG) as logs:
                flmem.cleanup_memory()
            self.assertEqual("INFO:flmem:gc.collect() freed 7 unreachable objects" in logs.output,
                             expected)
            self.assertNotIn("WARNING", "".join(logs.output))


# An nvflare with the module of the contract, a module that imported a function before, and one
# after.
NVFLARE = {
    "nvflare/__init__.py": "",
    "nvflare/fuel/__init__.py": "",
    "nvflare/fuel/utils/__init__.py": "",
    "nvflare/fuel/utils/memory_utils.py": "def cleanup_memory(cuda_empty_cache=False): pass\n"
                                          "def get_allocator_type(): return 'theirs'\n"
                                          "def try_malloc_trim(): return 0\n",
    "nvflare/before.py": "from nvflare.fuel.utils.memory_utils import cleanup_memory as clean\n",
    "nvflare/after.py": "from nvflare.fuel.utils.memory_utils import cleanup_memory\n",
    "mine.py": "from nvflare.fuel.utils.memory_utils import cleanup_memory\n",
}


class Install(unittest.TestCase):
    def run_with(self, files, code, **environment):
        with tempfile.TemporaryDirectory() as directory:
            for name, text in files.items():
                path = os.path.join(directory, name)
                os.makedirs(os.path.dirname(path), exist_ok=True)
                with open(path, "w") as file:
                    file.write(text)
            done = run("import sys; sys.path.insert(0, %r)\n" % directory + code, **environment)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done

    def test_nvflare_uses_what_is_installed(self):
        done = self.run_with(NVFLARE, """
import nvflare.before, mine, flmem
print(flmem.install(), flmem.install(), flmem.Installer().installed)
import nvflare.after
from nvflare.fuel.utils import memory_utils
print(nvflare.before.clean is nvflare.after.cleanup_memory is memory_utils.cleanup_memory
      is flmem.cleanup_memory)
print(memory_utils.get_allocator_type(), memory_utils.try_malloc_trim is flmem.try_malloc_trim)
print(mine.cleanup_memory is flmem.cleanup_memory)
""")
        # Functions that are not NVFlare's are not replaced.
        self.assertEqual(done.stdout, "True True True\nTrue\nglibc True\nFalse\n")
        self.assertEqual(done.stderr, "")

    def test_without_nvflare_nothing_is_done_and_that_is_logged(self):
        older = {k: v for k, v in NVFLARE.items() if "memory_utils.py" not in k}
        other = dict(NVFLARE)
        other["nvflare/fuel/utils/memory_utils.py"] = "def cleanup_memory(): pass\n"
        for files in ({}, {k: v for k, v in older.items() if "fter" not in k}, other):
            done = self.run_with(files, "import flmem; print(flmem.install())")
            self.assertEqual(done.stdout, "False\n")
            self.assertIn("NVFlare keeps its own clean-up", done.stderr)

    def test_without_the_library_nvflare_keeps_its_own(self):
        done = self.run_with(NVFLARE, """
import flmem
print(flmem.install())
from nvflare.fuel.utils import memory_utils
print(memory_utils.get_allocator_type())
""", FLMEM_LIBRARY="/nonexistent/libflmem.so.0")
        self.assertEqual(done.stdout, "False\ntheirs\n")


class Cuda(unittest.TestCase):
    def torch(self, available=True, initialized=True, empty=None):
        cuda = types.SimpleNamespace(
            is_available=lambda: available,
            is_initialized=lambda: initialized,
            empty_cache=empty or mock.Mock(),
        )
        return types.SimpleNamespace(cuda=cuda)

    def calls(self, torch, *arguments):
        with mock.patch.dict(sys.modules, {"torch": torch}):
            flmem.cleanup_memory(*arguments)
        return torch.cuda.empty_cache.call_count

    def test_only_when_asked(self):
        self.assertEqual(self.calls(self.torch()), 0)
        self.assertEqual(self.calls(self.torch(), True), 1)

    def test_only_with_a_started_cuda(self):
        self.assertEqual(self.calls(self.torch(available=False), True), 0)
        self.assertEqual(self.calls(self.torch(initialized=False), True), 0)

    def cupy(self, total, used, pinned):
        calls = []
        pool = types.SimpleNamespace(
            total_bytes=lambda: total, used_bytes=lambda: used,
            free_all_blocks=lambda: calls.append("device"))
        host = types.SimpleNamespace(
            n_free_blocks=lambda: pinned, free_all_blocks=lambda: calls.append("pinned"))
        return calls, types.SimpleNamespace(get_default_memory_pool=lambda: pool,
                                            get_default_pinned_memory_pool=lambda: host)

    def test_pools_of_cupy(self):
        for total, used, pinned, expected in ((0, 0, 0, []), (9, 9, 0, []), (9, 1, 0, ["device"]),
                                              (9, 9, 1, ["pinned"]), (9, 1, 1, ["device", "pinned"])):
            calls, cupy = self.cupy(total, used, pinned)
            with mock.patch.dict(sys.modules, {"cupy": cupy}):
                flmem.cleanup_memory()
                self.assertEqual(calls, [])
                flmem.cleanup_memory(True)
            self.assertEqual(calls, expected)

    def test_a_failing_cupy_is_logged(self):
        _, cupy = self.cupy(0, 0, 0)
        cupy.get_default_memory_pool = mock.Mock(side_effect=RuntimeError("CUDA error: lost"))
        with mock.patch.dict(sys.modules, {"cupy": cupy}), \
                self.assertLogs("flmem", logging.DEBUG) as logs:
            flmem.cleanup_memory(True)
        self.assertIn("DEBUG:flmem:free_all_blocks of CuPy failed: CUDA error: lost", logs.output)

    def test_torch_is_not_imported_for_it(self):
        if "torch" in sys.modules:
            self.skipTest("torch is loaded already")
        flmem.cleanup_memory(cuda_empty_cache=True)
        self.assertNotIn("torch", sys.modules)

    def test_a_failing_torch_is_logged_at_nvflares_level(self):
        torch = self.torch(empty=mock.Mock(side_effect=RuntimeError("CUDA error: lost")))
        with self.assertLogs("flmem", logging.DEBUG) as logs:
            self.calls(torch, True)
        self.assertIn("DEBUG:flmem:cuda.empty_cache failed: CUDA error: lost", logs.output)
        with self.assertLogs("flmem", logging.DEBUG) as logs:
            self.calls(self.torch(), True)
        self.assertIn("DEBUG:flmem:torch.cuda.empty_cache() called", logs.output)

    def test_the_real_torch(self):
        done = run("import torch, flmem; flmem.cleanup_memory(cuda_empty_cache=True); print('ok')")
        if "No module named 'torch'" in done.stderr:
            self.skipTest("no torch for this Python")
        self.assertEqual(done.stdout, "ok\n", done.stderr)


class Library(unittest.TestCase):
    CALLS = ("import flmem; print(flmem.get_allocator_type(), flmem.try_malloc_trim(), "
             "flmem.cleanup_memory(True), flmem.allocator_name())")

    def test_missing_is_logged_once_and_harmless(self):
        done = run(self.CALLS, FLMEM_LIBRARY="/nonexistent/libflmem.so.0")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout, "unknown None None unknown\n")
        self.assertEqual(done.stderr.count("libflmem.so.0 is not there"), 1, done.stderr)
        self.assertIn("/nonexistent/libflmem.so.0", done.stderr)

    def test_another_library_is_refused(self):
        done = run(self.CALLS, FLMEM_LIBRARY="libc.so.6")
        self.assertEqual(done.stdout, "unknown None None unknown\n", done.stderr)
        self.assertIn("flmem_get_allocator_type", done.stderr)

    def test_the_loader_finds_it(self):
        directory = os.path.dirname(os.environ["FLMEM_LIBRARY"])
        done = run("import os; del os.environ['FLMEM_LIBRARY']\n"
                   "import sys; sys.modules['flmem._install'] = None\n" + self.CALLS,
                   LD_LIBRARY_PATH=directory)
        self.assertEqual(done.stdout.split()[0], "glibc", done.stderr)

    def test_the_place_of_an_installation_is_used(self):
        directory, name = os.path.split(os.environ["FLMEM_LIBRARY"])
        done = run("import os; del os.environ['FLMEM_LIBRARY']\n"
                   "import sys, types; here = types.ModuleType('flmem._install')\n"
                   "here.LIBRARY_DIRECTORY = %r; sys.modules['flmem._install'] = here\n"
                   "import flmem._library as l; print(next(l._candidates()))" % directory)
        self.assertEqual(done.stdout.strip(), os.path.join(directory, name), done.stderr)

    def test_a_virtual_environment_finds_the_library_of_the_command(self):
        with tempfile.TemporaryDirectory() as prefix:
            for place in ("bin", "lib/x86_64-linux-gnu", "elsewhere"):
                os.makedirs(os.path.join(prefix, place))
            command = os.path.join(prefix, "bin", "flmem")
            with open(command, "w") as file:
                file.write("#!/bin/sh\n")
            os.chmod(command, 0o755)
            os.symlink(command, os.path.join(prefix, "elsewhere", "flmem"))
            library = os.path.join(prefix, "lib/x86_64-linux-gnu/libflmem.so.0")
            os.symlink(os.environ["FLMEM_LIBRARY"], library)
            module = os.path.join(prefix, "venv", "flmem")
            shutil.copytree(os.path.dirname(flmem.__file__), module,
                            ignore=shutil.ignore_patterns("__pycache__"))
            done = run("import os; del os.environ['FLMEM_LIBRARY']\n"
                       "import sys; sys.path.insert(0, %r); sys.modules['flmem._install'] = None\n"
                       "import flmem._library as l\n"
                       "print([c for c in l._candidates() if c != 'libflmem.so.0'])\n"
                       "import flmem; print(flmem.allocator_name())" % os.path.dirname(module),
                       PATH=os.path.join(prefix, "elsewhere") + ":" + os.environ["PATH"])
            found = os.path.join(os.path.realpath(prefix), "lib/x86_64-linux-gnu/libflmem.so.0")
            self.assertEqual(done.stdout, "%r\nglibc\n" % [found], done.stderr)

    def candidates_of_tree(self, builds):
        """Returns the libraries tried in a source tree with these builds: name to (bytes, age)."""
        with tempfile.TemporaryDirectory() as tree:
            module = os.path.join(tree, "libcore", "bindings", "python", "flmem")
            shutil.copytree(os.path.dirname(flmem.__file__), module,
                            ignore=shutil.ignore_patterns("__pycache__"))
            for name, (content, age) in builds.items():
                path = os.path.join(tree, "build", name, "libcore", "libflmem.so.0")
                os.makedirs(os.path.dirname(path))
                with open(path, "wb") as file:
                    file.write(content)
                os.utime(path, (1000000 - age, 1000000 - age))
            done = run("import os; os.environ.pop('FLMEM_LIBRARY', None)\n"
                       "import sys; sys.path.insert(0, %r); sys.modules['flmem._install'] = None\n"
                       "import flmem._library as l; print(*l._candidates(), sep='\\n')"
                       % os.path.dirname(module), PATH="")
            self.assertEqual(done.returncode, 0, done.stderr)
            return done.stdout.replace(os.path.realpath(tree), "TREE").replace(tree, "TREE").split()

    def test_a_source_tree_offers_its_newest_build_after_an_installed_library(self):
        sanitized = b"... __asan_init ..."
        self.assertEqual(self.candidates_of_tree({}), ["libflmem.so.0"])
        self.assertEqual(
            self.candidates_of_tree({"release": (b"", 50), "ci": (b"", 10), "dev": (sanitized, 0)}),
            ["libflmem.so.0", "TREE/build/ci/libcore/libflmem.so.0"])
        self.assertEqual(self.candidates_of_tree({"dev": (sanitized, 0)}), ["libflmem.so.0"])


if __name__ == "__main__":
    unittest.main()
