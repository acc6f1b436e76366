# SPDX-License-Identifier: Apache-2.0
"""Includes run one way (docs/architecture.md), and a source file includes its own header first."""
import os
import re

import tree

BELOW_ALLOCATORS = ("base", "preload", "proc", "elf", "remote")
BELOW_FRAMEWORKS = BELOW_ALLOCATORS + ("allocators", "documents", "runtimes")
MIDDLE = ("frameworks", "settings", "series", "model", "profiler", "transport")

# What each room may include besides itself. A new room is one row.
ROOMS = {
    "base": (),
    "preload": (),
    "documents": ("base",),
    "proc": ("base",),
    "elf": ("base", "proc"),
    "remote": ("base", "preload", "proc", "elf"),
    "allocators": BELOW_ALLOCATORS,
    "runtimes": BELOW_ALLOCATORS,
    "frameworks": BELOW_FRAMEWORKS,
    "settings": BELOW_FRAMEWORKS,
    "series": BELOW_FRAMEWORKS,
    "model": BELOW_FRAMEWORKS,
    "profiler": BELOW_FRAMEWORKS,
    "transport": BELOW_FRAMEWORKS + ("model",),
    "ops": BELOW_FRAMEWORKS + MIDDLE,
    "report": ("base",),
    "serve": ("base",),
}

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]+([<"])([^>"]+)[>"]', re.M)


def library_finding(room, mark, target):
    if "cJSON" in target and room != "report":
        return "only report/ includes cJSON"
    if target == "microhttpd.h" and room != "serve":
        return "only serve/ includes libmicrohttpd"
    if mark == "<":
        return None
    if "/" not in target:
        return "local includes name their room"
    other = target.split("/")[0]
    if other not in ROOMS:
        return f"'{other}' is no room that layers.py knows"
    if other != room and other not in ROOMS[room]:
        return f"{room}/ may not depend on {other}/"
    return None


def public_finding(mark, target):
    if mark == '"':
        return "public headers include <flmem/...> and system headers only"
    return "public headers do not show cJSON" if "cJSON" in target else None


def cli_finding(top, name, mark, target):
    if mark == "<":
        return "only report/ includes cJSON" if "cJSON" in target else None
    if "/" in target or not os.path.exists(os.path.join(top, os.path.dirname(name), target)):
        return "cli/ sees <flmem/...> and its own headers only"
    return None


def finding(top, name, mark, target):
    parts = name.split("/")
    if parts[0] == "cli":
        return cli_finding(top, name, mark, target)
    if parts[1] == "include":
        return public_finding(mark, target)
    if parts[1] not in ROOMS:
        return f"'{parts[1]}' is no room that layers.py knows"
    return library_finding(parts[1], mark, target)


def own_header_finding(top, name, includes):
    header = re.sub(r"\.c$", ".h", name)
    if header == name or not os.path.exists(os.path.join(top, header)):
        return None
    own = header.split("/", 1)[1] if name.startswith("libcore/") else os.path.basename(header)
    if includes and includes[0] == ('"', own):
        return None
    return f'includes "{own}" first'


def main():
    top = tree.root()
    names = [n for n in tree.sources(top, ".c", ".h") if n.startswith(("cli/", "libcore/"))]
    findings = []
    for name in names:
        includes = INCLUDE.findall(tree.text(top, name))
        for mark, target in includes:
            why = finding(top, name, mark, target)
            if why:
                findings.append(f"{name}: includes {target}: {why}")
        why = own_header_finding(top, name, includes)
        if why:
            findings.append(f"{name}: {why}")
    tree.finish(findings, len(names))


main()
