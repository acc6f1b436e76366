# SPDX-License-Identifier: Apache-2.0
"""The root has only the names listed here. Leftovers of a run, an editor or a merge are allowed
only in folders of test data. CMake compiles all C sources, so none may be deeper than it
searches."""
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


def main():
    names = tree.files(tree.root())
    findings = [f"{name}: the root has no such entry; move it, or add it to checks/places.py" for name in
                sorted({name.split("/", 1)[0] for name in names} - ROOT)]
    findings += [f"{name}: left by a run? Test data are in {', '.join(DATA)}" for name in names
                 if name.endswith(LEFT) and not name.startswith(DATA)]
    findings += [f"{name}: CMake finds no source there" for name in names
                 if name.startswith(("cli/", "libcore/")) and name.endswith(".c") and not COMPILED.fullmatch(name)]
    tree.finish(findings, len(names))


main()
