# SPDX-License-Identifier: Apache-2.0
"""
Functions whose code is at the same address as that of the one before: 300 names of as many
functions, then one function with three tables of lines in turn.
"""
import sys

kept = []
NAMES = ("co_name", "co_qualname") if sys.version_info >= (3, 11) else ("co_name",)
TABLE = "co_linetable" if sys.version_info >= (3, 10) else "co_lnotab"


def work():
    return bytearray(100000)


def use(function, **changed):
    old = function.__code__
    function.__code__ = old.replace(**changed)
    kept.append(function())
    function.__code__ = old


def rename(number):
    name = "name_%03d" % number
    use(work, **{what: name for what in NAMES})


def tables():
    """Defines one function whose body is one line further down each time."""
    for i in range(3):
        scope = {}
        exec(compile("def work():\n" + "\n" * i + "    return bytearray(100000)\n", "lines", "exec"), scope)
        yield scope["work"], getattr(scope["work"].__code__, TABLE)


for i in range(300):
    rename(i)
rows = list(tables())
for i in range(300):
    use(rows[0][0], **{TABLE: bytes(bytearray(rows[i % 3][1]))})
