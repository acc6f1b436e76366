#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
check_python_sites.py PROFILE SCRIPT MINOR: the places of sampled.py that are marked HERE are in the
profile with function, file, line and all of their bytes. Before 3.11 code has no qualified name.
"""
import os
import re
import sys

from heap_profile import Profile

SIZE, TIMES = 100000, 3
STACKS = (
    ["inside_wrapper", "decorated.<locals>.wrapper", "main", "<module>"],
    ["awaited", "awaiting", "run_coroutine", "main", "<module>"],
    ["asynchronous", "run_generator", "main", "<module>"],
    ["generator_of_parts", "delegating", "main", "<module>"],
    ["Manager.__exit__", "by_raising", "main", "<module>"],
    ["in_mapping", "main", "<module>"],
)


def main():
    profile, script, minor = Profile(sys.argv[1]), os.path.realpath(sys.argv[2]), int(sys.argv[3])
    profile.check()
    assert profile.python_state == 1, profile.python_state
    assert profile.python_version >> 16 == 0x300 | minor, hex(profile.python_version)
    with open(script, encoding="utf-8") as file:
        lines = list(enumerate(file, 1))
    expected = {}
    for number, line in lines:
        mark = re.search(r"# HERE (\S+)", line)
        if mark:
            name = mark[1] if minor >= 11 else mark[1].split(".")[-1]
            expected[name, script, number] = SIZE * TIMES
    found = profile.python_sites()
    # A site may have more bytes: the functions also allocate by themselves.
    wrong = [(place, found.get(place)) for place, size in expected.items()
             if not size <= found.get(place, (0,))[0]]
    assert not wrong, (wrong, [place for place in found if place and place[1] == script])
    assert ("made", "<string>", 2) in found
    check_stacks(profile, minor, {place[0]: place[2] for place in expected})
    print(f"{len(expected)} places")


def check_stacks(profile, minor, line_of):
    stacks = [[f for f in profile.stack(s.node) if len(f) == 3] for s in profile.sites.values()
              if s.allocated_bytes >= SIZE]
    recursive = [s for s in stacks if s and s[0][0] == "recursive" and s[0][2] == line_of["recursive"]]
    assert [f[0] for f in recursive[0]] == ["recursive"] * 21 + ["main", "<module>"], recursive
    for expected in STACKS:
        if minor < 11:
            expected = [name.split(".")[-1] for name in expected]
        # A stack may occur twice: threads do not wait for each other to record it.
        known = {tuple(f[0] for f in s) for s in stacks if s and s[0][0] == expected[0]}
        assert known == {tuple(expected)}, known
    in_thread = {tuple(f[0].split(".")[-1] for f in s)
                 for s in stacks if s and s[0][0] == "in_thread"}
    assert in_thread == {("in_thread", "run", "_bootstrap_inner", "_bootstrap")}, in_thread
    nothing = {"<interpreter trampoline>", "<shim>"}
    assert not any(nothing & set(f) for s in stacks for f in s)


if __name__ == "__main__":
    main()
