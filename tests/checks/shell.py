# SPDX-License-Identifier: Apache-2.0
"""shellcheck over all shell scripts and bats files."""
import shutil
import subprocess

import tree

EXEMPT = ("tests/fixtures/", "tests/fuzz/corpus/")
# In bats files `run` sets variables and functions of helpers.bash are called from elsewhere.
BATS = ["--exclude=SC2154,SC2119,SC2120,SC2034"]


def findings(top, names, *flags):
    if not names:
        return []
    run = subprocess.run(["shellcheck", "--format=gcc", "--external-sources", *flags, *names],
                         cwd=top, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                         text=True)
    return [line for line in run.stdout.split("\n") if line]


def main():
    top = tree.root()
    if not shutil.which("shellcheck"):
        tree.skip("shellcheck is not installed")
    names = [n for n in tree.files(top) if not n.startswith(EXEMPT) and tree.is_script(top, n)]
    bats = [n for n in names if n.endswith((".bats", ".bash"))]
    plain = [n for n in names if n not in bats]
    tree.finish(findings(top, plain) + findings(top, bats, *BATS), len(names))


main()
