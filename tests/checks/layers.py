# SPDX-License-Identifier: Apache-2.0
"""Includes run one way (docs/architecture.md), and a source file includes its own header first."""
import os
import re

import tree
from directories import CLI, DIRECTORIES, PRINTERS, directory_of

# Public headers of operations, by the directory that implements them: only operations above it, and
# directories that print their results, may use them.
OPERATIONS = {
    "ops/target": ("select",),
    "ops/detect": ("detect", "own_process"),
    "ops/trim": ("condition", "repeat", "trim"),
    "ops/watch": ("watch",),
    "ops/recommend": ("plan", "recommend"),
    "ops/start": ("emit", "launch", "supervise"),
    "ops/host": ("host",),
    "ops/profile": ("attach", "profile"),
    "ops/aggregate": ("aggregate", "compare", "convert", "inspect"),
    "ops/exchange": ("exchange_client", "exchange_serve"),
}
# Names and types of these headers may be used by lower directories, too, which include no other
# header of operations.
SHARED_HEADERS = ("troubleshoot", "verdict")
OWNERS = {header: owner for owner, headers in OPERATIONS.items() for header in headers}
ABOVE = PRINTERS + ("include",)

# Libraries that only one directory may use: headers, directory, name.
ONLY = (
    (r"cjson/.*|cJSON.*", "libcore/report/", "cJSON"),
    (r"microhttpd\.h", "libcore/serve/", "libmicrohttpd"),
    (r"curl/.*", "libcore/net/", "libcurl"),
    (r"mpi\.h", "libcore/mpi/", "Open MPI"),
    (r"n?cursesw?(/.*|\.h)", "cli/live/", "ncurses"),
)

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]+([<"])([^>"]+)[>"]', re.M)


def system_finding(top, name, target):
    """Checks an include in angle brackets, which may be in any directory."""
    for headers, folder, what in ONLY:
        if re.fullmatch(headers, target) and not name.startswith(folder):
            return f"only {folder} includes {what}"
    if any(os.path.exists(os.path.join(top, folder, target)) for folder in ("cli", "libcore")):
        return "a header of the tree is included in quotes"
    return None


def operation_finding(directory, target):
    public = re.fullmatch(r"flmem/(\w+)\.h", target)
    owner = OWNERS.get(public[1]) if public else None
    if owner and directory not in ABOVE and owner not in (directory, *DIRECTORIES[directory]):
        return f"{directory}/ is below the operation that <{target}> declares"
    return None


def library_finding(directory, mark, target):
    if mark == "<":
        return operation_finding(directory, target)
    if "/" not in target:
        return "local includes name their directory"
    other = directory_of(target)
    if other not in DIRECTORIES:
        return f"layers.py does not know the directory '{other}'"
    if other != directory and other not in DIRECTORIES[directory]:
        return f"{directory}/ may not depend on {other}/"
    return None


def public_finding(mark, target):
    return "public headers include <flmem/...> and system headers only" if mark == '"' else None


def cli_finding(top, name, mark, target):
    if mark == "<":
        return None
    if not os.path.exists(os.path.join(top, "cli", target)):
        return "cli/ sees <flmem/...> and its own headers only, by their paths in cli/"
    own, other = os.path.dirname(name[len("cli/"):]), os.path.dirname(target)
    if own not in CLI:
        return f"layers.py does not know the directory 'cli/{own}'"
    if other != own and other not in CLI[own]:
        return f"cli/{own} may not depend on cli/{other}"
    return None


def finding(top, name, mark, target):
    parts = name.split("/")
    if ".." in target.split("/"):
        return "names another directory by '..'"
    if mark == "<" and system_finding(top, name, target):
        return system_finding(top, name, target)
    if parts[0] == "cli":
        return cli_finding(top, name, mark, target)
    if parts[1] == "include":
        return public_finding(mark, target)
    directory = directory_of("/".join(parts[1:]))
    if directory not in DIRECTORIES:
        return f"layers.py does not know the directory '{directory}'"
    return library_finding(directory, mark, target)


def own_header_finding(top, name, includes):
    header = re.sub(r"\.c$", ".h", name)
    if header == name or not os.path.exists(os.path.join(top, header)):
        return None
    own = header.split("/", 1)[1]
    if includes and includes[0] == ('"', own):
        return None
    return f'includes "{own}" first'


def unlisted_headers(names):
    """Returns public headers named like a source of an operation that OPERATIONS lacks."""
    for name in names:
        stem = os.path.basename(name)[:-len(".c")]
        header = f"libcore/include/flmem/{stem}.h"
        if name.startswith("libcore/ops/") and name.endswith(".c") and header in names and (
                stem not in OWNERS and stem not in SHARED_HEADERS):
            yield f"{header}: is of an operation: add it to OPERATIONS of checks/layers.py"


def main():
    top = tree.root()
    names = [n for n in tree.sources(top, ".c", ".h", ".inc") if n.startswith(("cli/", "libcore/"))]
    findings = list(unlisted_headers(names))
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
