# SPDX-License-Identifier: Apache-2.0
"""
Spoils an ELF file that a process has mapped, where it stands, in a way that the process itself does
not notice as long as it opens nothing by name any more.

usage: garble.py WAY FILE
"""
import os
import random
import struct
import sys

DT_STRTAB, DT_SYMTAB, DT_GNU_HASH, PT_LOAD, PT_DYNAMIC = 5, 6, 0x6FFFFEF5, 1, 2


class File:
    """A little-endian 64-bit ELF file that can be overwritten in place."""

    def __init__(self, path):
        self.file = open(path, "r+b", buffering=0)
        self.size = os.fstat(self.file.fileno()).st_size
        header = self.get(0, 64)
        self.phoff, = struct.unpack_from("<Q", header, 32)
        self.phnum, = struct.unpack_from("<H", header, 56)

    def get(self, offset, size):
        return os.pread(self.file.fileno(), size, offset)

    def put(self, offset, data):
        os.pwrite(self.file.fileno(), data, offset)

    def programs(self):
        """Yields (type, offset, address, size in the file) of each program header."""
        for i in range(self.phnum):
            row = struct.unpack("<IIQQQQQQ", self.get(self.phoff + 56 * i, 56))
            yield row[0], row[2], row[3], row[5]

    def offset_of(self, address):
        for kind, offset, start, size in self.programs():
            if kind == PT_LOAD and start <= address < start + size:
                return offset + address - start
        raise SystemExit(f"no segment holds {address:#x}")

    def dynamic(self, wanted):
        """Returns the offset in the file to which the entry of the dynamic section points."""
        for kind, offset, _, size in self.programs():
            if kind != PT_DYNAMIC:
                continue
            for tag, value in struct.iter_unpack("<QQ", self.get(offset, size)):
                if tag == wanted:
                    return self.offset_of(value)
        raise SystemExit(f"no entry {wanted:#x}")


def no_header(elf):
    elf.put(0, bytes(64))


def huge_header(elf):
    """Sets tables beyond the end of the file, with as many rows as possible."""
    elf.put(32, b"\xff" * 16)
    elf.put(54, b"\x38\0\xff\xff\x40\0\xff\xff\xff\xff")


def huge_segments(elf):
    for i in range(elf.phnum):
        elf.put(elf.phoff + 56 * i + 8, struct.pack("<QQQQQ", 2**63 - i, 2**64 - 4096, 0, 2**64 - 1,
                                                    2**64 - 1))


def endless_chains(elf):
    """Makes chains of the hash table endless, all beginning at the last possible symbol."""
    at = elf.dynamic(DT_GNU_HASH)
    buckets, first, words, _ = struct.unpack("<IIII", elf.get(at, 16))
    table = at + 16 + 8 * words
    elf.put(at + 16, b"\xff" * 8 * words)
    elf.put(table, struct.pack("<I", max(first, 1)) * buckets)
    chains = elf.get(table + 4 * buckets, elf.dynamic(DT_STRTAB) - table - 4 * buckets)
    elf.put(table + 4 * buckets, bytes(b & 0xFE if i % 4 == 0 else b for i, b in enumerate(chains)))


def wild_names(elf):
    """Makes names of symbols lie outside of the table of names."""
    start, end = elf.dynamic(DT_SYMTAB), elf.dynamic(DT_STRTAB)
    for i, at in enumerate(range(start, end - 23, 24)):
        elf.put(at, struct.pack("<I", 0xFFFFFFFF - i))


def noise(elf):
    """Overwrites everything that is not program: headers, symbols, names, hashes."""
    chance = random.Random(1)
    first = min(offset + size for kind, offset, _, size in elf.programs() if kind == PT_LOAD)
    elf.put(0, bytes(chance.getrandbits(8) for _ in range(first)))


def truncate(elf):
    os.ftruncate(elf.file.fileno(), 0)


WAYS = {f.__name__.replace("_", "-"): f for f in (
    no_header, huge_header, huge_segments, endless_chains, wild_names, noise, truncate)}


def main():
    if len(sys.argv) != 3 or sys.argv[1] not in WAYS:
        raise SystemExit(f"usage: garble.py {{{','.join(WAYS)}}} FILE")
    WAYS[sys.argv[1]](File(sys.argv[2]))


if __name__ == "__main__":
    main()
