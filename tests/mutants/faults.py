# SPDX-License-Identifier: Apache-2.0
"""
What a fault is. The tables are in faults_*.py, one for each part of libcore/.

A fault takes one protection out of the code, or turns it round, and names the tests that have to
notice. It is found by its text, so a change of the code makes it stale, which is an error: whoever
changes a protection checks its fault, too.
"""
import os
from dataclasses import dataclass, replace
from typing import Tuple


# Code that touches or reads other processes, or runs in them; `make soak` plants the faults of all
# directories.
GUARDS = tuple(f"libcore/{room}/" for room in (
    "allocators", "base", "elf", "ops/profile", "ops/target", "ops/trim", "preload", "proc", "remote", "runtimes"))


class Stale(Exception):
    """Raised if the text of the fault does not occur exactly once in the source."""


@dataclass(frozen=True)
class Fault:
    name: str
    file: str
    old: str  # occurs exactly once in the file
    new: str
    removes: str  # the protection that the fault removes
    # ctest names; "cli.trim/pattern": those tests of the bats file; "unit.test_x/word": the program
    # with that argument. The first test that fails is enough.
    tests: Tuple[str, ...]
    slow: bool = False  # a time limit of the test notices it

    @property
    def quick(self):
        """Reports whether `make check` plants the fault: it concerns a target, and unit tests
        notice it at once."""
        return self.file.startswith(GUARDS) and not self.slow and bool(self.hastened().tests)

    def hastened(self):
        """Returns the fault with its unit tests alone."""
        return replace(self, tests=tuple(t for t in self.tests if t.startswith("unit.")))

    def planted(self, path):
        """Returns the source with the fault in it."""
        with open(path, encoding="utf-8") as file:
            text = file.read()
        count = text.count(self.old)
        if count != 1:
            raise Stale(f"its text stands {count} times in {self.file}")
        if self.old == self.new:
            raise Stale("it changes nothing")
        return text.replace(self.old, self.new)


def check(faults, root):
    """Returns defects of the table, and faults whose text the sources no longer have, also those
    that this run does not plant."""
    found, names = [], set()
    for fault in faults:
        if fault.name in names:
            found.append(f"{fault.name}: twice")
        names.add(fault.name)
        if not fault.file.startswith("libcore/") or not fault.file.endswith(".c"):
            found.append(f"{fault.name}: {fault.file} is not a source of the library")
        if not fault.tests:
            found.append(f"{fault.name}: names no test")
        try:
            fault.planted(os.path.join(root, fault.file))
        except (Stale, OSError) as error:
            found.append(f"STALE {fault.name}: {error}")
    return found
