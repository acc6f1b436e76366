# SPDX-License-Identifier: Apache-2.0
"""The libraries that the wheels link in: Debian's source packages, with Debian's corrections.

apt-get fetches and verifies them with lists of its own below the build directory; the system's apt
is not changed. A library of another upstream version than the one named here ends the build: look
through its changes, then change the version.
"""
import os
import re
import shutil
import subprocess
from dataclasses import dataclass

MIRROR = "http://deb.debian.org"
SUITE = "bookworm"
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"


@dataclass
class Library:
    """A bundled library; `sha256` and `debian_version` are set when it has been fetched."""

    name: str
    package: str
    upstream: str
    licence: str
    licence_file: str
    homepage: str
    debian_version: str = ""
    archive: str = ""
    sha256: str = ""


def libraries():
    return [
        Library("cJSON", "cjson", "1.7.15", "MIT", "LICENSE", "https://github.com/DaveGamble/cJSON"),
        Library("libyaml", "libyaml", "0.2.5", "MIT", "License", "https://github.com/yaml/libyaml"),
        Library("zlib", "zlib", "1.2.13", "Zlib", "LICENSE", "https://zlib.net"),
    ]


# Libraries that are loaded on use, so only their headers are needed: pkg-config's name, header,
# prefix in CMakeLists.txt.
HEADERS = (
    ("libmicrohttpd", "microhttpd.h", "MICROHTTPD"),
    ("gnutls", "gnutls", "GNUTLS"),
    ("libcurl", "curl", "CURL"),
    ("ncursesw", "curses.h", "NCURSESW"),
    ("ncursesw", "ncurses_dll.h", None),
    ("ncursesw", "unctrl.h", None),
)


def apt(directory, *words, kind="deb-src"):
    """Runs apt-get in that directory, with separate lists of the source packages or of the binary
    ones."""
    state = os.path.join(directory, "apt")
    os.makedirs(os.path.join(state, "lists", "partial"), exist_ok=True)
    os.makedirs(os.path.join(state, "cache", "archives", "partial"), exist_ok=True)
    listed = os.path.join(state, "sources.list")
    with open(listed, "w", encoding="ascii") as file:
        for place, suite in (("debian", SUITE), ("debian-security", SUITE + "-security")):
            if suite == "sid-security":
                continue  # the architecture has no such list
            file.write(f"{kind} [signed-by={KEYRING}] {MIRROR}/{place} {suite} main\n")
    subprocess.run(
        ["apt-get", "-q", "-o", f"Dir::Etc::sourcelist={listed}", "-o", "Dir::Etc::sourceparts=-",
         "-o", f"Dir::State::lists={state}/lists", "-o", f"Dir::Cache={state}/cache",
         # Ignore the packages that are installed here, perhaps of a later release.
         "-o", "Dir::State::status=/dev/null",
         "-o", "APT::Sandbox::User=", *words], cwd=directory, check=True, stdout=subprocess.DEVNULL)


def download_packages(directory, architecture, packages):
    """Fetches binary packages of another architecture, for tests."""
    for words in (["update"], ["download", *packages]):
        apt(directory, "-o", f"APT::Architecture={architecture}", "-o",
            f"APT::Architectures::={architecture}", *words, kind="deb")


def upstream_of(version):
    """Returns the upstream version: 1.2.13 for 1:1.2.13.dfsg-1."""
    return re.sub(r"^\d+:|(\.dfsg|\+dfsg|\+ds)?-[^-]*$", "", version)


def read_description(library, directory):
    """Takes version and checksum from the signed description of the source package."""
    found = [name for name in os.listdir(directory)
             if name.startswith(library.package + "_") and name.endswith(".dsc")]
    with open(os.path.join(directory, found[0]), encoding="utf-8") as file:
        text = file.read()
    library.debian_version = re.search(r"^Version: (\S+)", text, re.M).group(1)
    sums = text[text.index("Checksums-Sha256:"):]
    library.sha256, library.archive = re.search(r"([0-9a-f]{64}) \d+ (\S+\.orig\.tar\.\S+)",
                                                sums).groups()
    if upstream_of(library.debian_version) != library.upstream:
        raise SystemExit(f"wheels: Debian has {library.name} {library.debian_version}, "
                         f"scripts/wheels/sources.py names {library.upstream}; check what changed "
                         "and renew the line")
    return os.path.join(directory, found[0])


def copy_headers(directory):
    include = os.path.join(directory, "include")
    os.makedirs(include, exist_ok=True)
    for package, header, prefix in HEADERS:
        base = subprocess.run(["pkg-config", "--variable=includedir", package], check=True,
                              stdout=subprocess.PIPE, text=True).stdout.strip()
        source = next((path for path in (os.path.join(place, header) for place in (base, "/usr/include"))
                       if os.path.exists(path)), None)
        if source is None:
            raise SystemExit(f"wheels: {header} of {package} is missing; run scripts/setup build")
        if os.path.isdir(source):
            shutil.copytree(source, os.path.join(include, header), dirs_exist_ok=True)
        else:
            shutil.copy(source, include)
        if prefix:
            with open(os.path.join(include, "." + prefix), "w", encoding="ascii"):
                pass


def fetch(directory):
    """Unpacks the libraries into the directory and returns them. Libraries that are there already
    are kept."""
    found = libraries()
    os.makedirs(directory, exist_ok=True)
    done = os.path.join(directory, ".done")
    if not os.path.exists(done):
        apt(directory, "update")
        apt(directory, "source", "--download-only", *(library.package for library in found))
    for library in found:
        description = read_description(library, directory)
        tree = os.path.join(directory, library.package)
        if not os.path.exists(done):
            shutil.rmtree(tree, ignore_errors=True)
            subprocess.run(["dpkg-source", "--no-check", "-x", description, tree], check=True,
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    copy_headers(directory)
    with open(done, "w", encoding="ascii"):
        pass
    return found
