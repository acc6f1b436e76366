# SPDX-License-Identifier: Apache-2.0
"""Every header compiles alone and twice, the public ones as C++ too. They are read when one of them has changed.

usage: headers.py ROOT COMPILER
"""
import os
import shutil
import subprocess
import sys

import marks
import tree

FLAGS = ["-fsyntax-only", "-Wall", "-Wextra", "-Werror", "-D_GNU_SOURCE", "-Ilibcore/include"]


def compiles(top, compiler, language, flags, header):
    source = f'#include "{header}"\n#include "{header}"\n'
    run = subprocess.run([compiler, "-x", language, *FLAGS, *flags, "-"], cwd=top, input=source,
                         stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    return None if run.returncode == 0 else f"{header} ({language}):\n{run.stdout}"


def main():
    top, compiler = tree.root(), sys.argv[2]
    names = [n for n in tree.sources(top, ".h") if n.startswith(("cli/", "libcore/"))]
    passed = marks.Marks("headers", top, [
        *(marks.version_of(*command, "--version") for command in ([compiler], ["clang"]) if shutil.which(command[0])),
        " ".join(FLAGS).encode(), *(marks.content(top, n) for n in names), marks.content(top, __file__)])
    findings, read = [], passed.missing(names)
    for name in read:
        public = name.startswith("libcore/include/")
        flags = ["-std=gnu11"] + ([] if public else ["-Ilibcore", "-Icli"])
        findings.append(compiles(top, compiler, "c", flags, os.path.join(".", name)))
        if public and shutil.which("clang"):
            findings.append(compiles(top, "clang", "c++", ["-std=c++17"], os.path.join(".", name)))
    if not shutil.which("clang"):
        print("SKIP: no clang to try the public headers as C++")
    findings = [f for f in findings if f]
    if not findings:
        passed.put(read)
    tree.finish(findings, len(names))


main()
