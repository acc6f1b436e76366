# SPDX-License-Identifier: Apache-2.0
"""
Checks the mixed stacks of tests/victims/sampled/callbacks.py: check_mixed_stacks.py FILE MINOR, with
what `flmem profile export --format collapsed` has written, and the minor version of that CPython.
"""
import re
import sys

SCRIPT = "callbacks.py:"


def is_python(frame):
    return bool(re.search(r"\.py:\d+\)$|<frozen .*:\d+\)$", frame))


def function_of(frame):
    return frame.split(" (")[0].split(".")[-1] if is_python(frame) else None


def runs_of(frames):
    """Returns lists of native frames between the names of Python functions: [[...], "f", [...],
    "g", [...]]."""
    runs = [[]]
    for frame in frames:
        if is_python(frame):
            runs += [function_of(frame), []]
        else:
            runs[-1].append(frame)
    return runs


def stacks_of(path):
    with open(path, encoding="utf-8") as file:
        return [line.rsplit(" ", 1)[0].split(";") for line in file]


def stack_of(stacks, function):
    found = [s for s in stacks if SCRIPT in str([f for f in s if is_python(f)][-1:]) and
             [function_of(f) for f in s if is_python(f)][-1] == function]
    assert len(found) == 1, (function, found)
    return runs_of(found[0])


def expect(stacks, functions, through):
    """Checks a stack. `through` is the least number of native frames before the last function."""
    runs = stack_of(stacks, functions[-1])
    print(*runs, sep="\n  ")
    assert runs[1::2] == functions, (runs[1::2], functions)
    natives = runs[0::2]
    assert len(natives[0]) >= 2 and len(natives[-1]) >= 2, natives
    assert len(natives[-2]) >= through, natives
    return natives


def check_names(natives, names):
    """Checks names where the build has symbols: static functions have none in a stripped build."""
    text = " ".join(natives)
    if names[0] in text:
        assert re.search(".*".join(names), text), (names, natives)


def check_recursion(stacks):
    runs = stack_of(stacks, "inner")
    assert runs[1::2] == ["<module>"] + 21 * ["inner"], runs
    assert all(len(natives) >= 1 for natives in runs[4::2]), runs


def main():
    stacks, minor = stacks_of(sys.argv[1]), int(sys.argv[2])
    assert not any("_PyEval_EvalFrame" in frame for stack in stacks for frame in stack)
    natives = expect(stacks, ["<module>", "by_sorted", "key"], 2)
    assert bool(natives[1]) == (minor < 11), natives  # since 3.11 such a call has no native frames
    check_names(natives[-2], ["builtin_sorted", "list_sort"])
    assert "_start" in natives[0][0], natives[0]
    expect(stacks, ["<module>", "by_reduce", "add"], 1)
    natives = expect(stacks, ["<module>", "by_qsort", "compare"], 7)
    assert re.search(r"_ctypes.*ffi.*qsort.*libc\.so.*ffi.*_ctypes", " ".join(natives[-2])), natives
    expect(stacks, ["<module>", "by_list", "generate"], 1)
    assert stack_of(stacks, "__del__")[1::2][:1] == ["<module>"]
    natives = expect(stacks, ["_bootstrap", "_bootstrap_inner", "run", "work"], 0)
    assert all("[libc.so" in name or name.startswith("libc.so") for name in natives[0][:2]), natives
    check_recursion(stacks)


main()
