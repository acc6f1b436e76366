# SPDX-License-Identifier: Apache-2.0
"""
A static function names its object: its name has two words or more, and no other file of libcore/ or
cli/ defines a function of that name. No two files define types or data of the same name, and no two folders
have sources of the same name (a public header has that of the source that implements it). A
debugger, perf, grep and who opens a file by its name find one then.
"""
import os
import re

import tree


def without_text(source):
    """Returns the source with comments and strings replaced by blanks; the lines stay."""
    return re.sub(r'/\*.*?\*/|"(?:\\.|[^"\\\n])*"', lambda m: "\n" * m.group().count("\n"), source,
                  flags=re.S)


def functions(source):
    """Yields (line, name, whether it is static) of each function whose body starts in the first
    column."""
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


def repeated_files(names):
    """Returns sources whose name occurs in another folder as well."""
    folders = {}
    for name in names:
        folder, stem = os.path.dirname(name), os.path.basename(name).rsplit(".", 1)[0]
        if folder != "libcore/include/flmem" and folders.setdefault(stem, folder) != folder:
            yield f"{name}: {folders[stem]}/ has a file '{stem}' as well; name what differs"


def repeated_types(top, names):
    """Returns types that another file has defined before."""
    defined = {}
    for name in names:
        lines = without_text(tree.text(top, name)).split("\n")
        for number, line in enumerate(lines, 1):
            tag = re.match(r"(?:static |const )*(?:struct|enum|union) (\w+) \{", line)
            if tag and defined.setdefault(tag.group(1), name) != name:
                yield (f"{name}:{number}: {defined[tag.group(1)]} defines '{tag.group(1)}' as well; "
                       "name what differs")


def repeated_data(top, names):
    """Static data outside functions that another file has defined before."""
    defined = {}
    for name in names:
        source = without_text(tree.text(top, name))
        for datum in re.finditer(r"^static\b[^;={(]*(?:\{[^}]*\})?[^;={(]*?\b(\w+)\s*(?:\[[^\]]*\]\s*)*[=;]",
                                 source, re.M):
            if defined.setdefault(datum.group(1), name) != name:
                line = source.count("\n", 0, datum.start(1)) + 1
                yield (f"{name}:{line}: {defined[datum.group(1)]} has static data '{datum.group(1)}' as well; "
                       "name what differs")


def main():
    top = tree.root()
    sources = [n for n in tree.sources(top, ".c", ".h", ".inc") if n.startswith(("libcore/", "cli/"))]
    defined, static, findings = {}, [], [*repeated_files(sources), *repeated_types(top, sources),
                                     *repeated_data(top, [n for n in sources if n.endswith(".c")])]
    for name in sources:
        # A header may define, for other systems, replacements of functions of a source.
        stubs = name.endswith(".h")
        for line, function, is_static in functions(tree.text(top, name)):
            if stubs and function.startswith("flmem_"):
                continue
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
    tree.finish(findings, len(sources))


main()
