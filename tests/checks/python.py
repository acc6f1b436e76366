# SPDX-License-Identifier: Apache-2.0
"""All Python files compile without a warning, and pyflakes finds nothing in them.

A script that one test or nobody runs would else be broken unnoticed.
"""
import os
import re
import shutil
import subprocess
import warnings

import tree

EXEMPT = ("tests/fixtures/", "tests/fuzz/corpus/")
# These files get their names from Spack, by the import with which its recipes start.
NOT_BY_PYFLAKES = ("packaging/spack/",)
SUFFIXES = (".py", ".pyi")


def is_python(top, name):
    """Recognises Python by the file's suffix, or by its first line."""
    if "." in os.path.basename(name):
        return name.endswith(SUFFIXES)
    with open(os.path.join(top, name), "rb") as file:
        head = file.readline()
    return head.startswith(b"#!") and b"python" in head


def syntax_findings(top, name):
    with open(os.path.join(top, name), "rb") as file:
        source = file.read()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            compile(source, name, "exec", dont_inherit=True)
    except (SyntaxError, ValueError, Warning) as error:
        return [f"{name}:{getattr(error, 'lineno', None) or 1}: {error}"]
    return []


def is_excused(top, finding):
    """True where the line itself states that the finding is intended."""
    place = re.match(r"(.+?):(\d+):", finding)
    return place and "# noqa" in tree.text(top, place[1]).split("\n")[int(place[2]) - 1]


def flakes(top, names):
    if not names:
        return []
    run = subprocess.run(["pyflakes3", *names], cwd=top, check=False, stdout=subprocess.PIPE,
                         stderr=subprocess.STDOUT, text=True)
    lines = [line for line in run.stdout.split("\n") if line]
    if run.returncode and not lines:
        return ["pyflakes3 failed"]
    return [line for line in lines if not is_excused(top, line)]


def main():
    top = tree.root()
    names = [n for n in tree.files(top) if not n.startswith(EXEMPT) and is_python(top, n)]
    findings = [finding for name in names for finding in syntax_findings(top, name)]
    if not findings:
        if not shutil.which("pyflakes3"):
            tree.skip("pyflakes3 is not installed; the syntax is right")
        findings = flakes(top, [n for n in names if not n.startswith(NOT_BY_PYFLAKES)])
    tree.finish(findings, len(names))


main()
