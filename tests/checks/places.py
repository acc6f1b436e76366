# SPDX-License-Identifier: Apache-2.0
"""The root has only the names listed here. Leftovers of a run, an editor or a merge are allowed
only in folders of test data. CMake compiles all C sources, so none may be deeper than it
searches. docs/architecture.md names every folder of the sources."""
import os
import re

import tree

ROOT = {".ci", ".clang-format", ".clang-tidy", ".gitattributes", ".github", ".gitignore", ".pre-commit-hooks.yaml",
        "CHANGELOG.md", "CMakeLists.txt", "CMakePresets.json", "CONTRIBUTING.md", "LICENSE", "Makefile", "README.md",
        "action.yml", "cli", "cmake", "completions", "demo", "docs", "libcore", "packaging", "scripts", "tests"}
LEFT = (".safetensors", ".pt", ".pth", ".bin", ".ckpt", ".npz", ".npy", ".gguf", ".prof", ".heap", ".part", ".state",
        ".journal", ".core", ".log", ".o", ".so", ".pyc",
        ".orig", ".rej", ".swp", "~")
# The patterns of libcore/CMakeLists.txt and cli/CMakeLists.txt.
COMPILED = re.compile(r"libcore/(?:[^/]+/){1,3}[^/]+\.c|cli/(?:[^/]+/)?[^/]+\.c")
DATA = ("tests/fixtures/", "tests/fuzz/corpus/", "tests/recordings/")
ARCHITECTURE = "docs/architecture.md"


def unnamed_folders(top, names):
    """Returns the folders of sources that no row of the table in docs/architecture.md names: by its path in the first
    column, or by its own name in the second one of a folder above it; and the rows of folders that do not exist."""
    rows = re.findall(r"^\| (`[^|]*/`) \|(.*)", tree.text(top, ARCHITECTURE), re.M)
    rows = {path: contents for paths, contents in rows for path in re.findall(r"`([^`]+/)`", paths)}
    named = set(rows) | {f"{path}{name}" for path, contents in rows.items() for name in re.findall(r"`([\w/]+/)`", contents)}
    for folder in sorted({os.path.dirname(name) + "/" for name in names if name.startswith(("cli/", "libcore/"))}):
        above, below = [path for path in rows if folder.startswith(path)], os.path.basename(folder[:-1]) + "/"
        if not any(path.startswith(folder) for path in rows) and not any(path + below in named for path in above):
            yield f"{ARCHITECTURE}: has no row that names {folder}"
    for path in sorted(rows):
        if not any(name.startswith(path) for name in names):
            yield f"{ARCHITECTURE}: names {path}, which does not exist"


def main():
    top = tree.root()
    names = tree.files(top)
    findings = [f"{name}: the root has no such entry; move it, or add it to checks/places.py" for name in
                sorted({name.split("/", 1)[0] for name in names} - ROOT)]
    findings += [f"{name}: left by a run? Test data are in {', '.join(DATA)}" for name in names
                 if name.endswith(LEFT) and not name.startswith(DATA)]
    findings += [f"{name}: CMake finds no source there" for name in names
                 if name.startswith(("cli/", "libcore/")) and name.endswith(".c") and not COMPILED.fullmatch(name)]
    findings += unnamed_folders(top, names)
    tree.finish(findings, len(names))


main()
