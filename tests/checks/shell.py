# SPDX-License-Identifier: Apache-2.0
"""shellcheck over all shell scripts and bats files; one that passed before is not read again."""
import shutil
import subprocess

import marks
import tree

EXEMPT = ("tests/fixtures/", "tests/fuzz/corpus/")
# Codes that do not apply to bats files: `run` sets variables, and other files call the functions of
# helpers.bash.
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
    count = len(names)
    # Files that bats files source, as findings depend on them.
    common = [n for n in names if not n.endswith(".bats")] + [n for n in tree.files(top) if n.endswith(".shellcheckrc")]
    passed = marks.Marks("shell", top, [marks.version_of("shellcheck", "--version"), " ".join(BATS).encode(),
                                        *(marks.content(top, n) for n in common)])
    names = passed.missing(names)
    bats = [n for n in names if n.endswith((".bats", ".bash"))]
    plain = [n for n in names if n not in bats]
    found = findings(top, plain) + findings(top, bats, *BATS)
    if not found:
        passed.put(names)
    tree.finish(found, count)


main()
