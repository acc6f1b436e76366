#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
Every CPython that flmem samples and runs code in, and where this machine has it. As a program it
prints a line for each: "3.11 /usr/bin/python3", or "3.14 - REASON" for a version that is absent.

It looks among those of pyenv, those that tests/worlds/make-python made, and in /usr/bin.
"""
import glob
import os
import re
import subprocess
from dataclasses import dataclass

OLDEST, NEWEST = 8, 15
CACHE = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
MADE = os.environ.get("FLMEM_PYTHONS") or os.path.join(CACHE, "flmem", "pythons")
PLACES = (os.path.expanduser("~/.pyenv/versions/3.*/bin/python3"),
          os.path.join(MADE, "3.*", "bin", "python3"), "/usr/bin/python3", "/usr/bin/python3.[0-9]*")
ASK = "import sys; print(*sys.version_info[:3], sys.implementation.name)"


@dataclass
class Python:
    version: str  # "3.11"
    path: str = ""
    missing: str = ""  # why it cannot be run here


def ask(path):
    """Returns ("3.11", "3.11.2") of a CPython that runs, else None."""
    try:
        said = subprocess.run([path, "-c", ASK], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, check=False).stdout.decode().split()
    except OSError:
        return None
    if len(said) != 4 or said[3] != "cpython":
        return None
    return ".".join(said[:2]), ".".join(said[:3])


def natural(path):
    return [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", path)]


def candidates():
    """Yields each file once, by the name under which it is found first."""
    seen = set()
    for place in PLACES:
        for path in sorted(glob.glob(place), key=natural):
            if path.endswith("-config") or os.path.realpath(path) in seen:
                continue
            seen.add(os.path.realpath(path))
            yield path


def every():
    """Returns all that run here, the oldest first, and the versions that are claimed but absent."""
    claimed = [f"3.{minor}" for minor in range(OLDEST, NEWEST + 1)]
    found, broken = [], {}
    for path in candidates():
        said = ask(path)
        named = re.search(r"3\.\d+", path)
        if said and said[0] in claimed:
            found.append(Python(said[0], path))
        elif not said and named:
            broken[named.group()] = f"{path} does not run"
    have = {one.version for one in found}
    found += [Python(version, missing=broken.get(version, f"no Python {version} is installed"))
              for version in claimed if version not in have]
    return sorted(found, key=lambda one: natural(one.version))


def main():
    for one in every():
        print(one.version, one.path or f"- {one.missing}")


if __name__ == "__main__":
    main()
