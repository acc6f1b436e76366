# SPDX-License-Identifier: Apache-2.0
"""Holds a wheel to what its name promises: check.py TREE WHEEL

One line per finding, exit status 1. Needs readelf (binutils), which reads files of any processor;
auditwheel too where this Python has it.
"""
import base64
import csv
import hashlib
import importlib.util
import io
import json
import os
import posixpath
import re
import subprocess
import sys
import tempfile
import zipfile

SIZE_MAX = 12 << 20
GLIBC_LIBRARIES = {"libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "librt.so.1",
                   "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"}
MUSL_LIBRARIES = {"libc.so"}
MACHINES = {"x86_64": "Advanced Micro Devices X86-64", "aarch64": "AArch64"}
NUMBERS = {"x86_64": b"\x3e\0", "aarch64": b"\xb7\0"}  # e_machine of each processor
# Functions of musl after 1.2.2 that this tree could use by mistake; the first Alpine with 1.2 has
# 1.2.2.
YOUNGER_IN_MUSL = {"qsort_r", "pthread_getname_np", "statx", "preadv2", "pwritev2", "renameat2",
                   "posix_getdents", "pidfd_open", "pidfd_send_signal", "dn_skipname_r"}


def read_wheel(path):
    with zipfile.ZipFile(path) as wheel:
        return {info.filename: wheel.read(info) for info in wheel.infolist()}


def readelf(path, *flags):
    return subprocess.run(["readelf", "-W", *flags, path], check=True, stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, env=dict(os.environ, LC_ALL="C"), text=True).stdout


def installed_place(name):
    """Returns where pip puts a file of the wheel, relative to the prefix of an environment."""
    data = re.match(r"[^/]*\.data/(data|scripts)/(.*)", name)
    if not data:
        return "lib/python/site-packages/" + name
    return data.group(2) if data.group(1) == "data" else "bin/" + data.group(2)


def check_run_path(name, dynamic, places):
    for kind, value in re.findall(r"\((RPATH|RUNPATH)\)[^\[]*\[([^\]]*)\]", dynamic):
        for entry in value.split(":"):
            here = posixpath.dirname(installed_place(name))
            target = posixpath.normpath(entry.replace("$ORIGIN", here))
            if kind == "RPATH" or not entry.startswith("$ORIGIN/") or not any(
                    place.startswith(target + "/") for place in places):
                yield f"{name}: {kind} '{entry}' leads out of the wheel"


def check_needed(name, dynamic, musl, places):
    own = {posixpath.basename(place) for place in places}
    for library in re.findall(r"\(NEEDED\)[^\[]*\[([^\]]*)\]", dynamic):
        if library not in (MUSL_LIBRARIES if musl else GLIBC_LIBRARIES) | own:
            yield f"{name}: needs {library}, which is neither in the wheel nor in every system"


def check_symbols(name, symbols, tag):
    glibc = re.match(r"manylinux_(\d+)_(\d+)_", tag)
    newest = (int(glibc.group(1)), int(glibc.group(2))) if glibc else (0, 0)
    for symbol, major, minor in sorted(set(re.findall(r"(\S+)@{1,2}GLIBC_(\d+)\.(\d+)", symbols))):
        if (int(major), int(minor)) > newest:
            yield f"{name}: {symbol} needs glibc {major}.{minor}; the wheel is {tag}"
    if not glibc:
        undefined = set(re.findall(r"\bUND +(\w+)", symbols))
        for symbol in sorted(undefined & YOUNGER_IN_MUSL):
            yield f"{name}: {symbol} is younger than musl 1.2.2"


def check_layout(name, headers, dynamic):
    stack = re.search(r"GNU_STACK +\S+ +\S+ +\S+ +\S+ +\S+ +(\S+)", headers)
    if not stack or "E" in stack.group(1):
        yield f"{name}: the stack is executable"
    if "GNU_RELRO" not in headers or not re.search(r"BIND_NOW|\bNOW\b", dynamic):
        yield f"{name}: is not linked with -z relro -z now"
    if "Elf file type is EXEC" in headers:
        yield f"{name}: is not position-independent"


