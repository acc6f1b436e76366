# SPDX-License-Identifier: Apache-2.0
"""The safety victims and profiles with Debian's kernel for aarch64, emulated: safety.py DIRECTORY [SET...]

DIRECTORY has the build of the wheel for aarch64 that `make wheels` leaves there, and keeps what is
downloaded, as for run.py.

A SET may be followed by @ and a system of run.py, whose kernel then runs Debian 12's programs.

Each SET of victims.py runs in a system of its own, with Debian's Python, and takes minutes. A
processor with SVE is emulated for the sets without Python code: computing threads that use it are
not borrowed.
"""
import dataclasses
import glob
import os
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import run  # noqa: E402

SYSTEM = "arm64-bookworm"
TRIMS = {"waits": 15, "allocators": 3, "busy": 6, "traps": 3, "code": 3, "hooks": 3, "extensions": 5,
         "kills": 8}
OTHER_KERNEL = ("waits@arm64-trixie-16k", "busy@arm64-trixie-16k", "kills@arm64-trixie-16k")
# Sets of profiling.py, with the programs of a system. Debian 13's programs sign their return
# addresses.
PROFILES = {"profiles": SYSTEM, "profiles-signed": "arm64-trixie"}
OTHER_KERNEL += ("profiles@arm64-trixie-16k",)
CYCLES, KILLS = 10, 6
BUILD = "manylinux_2_28_aarch64/build"
PLAIN = ("max,pauth-impdef=on,sve=off,sme=off",)
TAGGED = ("-M", "virt,mte=on")
PACKAGES = ("libgcc-s1", "zlib1g", "libexpat1", "libffi8", "libbz2-1.0", "liblzma5", "libstdc++6")
INTERPRETER = ("python{}-minimal", "libpython{}-minimal", "libpython{}-stdlib")
MORE = {"bookworm": ("libssl3", "libjemalloc2", "libtcmalloc-minimal4", "libmimalloc2.0"),
        "trixie": ("libssl3t64",)}
LINKED = {"jemalloc": "libjemalloc.so.2", "tcmalloc": "libtcmalloc_minimal.so.4",
          "mimalloc": "libmimalloc.so.2*"}
BLOCKED = ("safe_cases.c", "safe_cases_fd.c", "safe_cases_process.c", "safe_cases_send.c",
           "safe_cases_rare.c", "safe_probe_aarch64.c")
ALONE = ("bare", "break", "coroutine", "exec", "fork", "seccomp", "signals", "strict", "threads", "trap",
         "userfault", "world", "world_locked")
INIT = """#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin:/usr/bin LC_ALL=C HOME=/tmp
mkdir -p /proc /sys /tmp /dev/shm /dev/pts
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t tmpfs tmpfs /tmp
mount -t devtmpfs devtmpfs /dev 2>/dev/null
mkdir -p /dev/shm /dev/pts
mount -t tmpfs tmpfs /dev/shm
mount -t devpts devpts /dev/pts
ip link set lo up
echo "SYSTEM $(uname -m) Linux $(uname -r), $(python3 -V)"
python3 -B /tests/systems/{words} 2>&1
echo END
sync
poweroff -f
"""


def compile_one(output, sources, *words):
    victims = os.path.join(run.TOP, "tests", "victims")
    subprocess.run([run.SYSTEMS[SYSTEM].compiler, "-D_GNU_SOURCE=", "-O1", "-g", "-pthread", "-Wl,-z,now",
                    "-Wl,--no-as-needed", "-Wl,--allow-shlib-undefined", "-o", output,
                    *(os.path.join(victims, source) for source in sources), *words], check=True)


def compile_needed(folder):
    """Copies what tests/soak/ and profiling.py need."""
    os.makedirs(folder)
    compile_one(os.path.join(folder, "..", "killat"), ["../soak/killat.c"])
    compile_one(os.path.join(folder, "lazy.so"), ["sampled/lazy.c"], "-shared", "-fPIC", "-Wl,-z,lazy")


def compile_victims(folder, libraries):
    for name in ALONE:
        compile_one(os.path.join(folder, "safe_" + name), [f"safe_{name}.c", "safe_common.c"])
    for suffix, words in (("", ()), ("_static", ("-static",))):
        compile_one(os.path.join(folder, "safe_blocked" + suffix),
                    ["safe_blocked.c", *BLOCKED, "safe_common.c"], *words)
    compile_one(os.path.join(folder, "safe_threads_static"), ["safe_threads.c", "safe_common.c"],
                "-static")
    compile_one(os.path.join(folder, "safe_vectors_aarch64"), ["safe_vectors_aarch64.c", "safe_common.c"])
    compile_one(os.path.join(folder, "hooked"), ["allocators/hooked.c"])
    for name, pattern in LINKED.items():
        compile_one(os.path.join(folder, "safe_threads_" + name), ["safe_threads.c", "safe_common.c"],
                    sorted(glob.glob(os.path.join(libraries, pattern)))[0])


