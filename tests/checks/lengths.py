# SPDX-License-Identifier: Apache-2.0
"""
Files stay under 600 lines, C functions within 60 (clang-tidy counts the rest), C lines within 100
columns: clang-format leaves comments as they are. README.md fits a few screens, and an entry of
CHANGELOG.md is one line.
"""
import re

import tree

FILE_LINES = 600
FUNCTION_LINES = 60
README_LINES = 160
COLUMNS = 100
SUFFIXES = (".c", ".h", ".inc", ".js", ".pml", ".py", ".pyi", ".sh", ".bash", ".bats", ".cmake", "CMakeLists.txt")
EXEMPT = ("completions/", "tests/fixtures/", "tests/fuzz/corpus/")  # generated or captured


def long_functions(source):
    """Finds functions by their bodies: clang-format puts only those braces into the first
    column."""
    lines = source.split("\n")
    start = None
    for number, line in enumerate(lines, 1):
        if line == "{":
            start = number
        elif line == "}" and start is not None:
            if number - start - 1 > FUNCTION_LINES:
                head = next((l for l in reversed(lines[:start - 1]) if re.match(r"\w", l)), "?")
                yield start, head, number - start - 1
            start = None


def wide_lines(source):
    for number, line in enumerate(source.split("\n"), 1):
        width = len(line.expandtabs(8))
        if width > COLUMNS:
            yield number, width


def main():
    top = tree.root()
    names = [n for n in tree.files(top) if not n.startswith(EXEMPT) and (
        n.endswith(SUFFIXES) or tree.is_script(top, n))]
    findings = []
    for name in tree.sources(top, "README.md"):
        count = tree.text(top, name).count("\n")
        if name == "README.md" and count > README_LINES:
            findings.append(f"{name}: {count} lines; at most {README_LINES}")
    for name in tree.sources(top, "CHANGELOG.md"):
        for number, line in enumerate(tree.text(top, name).split("\n"), 1):
            if line.startswith(" "):
                findings.append(f"{name}:{number}: an entry is one line")
    for name in names:
        source = tree.text(top, name)
        count = source.count("\n")
        if count >= FILE_LINES:
            findings.append(f"{name}: {count} lines; split it below {FILE_LINES}")
        if name.endswith((".c", ".h", ".inc")):
            for line, head, length in long_functions(source):
                findings.append(f"{name}:{line}: {length} lines in '{head}'; "
                                f"at most {FUNCTION_LINES}")
            for line, width in wide_lines(source):
                findings.append(f"{name}:{line}: {width} columns; at most {COLUMNS}")
    tree.finish(findings, len(names))


main()
