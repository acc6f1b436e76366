# SPDX-License-Identifier: Apache-2.0
"""
Compares the whole Python stacks of a profile with those that the program itself has written:
check_python_stacks.py PROFILE FILE (tests/victims/sampled/whole_stacks.py).
"""
import json
import linecache
import sys

from heap_profile import Profile

DEPTH = 256  # largest number of frames of a stack in a profile


def has_not_begun(frame):
    """Moves a frame to its `def`: objects that such a call allocates (a coroutine, a cell) belong
    to it, but Python does not show the call yet."""
    name, file, line = frame
    found = linecache.getline(file, line).strip()
    return found.startswith("@") or f"def {name.split('.')[-1]}(" in found


def is_same(stack, expected):
    at = 0
    for frame in stack:
        if at < len(expected) and [frame[0], frame[2]] == expected[at]:
            at += 1
        elif not has_not_begun(frame):
            return False
    return at == len(expected) or len(stack) == DEPTH


def main():
    profile = Profile(sys.argv[1])
    profile.check()
    with open(sys.argv[2], encoding="utf-8") as file:
        stacks = {int(size): stack for size, stack in json.load(file).items()}
    found = {}  # a table of the program may be as large as one of its blocks
    for row in profile.live.values():
        if row.size in stacks:
            stack = profile.stack(profile.sites[row.site].node)
            found.setdefault(row.size, []).append([frame for frame in stack if len(frame) == 3])
    wrong = {size: found.get(size) for size, expected in stacks.items()
             if not any(is_same(stack, expected[:DEPTH]) for stack in found.get(size, []))}
    for size, stack in list(wrong.items())[:3]:
        print(size, "has", stack and [one[:8] for one in stack], "and not", stacks[size][:8])
    print(len(stacks), "stacks,", len(wrong), "wrong")
    assert len(stacks) > 500 and not wrong


main()