def check_exports(name, symbols):
    for line in symbols.splitlines():
        words = line.split()
        if len(words) >= 8 and words[4] in ("GLOBAL", "WEAK") and words[5] == "DEFAULT" and \
                words[6] != "UND" and not words[7].startswith("flmem_"):
            yield f"{name}: exports {words[7]}, which could replace a function of another library"


def check_elf(name, content, tag, tree, places):
    with tempfile.NamedTemporaryFile() as file:
        file.write(content)
        file.flush()
        headers, dynamic = readelf(file.name, "-l", "-h"), readelf(file.name, "-d")
        symbols = readelf(file.name, "--dyn-syms")
    processor = next(p for p in MACHINES if tag.endswith(p))
    if MACHINES[processor] not in headers:
        yield f"{name}: is not for {processor}"
    yield from check_run_path(name, dynamic, places)
    yield from check_needed(name, dynamic, tag.startswith("musllinux"), places)
    yield from check_symbols(name, symbols, tag)
    yield from check_layout(name, headers, dynamic)
    if posixpath.basename(name).startswith("libflmem.so"):
        yield from check_exports(name, symbols)
    if os.fsencode(tree) + b"/" in content:
        yield f"{name}: holds the path of the tree that it was built in"


def check_record(files):
    name = next((n for n in files if n.endswith(".dist-info/RECORD")), None)
    if not name:
        yield "there is no RECORD"
        return
    rows = list(csv.reader(io.StringIO(files[name].decode("utf-8"))))
    listed = [row[0] for row in rows]
    for path in sorted(set(files) - set(listed)):
        yield f"RECORD lacks {path}"
    for path, digest, size in rows:
        if path not in files:
            yield f"RECORD lists {path}, which is not in the wheel"
        elif path != name:
            wanted = base64.urlsafe_b64encode(hashlib.sha256(files[path]).digest()).rstrip(b"=")
            if digest != "sha256=" + wanted.decode("ascii") or size != str(len(files[path])):
                yield f"RECORD has another checksum or size of {path}"


def project_version(tree):
    with open(os.path.join(tree, "CMakeLists.txt"), encoding="utf-8") as file:
        return re.search(r"project\(flmem VERSION (\S+)", file.read()).group(1)


def check_names(files, path, tree):
    """Checks that the name of the wheel, its metadata and the project agree."""
    version = project_version(tree)
    name = re.fullmatch(r"flmem-([^-]+)-py3-none-([^-]+)\.whl", os.path.basename(path))
    if not name:
        yield "the name is not flmem-VERSION-py3-none-PLATFORM.whl"
        return
    info = f"flmem-{version}.dist-info/"
    if name.group(1) != version or info + "METADATA" not in files:
        yield f"the version is not the project's, {version}"
        return
    if f"\nVersion: {version}\n" not in files[info + "METADATA"].decode("utf-8"):
        yield f"METADATA has another version than the project, {version}"
    if f"\nTag: py3-none-{name.group(2)}\n" not in files[info + "WHEEL"].decode("utf-8"):
        yield "WHEEL has another tag than the name"


def check_licences(files):
    """Checks that every bundled library has its licence in the wheel, and is in the bill of
    materials."""
    name = next((n for n in files if n.endswith(".dist-info/sboms/flmem.cdx.json")), None)
    if not name:
        yield "there is no bill of materials"
        return
    licences = posixpath.dirname(posixpath.dirname(name)) + "/licenses/"
    materials = json.loads(files[name])
    packages = {part["bom-ref"].split("@")[0] for part in materials["components"]}
    present = {n[len(licences):].split("/")[0] for n in files if n.startswith(licences)}
    for package in sorted(packages - present):
        yield f"there is no licence of {package}"
    for package in sorted(present - packages - {"LICENSE"}):
        yield f"{package} is not in the bill of materials"


