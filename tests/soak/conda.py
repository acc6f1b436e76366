# SPDX-License-Identifier: Apache-2.0
"""
packaging/conda/recipe.yaml, built by rattler-build of the Python registry, and its tests run, without
packages of conda-forge: a channel is made here whose packages are empty, except for a Python that runs
the system's. Compiler, tools and libraries are the system's too. So the recipe's build, its list of
files, its dependencies and tests are tested, not the compiler and libraries of conda-forge.

usage: conda.py DIRECTORY      for the compiler of recipes and the package
"""
import glob
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, ".."), os.path.join(HERE, "..", "checks")]

from harness import skip  # noqa: E402
import tree  # noqa: E402

TOP = os.path.dirname(os.path.dirname(HERE))
RATTLER = "py-rattler-build==0.73.0"
SUBDIR = "linux-64"
VERSION = "{}.{}".format(*sys.version_info[:2])
# Packages that the recipe asks for. The versions satisfy its requirements.
PACKAGES = {"gcc_linux-64": "12.2.0", "sysroot_linux-64": "2.28", "cmake": "3.25.1", "ninja": "1.11",
            "pkg-config": "0.29", "cjson": "1.7", "gnutls": "3.7", "libcurl": "8.0",
            "libmicrohttpd": "0.9", "ncurses": "6.4", "yaml": "0.2.5", "zlib": "1.2.13",
            "python": VERSION, "pip": "24.0"}
PYTHON = f"""#!/bin/sh
here=$(dirname "$(readlink -f "$0")")
PYTHONPATH=$here/../lib/python{VERSION}/site-packages exec {sys.executable} "$@"
"""
VARIANTS = {"c_compiler": ["gcc"], "c_stdlib": ["sysroot"], "c_stdlib_version": ["2.28"]}
BUILD = """
import json, sys
import rattler_build as rattler
recipe, channel, output, variants = sys.argv[1:5]
platform = rattler.PlatformConfig(target_platform="%s")
rendered = rattler.Stage0Recipe.from_file(recipe).render(
    rattler.VariantConfig(json.loads(variants)), rattler.RenderConfig(platform=platform))
for one in rendered:
    one.run_build(tool_config=rattler.ToolConfiguration(test_strategy="skip"), output_dir=output,
                  channels=[channel])
""" % SUBDIR
TEST = """
import sys
import rattler_build as rattler
package, channel = sys.argv[1:3]
results = rattler.Package.from_file(package).run_tests(channel=[channel])
for one in results:
    if not one.success:
        print("FAILED: test", one.test_index, *one.output, sep="\\n")
print(len(results), "tests")
sys.exit(not results or not all(one.success for one in results))
"""


def add(archive, name, content, mode=0o644):
    info = tarfile.TarInfo(name)
    info.size, info.mode = len(content), mode
    archive.addfile(info, io.BytesIO(content))


def make_package(folder, name, version):
    """Makes a package of conda's older format; those of Python and pip have programs."""
    index = {"name": name, "version": version, "build": "0", "build_number": 0, "depends": [],
             "subdir": SUBDIR, "arch": "x86_64", "platform": "linux"}
    # `pip check` would complain about this system's packages
    files = {"python": {"bin/python": PYTHON, f"bin/python{VERSION}": PYTHON},
             "pip": {"bin/pip": "#!/bin/sh\n"}}.get(name, {})
    with tarfile.open(os.path.join(folder, f"{name}-{version}-0.tar.bz2"), "w:bz2") as archive:
        add(archive, "info/index.json", json.dumps(index).encode())
        add(archive, "info/files", "".join(file + "\n" for file in files).encode())
        for file, content in files.items():
            add(archive, file, content.encode(), 0o755)
    return index


def make_channel(place):
    folder = os.path.join(place, SUBDIR)
    for name in (SUBDIR, "noarch"):
        os.makedirs(os.path.join(place, name))
    packages = {f"{name}-{version}-0.tar.bz2": make_package(folder, name, version)
                for name, version in PACKAGES.items()}
    for name, found in ((SUBDIR, packages), ("noarch", {})):
        with open(os.path.join(place, name, "repodata.json"), "w", encoding="ascii") as file:
            json.dump({"info": {"subdir": name}, "packages": found, "packages.conda": {},
                       "repodata_version": 1}, file)


def get_rattler(directory):
    """Returns a Python that has rattler-build."""
    place = os.path.join(directory, "venv")
    python = os.path.join(place, "bin", "python")
    if subprocess.run([python, "-c", "import rattler_build"], check=False, stderr=subprocess.DEVNULL
                      ).returncode if os.path.exists(python) else True:
        shutil.rmtree(place, ignore_errors=True)
        subprocess.run([sys.executable, "-m", "venv", place], check=True)
        if subprocess.run([python, "-m", "pip", "install", "--quiet", "--only-binary", ":all:", RATTLER],
                          check=False).returncode:
            skip(f"{RATTLER} cannot be had")
    return python


def copy_tree(place):
    """Copies the project's files: rattler-build would copy all that was built, too."""
    for name in tree.files(TOP):
        target = os.path.join(place, name)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        shutil.copy2(os.path.join(TOP, name), target, follow_symlinks=False)


def main():
    if os.uname().machine != "x86_64":
        skip("the channel is for x86-64")
    directory = os.path.abspath(sys.argv[1])
    os.makedirs(directory, exist_ok=True)
    python = get_rattler(directory)
    with tempfile.TemporaryDirectory(prefix="flmem-conda-") as scratch:
        channel, source, output = (os.path.join(scratch, name) for name in ("channel", "source", "output"))
        make_channel(channel)
        copy_tree(source)
        done = subprocess.run([python, "-c", BUILD, os.path.join(source, "packaging", "conda", "recipe.yaml"),
                               "file://" + channel, output, json.dumps(VARIANTS)], check=False)
        made = glob.glob(os.path.join(output, SUBDIR, "flmem-*"))
        if done.returncode or len(made) != 1:
            print(f"FAILED: rattler-build ended with status {done.returncode} and made {made}")
            sys.exit(1)
        shutil.copy(made[0], directory)
        tested = subprocess.run([python, "-c", TEST, made[0], "file://" + channel], check=False)
        if tested.returncode:
            print("FAILED: tests of the recipe")
            sys.exit(1)
        print(f"passed: {os.path.basename(made[0])}, {os.path.getsize(made[0])} bytes; its tests passed")


main()
