#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
The entries of a process's global offset tables that name a function of the allocator, read from
outside, and the protection of what its files are mapped to.

usage: got.py snapshot PID >FILE
       got.py check PID FILE     every entry and protection is as it was
       got.py redirected PID     how many lead to the sampler, and the files that have such
"""
import json
import os
import struct
import sys

NAMES = {b"malloc", b"calloc", b"realloc", b"reallocarray", b"free", b"memalign", b"posix_memalign",
         b"aligned_alloc", b"valloc", b"pvalloc", b"mmap", b"mmap64", b"munmap", b"mremap",
         b"dlclose", b"dlopen", b"dlsym"}
UNCALLED = {"pvalloc"}
KINDS = {6, 7}  # R_X86_64_GLOB_DAT, R_X86_64_JUMP_SLOT
PT_LOAD, PT_DYNAMIC = 1, 2
STRTAB, SYMTAB, RELA, RELASZ, JMPREL, PLTRELSZ = 5, 6, 7, 8, 23, 2


def is_sampler(path):
    return os.path.basename(path).startswith((".flmem-", "libflmem-sampler"))


class Process:
    def __init__(self, pid, known=None):
        """KNOWN: facts that an earlier pass over the same process found about its files, if these
        have stayed."""
        self.known = {} if known is None else known
        self.maps = []
        with open(f"/proc/{pid}/maps", encoding="utf-8", errors="replace") as lines:
            for line in lines:
                fields = line.split(None, 5)
                start, end = (int(part, 16) for part in fields[0].split("-"))
                self.maps.append((start, end, fields[1], int(fields[2], 16),
                                  fields[5].strip() if len(fields) > 5 else ""))
        self.memory = open(f"/proc/{pid}/mem", "rb", buffering=0)

    def read(self, at, length):
        self.memory.seek(at)
        return self.memory.read(length)

    def file_at(self, address):
        for start, end, _, _, path in self.maps:
            if start <= address < end:
                return path
        return ""

    def objects(self):
        """Yields path and address of the first byte of each ELF file."""
        seen = set()
        for start, _, access, offset, path in self.maps:
            if path.startswith("/") and offset == 0 and path not in seen and access[0] == "r":
                if self.read(start, 4) == b"\x7fELF":
                    seen.add(path)
                    yield path, start

    def tables(self, start):
        """Returns the dynamic section, and the load bias."""
        offset, count = struct.unpack("<Q", self.read(start + 32, 8))[0], \
            struct.unpack("<H", self.read(start + 56, 2))[0]
        parts = [struct.unpack("<IIQQQQQQ", self.read(start + offset + 56 * i, 56))
                 for i in range(count)]
        first = min(part[3] for part in parts if part[0] == PT_LOAD) & ~4095
        bias = start - first
        dynamic = next((part for part in parts if part[0] == PT_DYNAMIC), None)
        if not dynamic:
            return {}, bias
        raw = self.read(bias + dynamic[3], dynamic[6])
        return dict(struct.iter_unpack("<qQ", raw[:len(raw) // 16 * 16])), bias

    def places(self, path, start):
        """Yields (address of the entry, name) of each entry in one file."""
        tags, bias = self.tables(start)
        if STRTAB not in tags or is_sampler(path) or "/ld-" in path:
            return
        move = 0 if tags[STRTAB] >= start else bias
        for table, size in ((RELA, RELASZ), (JMPREL, PLTRELSZ)):
            if table not in tags or size not in tags:
                continue
            raw = self.read(tags[table] + move, tags[size])
            for place, info, addend in struct.iter_unpack("<QQq", raw):
                if info & 0xffffffff not in KINDS or addend:
                    continue
                symbol = self.read(tags[SYMTAB] + move + 24 * (info >> 32), 4)
                name = self.read(tags[STRTAB] + move + struct.unpack("<I", symbol)[0], 20)
                name = name.split(b"\0")[0]
                if name in NAMES:
                    yield bias + place, name.decode()

    def entries(self):
        """Returns {address: (value, path, name)}."""
        found = {}
        for file in self.objects():
            if file not in self.known:
                self.known[file] = list(self.places(*file))
            for at, name in self.known[file]:
                found[at] = (struct.unpack("<Q", self.read(at, 8))[0], file[0], name)
        return found

    def protections(self):
        return [[start, end, access, path] for start, end, access, _, path in self.maps
                if path.startswith("/") and not is_sampler(path) and not path.endswith(".prof")]

    def state(self):
        """Returns the state that check() compares with."""
        return {"entries": self.entries(), "protections": self.protections()}


def redirected(process, entries=None):
    return {at: path for at, (value, path, _) in (entries or process.entries()).items()
            if is_sampler(process.file_at(value))}


def check(process, before):
    now = process.entries()
    left = redirected(process, now)
    if left:
        return f"{len(left)} entries still lead to the sampler: {sorted(set(left.values()))}"
    for at, (value, path, name) in before["entries"].items():
        there = now.get(int(at), (None, path))[0]
        # The linker binds functions that are called for the first time meanwhile.
        bound = name not in UNCALLED and process.file_at(value) == path
        if there is not None and there != value and not bound:
            return f"{path}: the entry at {int(at):x} was {value:x} and is {there:x}"
    access = {tuple(one) for one in process.protections()}
    changed = [one for one in before["protections"] if tuple(one) not in access]
    return f"protections changed: {changed}" if changed else ""


def main():
    process = Process(int(sys.argv[2]))
    if sys.argv[1] == "snapshot":
        json.dump(process.state(), sys.stdout)
    elif sys.argv[1] == "redirected":
        found = redirected(process)
        print(len(found), *sorted({os.path.basename(path) for path in found.values()}))
    else:
        with open(sys.argv[3], encoding="utf-8") as kept:
            sys.exit(check(process, json.load(kept)) or 0)


if __name__ == "__main__":
    main()
