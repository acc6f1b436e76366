# SPDX-License-Identifier: Apache-2.0
"""
Two programs in turn, some ten milliseconds each, on one processor: a virtual machine is slowed by others for tenths
of a second, by up to a half, which neighbouring turns have in common and whole runs do not. A program makes one turn for
each line that it reads, and prints the processor time of that turn in us.
"""
import os
import subprocess

import stage
from harness import report


class _Program:
    def __init__(self, words, processor):
        # Pin the program to the same processor, unless its threads need all processors.
        pin = None if processor is None else lambda: os.sched_setaffinity(0, {processor})
        self.process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0,
                                        preexec_fn=pin)

    def turn(self):
        self.process.stdin.write(b"\n")
        line = b""
        while not line.endswith(b"\n"):
            piece = self.process.stdout.read(64)
            if not piece:
                raise stage.Failed(f"{self.process.args[0]} has ended during its turns")
            line += piece
        return int(line)

    def end(self):
        self.process.stdin.close()
        status = self.process.wait()
        self.process.stdout.close()
        if status:
            raise stage.Failed(f"{self.process.args[0]}: exit status {status}")


def compare(plain, other, count, processor=None):
    """Returns (us of a turn of plain, the additional share that a turn of other takes): medians of
    `count` pairs, before which each program makes one turn that is not counted."""
    programs = [_Program(plain, processor), _Program(other, processor)]
    pairs = []
    try:
        for number in range(count + 1):
            order = (0, 1, 1, 0)[number % 2 * 2:][:2]
            spent = {which: programs[which].turn() for which in order}
            pairs.append((spent[0], spent[1]))
    finally:
        for program in programs:
            program.end()
    pairs = pairs[1:]
    return report.median([a for a, _ in pairs]), report.median([b / a - 1 for a, b in pairs])
