# SPDX-License-Identifier: Apache-2.0
"""Committed completions, man pages and the option reference are what the tables give.

usage: generated.py ROOT FLMEM-GEN
"""
import os
import subprocess
import sys
import tempfile

import tree


def main():
    top, generator = tree.root(), sys.argv[2]
    committed = [n for n in tree.files(top) if n.startswith(("completions/", "docs/man/")) or
                 n in ("docs/metrics.md", "docs/options.md", "docs/rules.md")]
    with tempfile.TemporaryDirectory() as fresh:
        for directory in ("completions", "docs/man"):
            os.makedirs(os.path.join(fresh, directory))
        subprocess.run([generator, fresh], check=True)
        made = tree.files(fresh)
        findings = [f"{n}: is no longer generated; remove it" for n in committed if n not in made]
        findings += [f"{n}: differs from the tables; run 'make generate'" for n in made
                     if n not in committed or tree.text(fresh, n) != tree.text(top, n)]
    tree.finish(findings, len(made))


main()
