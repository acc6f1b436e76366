# SPDX-License-Identifier: Apache-2.0
"""Uses flmem in emulated systems with Debian's kernels: run.py DIRECTORY [SYSTEM...]

Each system is Debian's kernel with an initial RAM disk of busybox, Debian's C library, the wheel of
`make wheels` below DIRECTORY and a victim; `init` is its first process. No hardware support is used,
so that a system takes minutes. The wheels have to be there. A table of what ran is at the end; what
is absent is skipped with its reason. Exit status 1 if a step failed, 77 if nothing ran.
"""
import glob
import gzip
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(TOP, "tests", "wheels"))
sys.path.insert(0, os.path.join(TOP, "scripts", "wheels"))
import sources  # noqa: E402


def load_wheels():
    """Returns tests/wheels/run.py as a module: its name is that of this file, which others import."""
    spec = importlib.util.spec_from_file_location("use_wheels", os.path.join(TOP, "tests", "wheels", "run.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


wheels = load_wheels()

BOOT_SECONDS = 1500
rows = []


@dataclass
class System:
    """A kernel of a Debian release."""

    suite: str
    architecture: str
    kernel: str
    emulator: str
    options: tuple
    console: str
    compiler: str


def arm64(suite, kernel="linux-image-arm64"):
    return System(suite, "arm64", kernel, "qemu-system-aarch64",
                  ("-M", "virt", "-cpu", "max,pauth-impdef=on"), "ttyAMA0", "aarch64-linux-gnu-gcc")


def amd64(suite):
    return System(suite, "amd64", "linux-image-amd64", "qemu-system-x86_64", ("-cpu", "max"), "ttyS0",
                  "gcc")


SYSTEMS = {
    "arm64-bookworm": arm64("bookworm"),
    "arm64-trixie": arm64("trixie"),
    "arm64-trixie-16k": arm64("trixie", "linux-image-arm64-16k"),
    "amd64-bullseye": amd64("bullseye"),
    "amd64-bookworm": amd64("bookworm"),
    "amd64-trixie": amd64("trixie"),
    "amd64-sid": amd64("sid"),
}
# Versions of Debian's Python, where its packages are named here.
PYTHONS = {"bookworm": "3.11", "trixie": "3.13"}
TAGS = {"arm64": "manylinux_2_28_aarch64", "amd64": "manylinux_2_28_x86_64"}


class Absent(Exception):
    """Raised when something that a system needs is absent."""


def note(system, step, result):
    rows.append((system, step, result))
    print(f"{system}: {step}: {result}", flush=True)


def download(place, system, packages):
    """Downloads packages of the system's release; apt's lists are kept per release and
    processor."""
    sources.SUITE = system.suite
    try:
        sources.download_packages(place, system.architecture, packages)
    except subprocess.CalledProcessError as problem:
        raise Absent(f"{', '.join(packages)}: not in Debian {system.suite}, or no network") from problem


def depended_kernel(package, kind="image"):
    """Returns the package of a kernel that another one depends on; None: it has the kernel
    itself."""
    shown = subprocess.run(["dpkg-deb", "-f", package, "Depends"], check=True, text=True,
                           stdout=subprocess.PIPE).stdout
    found = re.search(rf"linux-{kind}-\d[^ ,]*", shown)
    return found and found.group(0)


def kernel_in(place):
    """Finds the kernel, which is beside its modules after Debian 13."""
    root = os.path.join(place, "root")
    found = glob.glob(os.path.join(root, "boot", "vmlinuz-*")) + \
        glob.glob(os.path.join(root, "usr", "lib", "modules", "*", "vmlinuz"))
    if not found:
        raise Absent(f"no kernel in the packages below {place}")
    return found[0]


def unpack_system(directory, system):
    """Returns the folder with the kernel and the packages of its root, which is kept."""
    place = os.path.join(directory, "systems", f"{system.suite}-{system.kernel}")
    done = os.path.join(place, ".done")
    if not os.path.exists(done):
        os.makedirs(place, exist_ok=True)
        download(place, system, ("libc6", "busybox-static", system.kernel))
        name = depended_kernel(glob.glob(os.path.join(place, system.kernel + "_*.deb"))[0])
        download(place, system, (name,))
        binary = depended_kernel(glob.glob(os.path.join(place, name + "_*.deb"))[0], "binary")
        if binary:
            download(place, system, (binary,))
        for package in glob.glob(os.path.join(place, "*.deb")):
            subprocess.run(["dpkg-deb", "-x", package, os.path.join(place, "root")], check=True)
        with open(done, "w", encoding="ascii"):
            pass
    return place


def entry(name, mode, content=b"", number=0):
    """Returns one file of a cpio archive in the format newc; devices are major 5, minor 1: the
    console."""
    encoded = name.encode() + b"\0"
    device = (5, 1) if mode & 0o170000 == 0o020000 else (0, 0)
    fields = (number, mode, 0, 0, 1, 0, len(content), 0, 0, *device, len(encoded), 0)
    head = b"070701" + b"".join(b"%08x" % field for field in fields) + encoded
    head += b"\0" * (-len(head) % 4)
    return head + content + b"\0" * (-len(content) % 4)


def pack_tree(tree):
    parts = [entry("dev", 0o040755, number=1), entry("dev/console", 0o020600, number=2)]
    number = 3
    for folder, names, files in os.walk(tree):
        for name in sorted(names + files):
            path = os.path.join(folder, name)
            place = os.path.relpath(path, tree)
            if os.path.islink(path):
                parts.append(entry(place, 0o120777, os.readlink(path).encode(), number))
            elif os.path.isdir(path):
                parts.append(entry(place, 0o040755, b"", number))
            else:
                with open(path, "rb") as file:
                    parts.append(entry(place, 0o100755, file.read(), number))
            number += 1
    return gzip.compress(b"".join(parts) + entry("TRAILER!!!", 0), compresslevel=1)


def compile_programs(system, unpacked, folder):
    """Compiles a program for the C library of the system, which may be older than the one here."""
    if not shutil.which(system.compiler):
        raise Absent(f"{system.compiler} is not installed")
    library = glob.glob(os.path.join(unpacked, "**", "libc.so.6"), recursive=True)[0]
    for name in ("victim", "as_user", "reader"):
        subprocess.run([system.compiler, "-O1", "-o", os.path.join(folder, name), os.path.join(HERE, name + ".c"),
                        "-nodefaultlibs", library, "-lgcc", "-Wl,--allow-shlib-undefined"], check=True)


# A profile under which a program may not trace any process.
PROFILE = """abi <abi/3.0>,
profile flmem_confined {
  file,
  signal,
  capability,
}
"""
FEATURES = "/usr/share/apparmor-features/features"


def compile_policy(system, path):
    """Returns AppArmor's profile in the kernel's form; without apparmor_parser the step is skipped
    there."""
    parser = shutil.which("apparmor_parser", path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")
    if not parser or not os.path.exists(FEATURES) or system.architecture != "amd64":
        return
    subprocess.run([parser, "-Q", "-K", "-M", FEATURES, "-o", path], check=True, input=PROFILE, text=True)


def add_python(place, system, tree):
    """Adds what /python.py needs; busybox and the C library are there already."""
    version = PYTHONS.get(system.suite)
    if not version:
        return
    folder = os.path.join(place, "python-packages")
    if not os.path.isdir(folder):
        os.makedirs(folder + ".part", exist_ok=True)
        download(folder + ".part", system, (f"python{version}-minimal", f"libpython{version}-minimal",
                                            f"libpython{version}-stdlib", "zlib1g", "libexpat1"))
        for package in glob.glob(os.path.join(folder + ".part", "*.deb")):
            subprocess.run(["dpkg-deb", "-x", package, os.path.join(folder + ".part", "root")], check=True)
        os.rename(folder + ".part", folder)
    for name in ("lib", "usr/lib"):
        if os.path.isdir(os.path.join(folder, "root", name)):
            shutil.copytree(os.path.join(folder, "root", name), os.path.join(tree, name), symlinks=True,
                            dirs_exist_ok=True, ignore=shutil.ignore_patterns("test", "idlelib", "lib2to3"))
    shutil.copy(os.path.join(folder, "root", "usr", "bin", f"python{version}"),
                os.path.join(tree, "bin", "python3"))
    shutil.copy(os.path.join(HERE, "python.py"), tree)


def make_root(directory, place, system, tree, python=True):
    unpacked = os.path.join(place, "root")
    for name in ("lib", "lib64", "usr/lib", "usr/lib64"):
        source = os.path.join(unpacked, name)
        if os.path.isdir(source) and not os.path.islink(source):
            shutil.copytree(source, os.path.join(tree, name), symlinks=True, dirs_exist_ok=True,
                            ignore=shutil.ignore_patterns("modules", "gconv", "audit", "linux-image*"))
    # Since Debian 13 the packages have everything below /usr, while programs name their linker in
    # /lib64.
    for name in ("lib", "lib64"):
        if not os.path.lexists(os.path.join(tree, name)):
            os.symlink(os.path.join("usr", name), os.path.join(tree, name))
    os.makedirs(os.path.join(tree, "bin"), exist_ok=True)
    found = glob.glob(os.path.join(unpacked, "bin", "busybox")) + \
        glob.glob(os.path.join(unpacked, "usr", "bin", "busybox"))
    shutil.copy(found[0], os.path.join(tree, "bin"))
    if python:
        add_python(place, system, tree)
    wheels.unpack(wheels.wheel_of(directory, TAGS[system.architecture]), tree)
    compile_programs(system, unpacked, os.path.join(tree, "bin"))
    compile_policy(system, os.path.join(tree, "confined.policy"))
    shutil.copy(os.path.join(HERE, "init"), tree)


def boot(place, system, disk):
    """no_timer_check: on a busy host the test of an emulated timer fails, and interrupts are lost."""
    kernel = kernel_in(place)
    words = [system.emulator, *system.options, "-m", "1536", "-nographic", "-no-reboot", "-nic", "none",
             "-kernel", kernel, "-initrd", disk, "-append",
             f"console={system.console} quiet panic=-1 no_timer_check rdinit=/init"]
    try:
        done = subprocess.run(words, check=False, timeout=BOOT_SECONDS, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    except subprocess.TimeoutExpired as late:  # the steps that have been made are reported
        done = late
    return (done.stdout or b"").decode(errors="replace")


def report(name, output, counted=False):
    """Prints the steps. `counted`: also prints the output of steps that passed."""
    steps = re.findall(r"\bSTEP (\S+) (\S+) ?(.*?)\r?$", output, re.M)
    shown = re.search(r"SYSTEM (.*?)\r?$", output, re.M)
    note(name, "boot", shown.group(1) if shown else "FAILED: " + output.strip()[-300:])
    for step, status, said in steps:
        passed = f"passed: {said}" if counted else "passed"
        note(name, step, passed if status == "ok" else f"{status}: {said}")
    if shown and "END" not in output:
        note(name, "end", "FAILED: the system did not come to its end: " + output.strip()[-300:])


def run_system(directory, name):
    system = SYSTEMS[name]
    if not shutil.which(system.emulator):
        raise Absent(f"{system.emulator} is not installed")
    place = unpack_system(directory, system)
    with tempfile.TemporaryDirectory() as folder:
        tree, disk = os.path.join(folder, "tree"), os.path.join(folder, "disk")
        make_root(directory, place, system, tree)
        with open(disk, "wb") as file:
            file.write(pack_tree(tree))
        report(name, boot(place, system, disk))


def main():
    directory = os.path.abspath(sys.argv[1])
    for name in sys.argv[2:] or SYSTEMS:
        try:
            run_system(directory, name)
        except (Absent, wheels.Skipped) as reason:
            note(name, "all", f"SKIP: {reason}")
        except subprocess.TimeoutExpired:
            note(name, "boot", f"FAILED: not over after {BOOT_SECONDS} seconds")
    end_with_table("Emulated systems, what was run:")


def end_with_table(title):
    print(f"\n{title}")
    for name, step, result in rows:
        print(f"  {name:18} {step:16} {result}")
    if all(result.startswith("SKIP") for _, _, result in rows):
        sys.exit(77)
    sys.exit(1 if any(result.startswith("FAIL") for _, _, result in rows) else 0)


if __name__ == "__main__":
    main()
