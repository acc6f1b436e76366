# SPDX-License-Identifier: Apache-2.0
"""The version of CMakeLists.txt is the one in packages, recipes, man pages and guides, and the libraries that
CMakeLists.txt asks for are in each recipe.
"""
import re

import tree

NUMBER = r"(\d+\.\d+\.\d+)"
# Every mention must be the present version; tests/ has others on purpose, CHANGELOG.md all.
MENTION = re.compile(rf"\bflmem[-:_@ ]{NUMBER}")
NOT_IN = ("tests/", "CHANGELOG.md")
# Places where the version stands alone.
PLACES = (
    ("CHANGELOG.md", rf"\A(?:(?!^## ).)*?^## {NUMBER}"),
    ("libcore/bindings/python/pyproject.toml", rf'^version = "{NUMBER}"'),
    ("libcore/include/flmem/version.h", rf'"{NUMBER}"'),
    ("packaging/conda/recipe.yaml", rf'^  version: "{NUMBER}"'),
    ("packaging/rpm/flmem.spec", rf"^Version: +{NUMBER}"),
    ("packaging/spack/package.py", rf'^    version\("{NUMBER}"\)'),
)
# Names of libraries: pkg-config's, which the spec file uses, and those in the recipes of conda and
# Spack.
LIBRARIES = {
    "libcjson": ("cjson", "cjson"),
    "zlib": ("zlib", "zlib-api"),
    "yaml-0.1": ("yaml", "libyaml"),
    "libmicrohttpd": ("libmicrohttpd", "libmicrohttpd"),
    "gnutls": ("gnutls", "gnutls"),
    "libcurl": ("libcurl", "curl"),
    "ncursesw": ("ncurses", "ncurses"),
}
OPTIONAL = ("ompi-c",)


def other_versions(top, names, version):
    for name in names:
        if not name.startswith(NOT_IN):
            for found in sorted(set(MENTION.findall(tree.text(top, name))) - {version}):
                yield f"{name}: names version {found}; CMakeLists.txt has {version}"
    for name, pattern in PLACES:
        if name in names:
            found = re.search(pattern, tree.text(top, name), re.M | re.S)
            if not found or found.group(1) != version:
                yield (f"{name}: has version {found.group(1) if found else 'none'}; CMakeLists.txt has "
                       f"{version}")


def missing_libraries(top, names, asked):
    for library in asked:
        if library in OPTIONAL:
            continue
        if library not in LIBRARIES:
            yield f"CMakeLists.txt: {library} is not in the recipes (tests/checks/versions.py)"
            continue
        conda, spack = LIBRARIES[library]
        for name, line in (("packaging/rpm/flmem.spec", f"BuildRequires:  pkgconfig({library})"),
                           ("packaging/conda/recipe.yaml", f"    - {conda}\n"),
                           ("packaging/spack/package.py", f'    depends_on("{spack}"')):
            if name in names and line not in tree.text(top, name):
                yield f"{name}: lacks '{line.strip()}', which CMakeLists.txt asks for"


def main():
    top = tree.root()
    names, text = tree.files(top), tree.text(top, "CMakeLists.txt")
    version = re.search(rf"project\(flmem VERSION {NUMBER}", text).group(1)
    asked = re.findall(r"^pkg_check_modules\(\w+ (?:REQUIRED )?(?:IMPORTED_TARGET )?([\w.-]+)\)", text,
                       re.M)
    tree.finish([*other_versions(top, names, version), *missing_libraries(top, names, asked)],
                len(names))


main()
