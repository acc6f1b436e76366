# SPDX-License-Identifier: Apache-2.0
"""
No object of libcore/ uses a symbol that a directory above it defines: links.py ROOT BUILD

layers.py reads includes; a declaration that is repeated by hand would escape it.
"""
import os
import subprocess
import sys

import tree
from directories import DIRECTORIES, PRINTERS, directory_of

OBJECTS = "libcore/CMakeFiles/flmem_objects.dir"


def objects(build):
    top = os.path.join(build, OBJECTS)
    for directory, _, names in os.walk(top):
        for name in names:
            if name.endswith(".o"):
                path = os.path.join(directory, name)
                yield path, os.path.relpath(path, top)[:-len(".o")]


def symbols(path):
    """(those that it defines, those that it uses)"""
    listed = subprocess.run(["nm", "-P", path], stdout=subprocess.PIPE, check=True, text=True)
    defined, used = set(), set()
    for line in listed.stdout.splitlines():
        name, kind = line.split()[:2]
        if kind == "U":
            used.add(name)
        elif kind.isupper():
            defined.add(name)
    return defined, used


def finding(user, owner, symbol):
    below, above = directory_of(user), directory_of(owner)
    if below == above or below in PRINTERS or above in DIRECTORIES.get(below, ()):
        return None
    return f"libcore/{user}: uses {symbol} of {owner}: {below}/ may not depend on {above}/"


def main():
    top, build = tree.root(), sys.argv[2]
    tables = {name: symbols(path) for path, name in objects(build)
              if os.path.exists(os.path.join(top, "libcore", name))}
    if not tables:
        print(f"links: no objects below {build}/{OBJECTS}: this checks nothing")
        sys.exit(1)
    owners = {symbol: name for name, (defined, _) in tables.items() for symbol in defined}
    findings = [finding(user, owners[symbol], symbol)
                for user, (_, used) in sorted(tables.items())
                for symbol in sorted(used) if symbol in owners]
    tree.finish([f for f in findings if f], len(tables))


main()
