# SPDX-License-Identifier: Apache-2.0
"""All C files are formatted as by clang-format; a file that passed before is not checked again."""
import shutil
import subprocess

import marks
import tree

EXEMPT = ("tests/fixtures/",)


def find(top, names):
    if not names:
        return []
    run = subprocess.run(["clang-format", "--dry-run", "-Werror", *names], cwd=top, check=False,
                         stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    findings = [line for line in run.stdout.split("\n") if "error:" in line]
    return [run.stdout.strip()] if run.returncode and not findings else findings


def main():
    top = tree.root()
    if not shutil.which("clang-format"):
        tree.skip("clang-format is not installed")
    names = tree.sources(top, ".c", ".h", ".inc", ".cu", skip=EXEMPT)
    count = len(names)
    settings = [n for n in tree.files(top) if n.endswith(".clang-format")]
    passed = marks.Marks("format", top, [marks.version_of("clang-format", "--version"),
                                         *(marks.content(top, n) for n in settings)])
    names = passed.missing(names)
    findings = find(top, names)
    if not findings:
        passed.put(names)
    tree.finish(findings + (["'make format' puts it right"] if findings else []), count)


main()
