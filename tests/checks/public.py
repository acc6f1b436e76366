# SPDX-License-Identifier: Apache-2.0
"""
Public functions: each has a comment (a group without a blank line between them shares one), and one
that can fail, or that returns memory to free, is marked FLMEM_MUST_CHECK. The comment of one that
returns a code, or the first one of its header, names the errors.
"""
import re

import tree

# A function without the mark is hidden in the library, so that a program that calls it does not
# link.
UNMARKED = re.compile(r"^(?!FLMEM_API|static|typedef|return|else|#|[/ \t*}])[\w \t*]+?\b(\w+)\([^;{}]*\)[^;{}]*;", re.M)
FUNCTION = re.compile(r"^FLMEM_API\s+((?:FLMEM_MUST_CHECK\s+)?)([^;(]*?)(\w+)\(([^;]*)\)[^;]*;", re.M)

# These functions fill in an error and return its code: their callers have it already.
SETTERS = ("flmem_error_", "flmem_parse_invalid")


def must_check(kind, name, arguments):
    if name.startswith(SETTERS):
        return False
    if kind == "char *":
        return "char *out" not in arguments
    return kind != "void" and "struct flmem_error *err" in arguments


def names_errors(comment):
    """Reports whether a comment names errors; one with 'The same ...' has those of the function
    before it."""
    return re.search(r"FLMEM_E[A-Z]|errno|[Ee]rrors|\* The same", comment) is not None


def findings_of(name, text):
    head = re.search(r"/\*\n.*?\*/", text, re.S)
    for match in UNMARKED.finditer(re.sub(r"/\*.*?\*/", lambda m: re.sub(r"[^\n]", " ", m.group()), text, flags=re.S)):
        line = text.count("\n", 0, match.start()) + 1
        yield f"{name}:{line}: {match.group(1)}() is not exported: mark it FLMEM_API"
    for match in FUNCTION.finditer(text):
        marked, kind, function, arguments = match.groups()
        above = text[:match.start()].rstrip("\n")
        alone = text[:match.start()].endswith("\n\n")
        line = text.count("\n", 0, match.start()) + 1
        if alone or not above.endswith(("*/", ";")):
            yield f"{name}:{line}: {function}() has no comment"
        if must_check(kind.strip(), function, " ".join(arguments.split())) and not marked:
            yield f"{name}:{line}: {function}() can fail: mark it FLMEM_MUST_CHECK"
        comment = above[max(above.rfind("/*"), 0):]
        if kind.strip() == "int" and marked and not names_errors(comment) and not (
                head and names_errors(head.group())):
            yield f"{name}:{line}: the comment of {function}() names no error"


def main():
    top = tree.root()
    names = [n for n in tree.sources(top, ".h") if n.startswith("libcore/include/")]
    findings = [f for name in names for f in findings_of(name, tree.text(top, name))]
    tree.finish(findings, len(names))


main()
