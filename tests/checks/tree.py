# SPDX-License-Identifier: Apache-2.0
"""The files that the checks read, and the way they report: one line per finding, exit status 1.

A check takes the root of the tree as its first argument, so that test_checks.py can point it at a
tree with a planted fault.
"""
import os
import re
import subprocess
import sys

SKIPPED = 77  # SKIP_RETURN_CODE of every test in tests/CMakeLists.txt
SCRIPT_HEAD = re.compile(rb"#! ?(?:/usr)?/bin/(?:env )?(?:ba|da)?sh(?: |$)|#! ?/usr/bin/env bats$")


def root():
    return sys.argv[1] if len(sys.argv) > 1 else os.getcwd()


def files(top):
    """Returns the paths below top that belong to the project: those that git tracks or would track,
    without git all except builds."""
    listed = subprocess.run(
        ["git", "-C", top, "ls-files", "-co", "--exclude-standard", "-z"],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False) if os.path.exists(
            os.path.join(top, ".git")) else None
    if listed and listed.returncode == 0:
        names = [os.fsdecode(name) for name in listed.stdout.split(b"\0") if name]
        return sorted(n for n in set(names) if os.path.isfile(os.path.join(top, n)))
    found = []
    for directory, below, names in os.walk(top):
        below[:] = [d for d in below if d != ".git" and not d.startswith("build")]
        found += [os.path.relpath(os.path.join(directory, n), top) for n in names]
    return sorted(found)


def sources(top, *suffixes, skip=()):
    return [f for f in files(top) if f.endswith(suffixes) and not f.startswith(tuple(skip))]


def text(top, name):
    with open(os.path.join(top, name), encoding="utf-8", errors="replace") as file:
        return file.read()


def is_script(top, name):
    """True for what shellcheck reads: by suffix, or by its first line."""
    if name.endswith((".sh", ".bash", ".bats")):
        return not name.startswith("completions/")
    if "." in os.path.basename(name):
        return False
    with open(os.path.join(top, name), "rb") as file:
        return SCRIPT_HEAD.match(file.readline().rstrip()) is not None


def finish(findings, looked_at):
    """Prints the findings and ends; a check that read no file is broken and fails."""
    for finding in findings:
        print(finding)
    if not looked_at:
        print("no files to check: wrong directory?")
    else:
        print(f"{looked_at} files, {len(findings)} findings")
    sys.exit(1 if findings or not looked_at else 0)


def skip(reason):
    print(f"SKIP: {reason}")
    sys.exit(SKIPPED)
