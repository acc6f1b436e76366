# SPDX-License-Identifier: Apache-2.0
"""
Compares the whole Python stacks of a profile with those that the program itself has written:
check_python_stacks.py PROFILE FILE (tests/victims/sampled/whole_stacks.py).
"""
import json
import sys

from heap_profile import Profile

DEPTH = 256  # frames in a profile


def main():
    profile = Profile(sys.argv[1])
    profile.check()
    with open(sys.argv[2], encoding="utf-8") as file:
        stacks = {int(size): stack for size, stack in json.load(file).items()}
    found = {}
    for row in profile.live.values():
        if row.size in stacks:
            stack = profile.stack(profile.sites[row.site].node)
            found[row.size] = [[frame[0], frame[2]] for frame in stack if len(frame) == 3]
    wrong = {size: found.get(size) for size, stack in stacks.items() if found.get(size) != stack[:DEPTH]}
    for size, stack in list(wrong.items())[:3]:
        print(size, "has", stack and stack[:8], "and not", stacks[size][:8])
    print(len(stacks), "stacks,", len(wrong), "wrong")
    assert len(stacks) > 500 and not wrong


main()
