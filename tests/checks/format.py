# SPDX-License-Identifier: Apache-2.0
"""All C files are as clang-format writes them."""
import shutil
import subprocess

import tree

EXEMPT = ("tests/fixtures/",)


def main():
    top = tree.root()
    if not shutil.which("clang-format"):
        tree.skip("clang-format is not installed")
    names = tree.sources(top, ".c", ".h", skip=EXEMPT)
    run = subprocess.run(["clang-format", "--dry-run", "-Werror", *names], cwd=top, check=False,
                         stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    findings = [line for line in run.stdout.split("\n") if "error:" in line]
    if run.returncode and not findings:
        findings = [run.stdout.strip()]
    tree.finish(findings + (["'make format' puts it right"] if findings else []), len(names))


main()
