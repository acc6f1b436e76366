# SPDX-License-Identifier: Apache-2.0
"""
A static function names its object: its name has two words or more, and no other file of libcore/ or
cli/ defines a function of that name. A debugger, perf and grep find one then.
"""
import re

import tree


def without_text(source):
    """Comments and strings replaced by blanks; the lines stay."""
    return re.sub(r'/\*.*?\*/|"(?:\\.|[^"\\\n])*"', lambda m: "\n" * m.group().count("\n"), source,
                  flags=re.S)


def functions(source):
    """(line, name, whether it is static) of each definition: its body starts in the first column."""
    lines = without_text(source).split("\n")
    for i, line in enumerate(lines):
        if line != "{":
            continue
        start = i
        while start and lines[start - 1].strip() and lines[start - 1] != "}":
            start -= 1
        head = re.sub(r"__attribute__\(\(.*?\)\)", "", " ".join(lines[start:i]))
        name = re.search(r"(\w+)\s*\(", head)
        if name:
            yield start + 1, name.group(1), re.search(r"\bstatic\b", head) is not None


def main():
    top = tree.root()
    names = [n for n in tree.sources(top, ".c") if n.startswith(("libcore/", "cli/"))]
    defined, static, findings = {}, [], []
    for name in names:
        for line, function, is_static in functions(tree.text(top, name)):
            defined.setdefault(function, []).append(name)
            if is_static:
                static.append((name, line, function))
    for name, line, function in static:
        others = [n for n in defined[function] if n != name]
        if others:
            findings.append(f"{name}:{line}: {others[0]} has a function '{function}' as well; "
                            "name its object")
        elif "_" not in function:
            findings.append(f"{name}:{line}: '{function}' does not name its object")
    tree.finish(findings, len(names))


main()
