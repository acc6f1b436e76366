# SPDX-License-Identifier: Apache-2.0
"""The root has what is listed here, and models and profiles that a run has left are in no folder but those of test data."""
import tree

ROOT = {".ci", ".clang-format", ".clang-tidy", ".gitattributes", ".github", ".gitignore", ".pre-commit-hooks.yaml",
        "CHANGELOG.md", "CMakeLists.txt", "CMakePresets.json", "CONTRIBUTING.md", "LICENSE", "Makefile", "README.md",
        "action.yml", "cli", "cmake", "completions", "demo", "docs", "libcore", "packaging", "scripts", "tests"}
LEFT = (".safetensors", ".pt", ".pth", ".bin", ".ckpt", ".npz", ".npy", ".gguf", ".prof", ".heap", ".part", ".state",
        ".journal", ".core", ".log", ".o", ".so", ".pyc")
DATA = ("tests/fixtures/", "tests/fuzz/corpus/", "tests/recordings/")


def main():
    names = tree.files(tree.root())
    findings = [f"{name}: the root has no such entry; move it, or add it to checks/places.py" for name in
                sorted({name.split("/", 1)[0] for name in names} - ROOT)]
    findings += [f"{name}: left by a run? Test data are in {', '.join(DATA)}" for name in names
                 if name.endswith(LEFT) and not name.startswith(DATA)]
    tree.finish(findings, len(names))


main()
