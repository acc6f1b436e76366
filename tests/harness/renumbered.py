#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
Copies a CPython so that it reports another version, in its file and in its memory, and prints the
home that the copy needs (PYTHONHOME).

usage: renumbered.py PYTHON COPY HEX

HEX is the other version as sys.hexversion, for example 31000f0.
"""
import os
import shutil
import struct
import subprocess
import sys


def version_of(path):
    said = subprocess.run([path, "-c", "import sys; print(sys.hexversion, sys.prefix)"], check=True,
                          stdout=subprocess.PIPE).stdout.decode().split()
    return int(said[0]), said[1]


def offset_of(data, path, name):
    """Returns the offset of a dynamic symbol in the file."""
    symbols = subprocess.run(["nm", "-D", path], check=True, stdout=subprocess.PIPE).stdout.decode()
    address = next(int(line.split()[0], 16) for line in symbols.splitlines()
                   if line.endswith(f" {name}") or f" {name}@@" in line)
    start, = struct.unpack_from("<Q", data, 32)
    size, count = struct.unpack_from("<HH", data, 54)
    for at in range(start, start + size * count, size):
        kind, _, offset, base, _, length = struct.unpack_from("<IIQQQQ", data, at)
        if kind == 1 and base <= address < base + length:
            return offset + address - base
    raise SystemExit(f"{path} has no {name} in its file")


def main():
    path, copy, other = sys.argv[1:]
    version, home = version_of(path)
    with open(path, "rb") as stream:
        data = bytearray(stream.read())
    # The version is in the symbol, and in the table behind its cookie.
    for at in offset_of(data, path, "Py_Version"), offset_of(data, path, "_PyRuntime") + 8:
        if data[at:at + 4] != struct.pack("<I", version):
            raise SystemExit(f"{path} does not hold its version as expected")
        data[at:at + 4] = struct.pack("<I", int(other, 16))
    with open(copy, "wb") as stream:
        stream.write(data)
    shutil.copymode(os.path.realpath(path), copy)
    print(home)


main()
