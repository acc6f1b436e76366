# SPDX-License-Identifier: Apache-2.0
"""Every file that can hold a comment names its licence in its first three lines."""
import os

import tree

LINE = "SPDX-License-Identifier: Apache-2.0"
SUFFIXES = (".c", ".h", ".inc", ".js", ".pml", ".cu", ".py", ".pyi", ".toml", ".yml", ".yaml", ".spec", ".sh", ".bash", ".bats", ".fish", ".cmake", ".in", ".1", ".mk",
            "CMakeLists.txt", "Makefile", "completions/_flmem")
EXEMPT = ("tests/fixtures/", "tests/fuzz/corpus/")


def main():
    top = tree.root()
    names = [n for n in tree.files(top) if not n.startswith(EXEMPT) and
             (n.endswith(SUFFIXES) or tree.is_script(top, n))]
    findings = [f"{n}: no '{LINE}' in its first three lines" for n in names
                if os.path.getsize(os.path.join(top, n)) and
                LINE not in "\n".join(tree.text(top, n).split("\n")[:3])]
    tree.finish(findings, len(names))


main()
