# SPDX-License-Identifier: Apache-2.0
"""make wheels: a wheel for each processor and C library, all built on this machine.

    make.py [TAG...]        TAG as in WHEELS below; all of them without one

The cross compiler is the package ziglang of the Python registry, which has the headers and symbol
lists of old versions of glibc and of musl. Everything is below build/wheels; the wheels are in
build/wheels/dist. docs/guides/wheels.md says more.
"""
import os
import re
import shutil
import subprocess
import sys

import pack
import sources

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.join(TOP, "build", "wheels")

# The tag of each wheel, and the compiler's name for its target.
WHEELS = {
    "manylinux_2_28_x86_64": "x86_64-linux-gnu.2.28",
    "manylinux_2_28_aarch64": "aarch64-linux-gnu.2.28",
    "musllinux_1_2_x86_64": "x86_64-linux-musl",
    "musllinux_1_2_aarch64": "aarch64-linux-musl",
}

# A thread of musl has a stack of 128 KiB unless the program asks for more.
STACK = "-Wl,-z,stack-size=1048576"


def run(*words, **more):
    subprocess.run(words, check=True, **more)


def make_environment():
    """Makes the virtual environment with the compiler; returns its Python and the compiler's
    program."""
    where = os.path.join(BUILD, "venv")
    python = os.path.join(where, "bin", "python")
    wanted = os.path.join(TOP, "scripts", "wheels", "requirements.txt")
    stamp = os.path.join(where, "requirements.txt")
    if not os.path.exists(stamp) or open(stamp, "rb").read() != open(wanted, "rb").read():
        shutil.rmtree(where, ignore_errors=True)
        run(sys.executable, "-m", "venv", where)
        run(python, "-m", "pip", "install", "--quiet", "--require-hashes", "--only-binary", ":all:",
            "-r", wanted)
        shutil.copy(wanted, stamp)
    found = subprocess.run([python, "-c", "import ziglang; print(ziglang.__path__[0])"], check=True,
                           stdout=subprocess.PIPE, text=True).stdout.strip()
    return python, os.path.join(found, "zig")


def compiler_version():
    with open(os.path.join(TOP, "scripts", "wheels", "requirements.txt"), encoding="ascii") as file:
        return re.search(r"^ziglang==(\S+)", file.read(), re.M).group(1)


def write_script(path, text):
    with open(path, "w", encoding="utf-8") as file:
        file.write("#!/bin/sh\n" + text + "\n")
    os.chmod(path, 0o755)


def write_toolchain(directory, zig, target):
    """Writes the programs that CMake needs as compiler and archiver; each runs zig."""
    os.makedirs(directory, exist_ok=True)
    tools = {name: os.path.join(directory, name) for name in ("cc", "ar", "ranlib")}
    write_script(tools["cc"], f"exec '{zig}' cc -target {target} \"$@\"")
    write_script(tools["ar"], f"exec '{zig}' ar \"$@\"")
    write_script(tools["ranlib"], f"exec '{zig}' ranlib \"$@\"")
    path = os.path.join(directory, "toolchain.cmake")
    with open(path, "w", encoding="utf-8") as file:
        file.write(f"set(CMAKE_SYSTEM_NAME Linux)\n"
                   f"set(CMAKE_SYSTEM_PROCESSOR {target.split('-')[0]})\n"
                   f"set(CMAKE_C_COMPILER \"{tools['cc']}\")\n"
                   f"set(CMAKE_AR \"{tools['ar']}\" CACHE FILEPATH \"\")\n"
                   f"set(CMAKE_RANLIB \"{tools['ranlib']}\" CACHE FILEPATH \"\")\n")
    return path


def build(tag, zig, libraries, environment):
    """Compiles for a tag and installs into a separate directory, which is returned."""
    target = WHEELS[tag]
    directory, stage = (os.path.join(BUILD, tag, part) for part in ("build", "stage"))
    link = "-Wl,-s " + (STACK if target.endswith("musl") else "")
    toolchain = write_toolchain(os.path.join(BUILD, tag, "tools"), zig, target)
    print(f"wheels: {tag}", flush=True)
    with open(os.path.join(BUILD, tag, "log"), "w", encoding="utf-8") as log:
        try:
            run("cmake", "-G", "Ninja", "-S", TOP, "-B", directory,
                f"-DCMAKE_TOOLCHAIN_FILE={toolchain}", "-DCMAKE_BUILD_TYPE=Release",
                "-DCMAKE_C_FLAGS_RELEASE=-O2 -DNDEBUG",
                "-DCMAKE_C_FLAGS=-fPIC",
                f"-DCMAKE_EXE_LINKER_FLAGS=-pie {link}", f"-DCMAKE_SHARED_LINKER_FLAGS={link}",
                f"-DCMAKE_MODULE_LINKER_FLAGS={link}", f"-DFLMEM_BUNDLED={libraries}",
                "-DFLMEM_TESTS=OFF", "-DFLMEM_WERROR=ON", "-DFLMEM_PYTHON_DIR=python",
                "-DCMAKE_INSTALL_PREFIX=/usr/local", "-DCMAKE_INSTALL_LIBDIR=lib",
                env=environment, stdout=log, stderr=log)
            run("cmake", "--build", directory, env=environment, stdout=log, stderr=log)
            shutil.rmtree(stage, ignore_errors=True)
            run("cmake", "--install", directory, "--prefix", stage, env=environment, stdout=log,
                stderr=log)
        except subprocess.CalledProcessError as problem:
            raise SystemExit(f"wheels: {tag} failed; all of it is in {log.name}") from problem
    return stage


def project_version():
    with open(os.path.join(TOP, "CMakeLists.txt"), encoding="utf-8") as file:
        return re.search(r"project\(flmem VERSION (\S+)", file.read()).group(1)


def commit_time():
    """Returns the time that is written into the wheels."""
    return int(subprocess.run([os.path.join(TOP, "scripts", "source-date")], check=True,
                              stdout=subprocess.PIPE, text=True).stdout)


def read_texts(directory, libraries):
    def content(*parts):
        with open(os.path.join(*parts), "rb") as file:
            return file.read()
    licences = {"LICENSE": content(TOP, "LICENSE")}
    for library in libraries:
        licences[f"{library.package}/{library.licence_file}"] = content(
            directory, library.package, library.licence_file)
    return {"readme": content(TOP, "README.md").decode("utf-8"), "licences": licences}


def main(tags):
    unknown = [tag for tag in tags if tag not in WHEELS]
    if unknown:
        raise SystemExit(f"wheels: unknown wheel '{unknown[0]}'; choose from {', '.join(WHEELS)}")
    os.makedirs(BUILD, exist_ok=True)
    python, zig = make_environment()
    directory = os.path.join(BUILD, "sources")
    libraries = sources.fetch(directory)
    texts, when = read_texts(directory, libraries), commit_time()
    environment = dict(os.environ, ZIG_GLOBAL_CACHE_DIR=os.path.join(BUILD, "cache"),
                       ZIG_LOCAL_CACHE_DIR=os.path.join(BUILD, "cache"))
    for tag in tags or WHEELS:
        stage = build(tag, zig, directory, environment)
        path = pack.pack(stage, os.path.join(BUILD, "dist"), project_version(), tag, when, texts,
                         libraries, compiler_version())
        checked = subprocess.run([python, "-B", os.path.join(TOP, "tests", "wheels", "check.py"), TOP,
                                  path], check=False)
        if checked.returncode:
            raise SystemExit("wheels: the wheel does not hold what its name promises")


if __name__ == "__main__":
    main(sys.argv[1:])
