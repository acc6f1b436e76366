# SPDX-License-Identifier: Apache-2.0
"""
Garbage whose finaliser recurses as deep as Python lets it, through C. The program itself survives
that in its first thread.

usage: safe_deep.py [raise]

raise: its stack limit is raised first, to the usual 8 MiB.
"""
import gc
import os
import resource
import sys
import time

USUAL = 8 << 20


def nest(_):
    """Recurses through sorted(), which needs more of the stack for a level than any Python code."""
    return sorted([0], key=nest)


class Deep:
    def __del__(self):
        try:
            nest(0)
        except RecursionError:
            os.write(1, b"finalised\n")


def litter():
    deep = Deep()
    deep.itself = deep


if "raise" in sys.argv:
    resource.setrlimit(resource.RLIMIT_STACK, (USUAL, resource.getrlimit(resource.RLIMIT_STACK)[1]))
gc.disable()
litter()
gc.collect()
litter()
os.write(1, b"ready\n")
time.sleep(1000)
