# SPDX-License-Identifier: Apache-2.0
"""The check of wheels finds each fault that is planted for it, and passes a wheel without one.

The wheels are made by scripts/wheels/pack.py of small libraries of this machine's compiler; nothing is
fetched and no wheel of flmem is needed.
"""
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
import zipfile

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, HERE)
sys.path.insert(0, os.path.join(TOP, "scripts", "wheels"))
import check  # noqa: E402
import pack  # noqa: E402
import run as use  # noqa: E402
import sources  # noqa: E402

VERSION = check.project_version(TOP)
TAG = "manylinux_2_28_" + os.uname().machine
LINK = ("-Wl,-z,relro,-z,now", "-Wl,-z,noexecstack", "-fPIC")
LIBRARY = "int flmem_a(void) { return 1; }"
PROGRAM = "extern int flmem_a(void); void _start(void) { flmem_a(); for (;;); }"


def compile_file(path, source, *flags):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    subprocess.run(["cc", "-o", path, *LINK, "-x", "c", "-", "-x", "none", *flags], check=True, text=True,
                   input=source)


def bundled():
    library = sources.libraries()[0]
    library.debian_version, library.archive, library.sha256 = "1.7.15-1", "a.tar.gz", "0" * 64
    return [library]


@unittest.skipUnless(os.uname().machine in check.MACHINES, "no wheels are made for this processor")
class Wheels(unittest.TestCase):
    def setUp(self):
        self.place = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.place)
        self.stage = os.path.join(self.place, "stage")
        self.library("lib/libflmem.so.0")
        for name in ("libflmem_scrub.so", "libflmem-sampler.so", "libflmem-sampler-ready.so"):
            self.library("lib/flmem/" + name)
        self.program()
        for name in ("share/man/man1/flmem.1", "share/bash-completion/completions/flmem",
                     "share/doc/flmem/README.md", "python/flmem/__main__.py",
                     "python/flmem/_install.py"):
            path = os.path.join(self.stage, name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w", encoding="ascii") as file:
                file.write("text\n")

    def library(self, name, source=LIBRARY, *flags):
        compile_file(os.path.join(self.stage, name), source, "-shared", "-nostdlib",
                     "-Wl,-soname," + os.path.basename(name), *flags)

    def program(self, run_path="-Wl,--enable-new-dtags,-rpath,$ORIGIN/../lib", *flags):
        compile_file(os.path.join(self.stage, "bin/flmem"), PROGRAM, "-pie", "-nostdlib", run_path,
                     os.path.join(self.stage, "lib/libflmem.so.0"), *flags)

    def pack(self, name="dist", version=VERSION):
        return pack.pack(self.stage, os.path.join(self.place, name), version, TAG, 1700000000,
                         {"readme": "# flmem\n", "licences": {"LICENSE": b"a", "cjson/LICENSE": b"b"}},
                         bundled(), "0.0")

    def findings(self, path):
        return list(check.findings(TOP, path))

    def rewrite(self, change):
        """The wheel with its files changed, the rest as it was."""
        path = self.pack()
        files = check.read_wheel(path)
        change(files)
        with zipfile.ZipFile(path, "w") as wheel:
            for name, content in files.items():
                wheel.writestr(name, content)
        return path

    def assert_finding(self, path, text):
        found = self.findings(path)
        self.assertTrue(any(text in finding for finding in found), f"no '{text}' in {found}")

    def test_passes_without_fault(self):
        self.assertEqual(self.findings(self.pack()), [])

    def test_same_tree_same_bytes(self):
        with open(self.pack("one"), "rb") as one, open(self.pack("two"), "rb") as two:
            self.assertEqual(one.read(), two.read())

    def test_places(self):
        names = check.read_wheel(self.pack())
        self.assertIn(f"flmem-{VERSION}.data/scripts/flmem", names)
        self.assertFalse([name for name in names if "README" in name])
        self.assertIn(b"../../..", names["flmem/_install.py"])

    def test_programs_can_be_run(self):
        with zipfile.ZipFile(self.pack()) as wheel:
            info = wheel.getinfo(f"flmem-{VERSION}.data/scripts/flmem")
            self.assertEqual(info.external_attr >> 16 & 0o111, 0o111)

    def test_executable_stack(self):
        self.library("lib/libflmem.so.0", LIBRARY, "-Wl,-z,execstack")
        self.assert_finding(self.pack(), "libflmem.so.0: the stack is executable")

    def test_run_path(self):
        self.program("-Wl,--enable-new-dtags,-rpath,/usr/local/lib")
        self.assert_finding(self.pack(), "RUNPATH '/usr/local/lib' leads out of the wheel")
        self.program("-Wl,--enable-new-dtags,-rpath,$ORIGIN/../../lib")
        self.assert_finding(self.pack(), "leads out of the wheel")
        self.program("-Wl,--disable-new-dtags,-rpath,$ORIGIN/../lib")
        self.assert_finding(self.pack(), "RPATH")

    def test_late_binding(self):
        self.library("lib/libflmem.so.0", LIBRARY, "-Wl,-z,lazy,-z,norelro")
        self.assert_finding(self.pack(), "is not linked with -z relro -z now")

    def test_young_symbol(self):
        self.library("lib/flmem/libflmem_scrub.so",
                     "__asm__(\".symver young,pow@GLIBC_2.29\"); double young(double, double);"
                     "double flmem_b(void) { return young(1, 2); }", "-lm", "-lc")
        self.assert_finding(self.pack(), "pow needs glibc 2.29")

    def test_foreign_library(self):
        compile_file(os.path.join(self.place, "libother.so"), "int other(void) { return 1; }",
                     "-shared", "-nostdlib", "-Wl,-soname,libother.so.1")
        self.library("lib/flmem/libflmem_scrub.so",
                     "int other(void); int flmem_b(void) { return other(); }",
                     os.path.join(self.place, "libother.so"))
        self.assert_finding(self.pack(), "needs libother.so.1")

    def test_exported_symbol(self):
        self.library("lib/libflmem.so.0", LIBRARY + " int deflate(void) { return 1; }")
        self.assert_finding(self.pack(), "exports deflate")

    def test_record(self):
        self.assert_finding(self.rewrite(lambda files: files.update({"flmem/new.py": b"x"})),
                            "RECORD lacks flmem/new.py")
        self.assert_finding(self.rewrite(lambda files: files.update({"flmem/_install.py": b"x"})),
                            "another checksum or size of flmem/_install.py")
        self.assert_finding(self.rewrite(lambda files: files.pop("flmem/__main__.py")),
                            "which is not in the wheel")

    def test_version(self):
        self.assert_finding(self.pack(version="9.9.9"), "the version is not the project's")

    def test_licence(self):
        name = f"flmem-{VERSION}.dist-info/licenses/cjson/LICENSE"
        self.assert_finding(self.rewrite(lambda files: files.pop(name)), "there is no licence of cjson")

    def test_contents(self):
        for name in ("share/man/man1/flmem.1", "lib/flmem/libflmem-sampler-ready.so"):
            path = self.rewrite(lambda files, name=name: files.pop(f"flmem-{VERSION}.data/data/{name}"))
            self.assert_finding(path, name + " is missing")

    def test_upstream_version(self):
        for debian, upstream in (("1:1.2.13.dfsg-1", "1.2.13"), ("0.2.5-1", "0.2.5"),
                                 ("1.7.15-1+deb12u4", "1.7.15")):
            self.assertEqual(sources.upstream_of(debian), upstream)


class Figures(unittest.TestCase):
    def test_order_does_not_count(self):
        """Whichever program starts a pair takes longer; two equal ones have to come out equal."""
        calls = iter(range(60))

        def measure(_):
            return ((20.0, 12.0), (10.0, 6.0))[next(calls) % 2]
        self.assertEqual(use.compare("one", "other", measure, 30), [[15.0, 9.0], [15.0, 9.0]])

    def test_waiting_is_no_processor_time(self):
        wall, processor = use.spent(["sleep", "0.2"])
        self.assertLess(processor, wall)


if __name__ == "__main__":
    if not shutil.which("cc") or not shutil.which("readelf"):
        print("SKIP: no cc or no readelf")
        sys.exit(77)
    unittest.main()