def check_contents(files):
    for wanted in (".data/scripts/flmem", ".data/data/lib/libflmem.so.0",
                   ".data/data/lib/flmem/libflmem_scrub.so", ".data/data/lib/flmem/libflmem-sampler.so",
                   ".data/data/lib/flmem/libflmem-sampler-ready.so", ".data/data/share/man/man1/flmem.1",
                   ".data/data/share/bash-completion/completions/flmem", "flmem/__main__.py",
                   "flmem/_install.py", "/licenses/LICENSE"):
        if not any(name.endswith(wanted) for name in files):
            yield f"{wanted} is missing"


def write_as_installed(files, path):
    """Writes the wheel with files at their installed places: auditwheel follows $ORIGIN, and in the
    wheel scripts and data are not beside each other yet."""
    with zipfile.ZipFile(path, "w") as wheel:
        for name, content in files.items():
            if name.endswith(".dist-info/RECORD"):
                content = "".join(moved_place(row.split(",")[0]) + ",,\n"
                                  for row in content.decode("utf-8").splitlines()).encode("utf-8")
            wheel.writestr(moved_place(name), with_libc_of_alpine(content))


def with_libc_of_alpine(content):
    """musl's loader treats every libc.* as itself (ldso/dynlink.c); auditwheel knows one name."""
    processor = next((p for p, number in NUMBERS.items() if content[18:20] == number), None)
    if not content.startswith(b"\x7fELF") or not processor or b"\0libc.so\0" not in content:
        return content
    with tempfile.NamedTemporaryFile() as file:
        file.write(content)
        file.flush()
        subprocess.run(["patchelf", "--replace-needed", "libc.so", f"libc.musl-{processor}.so.1",
                        file.name], check=True)
        with open(file.name, "rb") as changed:
            return changed.read()


def moved_place(name):
    return "prefix/" + installed_place(name) if ".data/" in name else name


def check_with_auditwheel(files, path, tag):
    if not importlib.util.find_spec("auditwheel"):
        return
    with tempfile.TemporaryDirectory() as directory:
        copy = os.path.join(directory, os.path.basename(path))
        write_as_installed(files, copy)
        shown = subprocess.run([sys.executable, "-m", "auditwheel", "show", copy], check=False,
                               text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    said = " ".join(shown.stdout.split())
    found = re.search(r'following platform tag: "([^"]+)"', said)
    floor = re.compile(r"(manylinux|musllinux)_(\d+)_(\d+)_(\w+)")
    mine, best = floor.fullmatch(tag), floor.fullmatch(found.group(1)) if found else None
    if shown.returncode or not best or best.group(1, 4) != mine.group(1, 4) or \
            tuple(map(int, best.group(2, 3))) > tuple(map(int, mine.group(2, 3))):
        yield f"auditwheel does not find it consistent with {tag}: {said[:400]}"


def findings(tree, path):
    files = read_wheel(path)
    tag = os.path.basename(path)[:-len(".whl")].rsplit("-", 1)[-1]
    places = {installed_place(name) for name in files}
    if os.path.getsize(path) > SIZE_MAX:
        yield f"{os.path.getsize(path)} bytes; at most {SIZE_MAX}"
    yield from check_names(files, path, tree)
    yield from check_record(files)
    yield from check_licences(files)
    yield from check_contents(files)
    for name, content in sorted(files.items()):
        if content.startswith(b"\x7fELF"):
            yield from check_elf(name, content, tag, tree, places)
    yield from check_with_auditwheel(files, path, tag)


def main():
    tree, path = os.path.abspath(sys.argv[1]), sys.argv[2]
    found = list(findings(tree, path))
    for finding in found:
        print(f"{os.path.basename(path)}: {finding}")
    if not found:
        print(f"{os.path.basename(path)}: {os.path.getsize(path)} bytes, checked")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
