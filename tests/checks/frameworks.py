# SPDX-License-Identifier: Apache-2.0
"""Only libcore/frameworks/ knows frameworks by name (docs/adding-a-framework.md).

Identifiers and strings of operations, rules, settings and reports name none, nor do the sources
that frameworks share (frameworks/ itself, frameworks/launch/); comments may.
"""
import os
import re

import tree

WHERE = re.compile(r"libcore/(ops|report|rules|settings)/|libcore/frameworks/([^/]*$|launch/)")

# Folders of libcore/frameworks/ that are no framework.
SHARED = ("launch",)

# Besides the names of the folders: Flower's package, and the files and keys of one framework.
WORDS = ("flwr", "nvfl", "config_fed_", "deploy_map")

GUIDE = r"FLMEM_SOURCE_NVFLARE_GUIDE"

# (file, the tokens that may stay, why)
ALLOWED = (
    ("libcore/frameworks/registry.c", r"flmem_framework_\w+", "the list of all frameworks"),
    ("libcore/settings/print.c", r"FLMEM_SETTINGS_FORMAT_NVFLARE_(DOCKER|SLURM)|nvflare-(docker|slurm)",
     "formats that NVFlare's launchers read, by the names of the public enumeration"),
    ("libcore/settings/table.c", r'NVFlare guide .*|NVFlare start script .*',
     "the sources of rows about processes of any framework"),
    ("libcore/rules/rules.h", GUIDE + r"|FLMEM_SOURCE_NVFLARE_CODE",
     "the sources that rules cite, under one name each"),
    ("libcore/rules/rules.h", r"NVFlare (guide|code\b).*", "their texts"),
    ("libcore/rules/rules.h", r"no checked .*NVFlare.*",
     "struct flmem_recommendations holds facts that only NVFlare's jobs set"),
    ("libcore/rules/trend_rules.c", GUIDE, "the source of a rule about any process"),
    ("libcore/rules/live_rules.c", GUIDE, "the source of rules about any process"),
    ("libcore/rules/live_rules.c", r"NVFLARE_ENABLE_JEMALLOC_PRELOAD|jemalloc requested by .*"
     r"|.*malloc: NVFlare's start |NVFlare's master template, .*",
     "the variable of start scripts, which flmem start --emit writes for every framework"),
    ("libcore/rules/live_rules.c", r"FLMEM_FRAMEWORK_NVFLARE|a client of NVFlare .*",
     "LIVE-ARENA-CLIENT-4 stands between rules about any process: their order is that of reports"),
)

TOKEN = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|[A-Za-z_]\w*', re.S)


def names(top):
    folder = os.path.join(top, "libcore/frameworks")
    known = os.listdir(folder) if os.path.isdir(folder) else ()
    found = [n for n in known if n not in SHARED and os.path.isdir(os.path.join(folder, n))]
    return re.compile("|".join(sorted({"nvflare", "appfl", "flower", *found, *WORDS})), re.I)


def tokens(source):
    """(line, text) of identifiers and strings."""
    for match in TOKEN.finditer(source):
        text = match.group()
        if not text.startswith("/"):
            yield source.count("\n", 0, match.start()) + 1, text.strip('"')


def main():
    top = tree.root()
    sources = [n for n in tree.sources(top, ".c", ".h") if WHERE.match(n)]
    pattern, used, findings = names(top), set(), []
    for name in sources:
        for line, text in tokens(tree.text(top, name)):
            if not pattern.search(text):
                continue
            rows = [r for r in ALLOWED if r[0] == name and re.fullmatch(r[1], text)]
            used.update(rows)
            if not rows:
                findings.append(f"{name}:{line}: '{text}' names a framework: make it a slot of "
                                "struct flmem_framework_ops")
    findings += [f"tests/checks/frameworks.py: {file}: '{allowed}' is allowed and does not occur"
                 for file, allowed, why in ALLOWED
                 if file in sources and (file, allowed, why) not in used]
    # A tree without such sources, as test_checks.py plants, has nothing to check.
    tree.finish(findings, max(len(sources), 1))


main()