def unpack_packages(place, system):
    folder = os.path.join(place, "python")
    if not os.path.isdir(folder):
        os.makedirs(folder + ".part", exist_ok=True)
        names = [name.format(run.PYTHONS[system.suite]) for name in INTERPRETER]
        run.download(folder + ".part", system, (*PACKAGES, *MORE[system.suite], *names))
        for package in glob.glob(os.path.join(folder + ".part", "*.deb")):
            subprocess.run(["dpkg-deb", "-x", package, os.path.join(folder + ".part", "root")], check=True)
        os.rename(folder + ".part", folder)
    return os.path.join(folder, "root")


def make_tree(tree, place, build, packages, python):
    """Makes the tree: Debian's files, flmem where `victims.py` expects it, and the tests."""
    left_out = shutil.ignore_patterns("modules", "gconv", "audit", "linux-image*", "test", "idlelib",
                                      "lib2to3", "tkinter", "ensurepip", "pydoc_data", "nvflare")
    if not os.path.exists(os.path.join(place, "root", "lib", "ld-linux-aarch64.so.1")):
        os.makedirs(os.path.join(tree, "usr", "lib"))
        os.symlink("usr/lib", os.path.join(tree, "lib"))  # since Debian 13 all is below /usr
    for root in (os.path.join(place, "root"), packages):
        for name in ("lib", "usr/lib"):
            if os.path.isdir(os.path.join(root, name)):
                shutil.copytree(os.path.join(root, name), os.path.join(tree, name), symlinks=True,
                                dirs_exist_ok=True, ignore=left_out)
    for folder in ("bin", "usr/bin", "build/cli", "build/tests"):
        os.makedirs(os.path.join(tree, folder))
    busybox = [path for path in (os.path.join(place, "root", folder, "busybox")
                                 for folder in ("bin", "usr/bin")) if os.path.exists(path)]
    shutil.copy(busybox[0], os.path.join(tree, "bin"))
    shutil.copy(os.path.join(packages, "usr", "bin", python), os.path.join(tree, "usr", "bin"))
    os.symlink(python, os.path.join(tree, "usr", "bin", "python3"))
    shutil.copy(os.path.join(build, "cli", "flmem"), os.path.join(tree, "build", "cli"))
    libraries = os.path.join(tree, "usr", "lib", "aarch64-linux-gnu")
    shutil.copy(os.path.join(build, "libcore", "libflmem.so.0"), libraries)
    shutil.copytree(os.path.join(build, "libcore", "flmem"), os.path.join(libraries, "flmem"))
    compile_needed(os.path.join(tree, "build", "tests", "victims"))
    for folder in ("harness", "soak", "victims", "systems"):
        shutil.copytree(os.path.join(run.TOP, "tests", folder), os.path.join(tree, "tests", folder),
                        ignore=left_out)


def run_set(directory, build, word):
    name, _, kernel = word.partition("@")
    system = run.SYSTEMS[PROFILES.get(name, SYSTEM)]
    if not shutil.which(system.emulator) or not shutil.which(system.compiler):
        raise run.Absent(f"{system.emulator} or {system.compiler} is not installed")
    if not os.path.exists(os.path.join(build, "cli", "flmem")):
        raise run.Absent(f"no {build}: make wheels")
    place = run.unpack_system(directory, system)
    packages = unpack_packages(place, system)
    options = (*system.options[:-1], *PLAIN) if name == "code" else system.options
    if name == "extensions":
        options += TAGGED
    system = dataclasses.replace(system, options=(*options, "-smp", "2"))
    with tempfile.TemporaryDirectory() as folder:
        tree, disk = os.path.join(folder, "tree"), os.path.join(folder, "disk")
        os.makedirs(tree)
        make_tree(tree, place, build, packages, "python" + run.PYTHONS[system.suite])
        if name in PROFILES:
            words = f"profiling.py /build {CYCLES} {KILLS}"
        else:
            words = f"victims.py /build {name} {TRIMS[name]}"
            compile_victims(os.path.join(tree, "build", "tests", "victims"),
                            os.path.join(tree, "usr", "lib", "aarch64-linux-gnu"))
        with open(os.path.join(tree, "init"), "w", encoding="ascii") as file:
            file.write(INIT.replace("{words}", words))
        with open(disk, "wb") as file:
            file.write(run.pack_tree(tree))
        if kernel:
            place = run.unpack_system(directory, run.SYSTEMS[kernel])
        run.report(word, run.boot(place, system, disk), counted=True)


def main():
    directory = os.path.abspath(sys.argv[1])
    build = os.path.join(directory, BUILD)
    for name in sys.argv[2:] or (*TRIMS, *PROFILES, *OTHER_KERNEL):
        try:
            run_set(directory, build, name)
        except run.Absent as reason:
            run.note(name, "all", f"SKIP: {reason}")
        except subprocess.TimeoutExpired:
            run.note(name, "boot", f"FAILED: not over after {run.BOOT_SECONDS} seconds")
    run.end_with_table("Safety victims on aarch64, what was run:")


if __name__ == "__main__":
    main()
