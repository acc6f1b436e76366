# SPDX-License-Identifier: Apache-2.0
"""Only libcore/frameworks/ knows frameworks by name (docs/adding-a-framework.md).

Identifiers and strings in the other folders of libcore/ name none, nor do the sources that
frameworks share (frameworks/ itself, frameworks/launch/); comments may. A framework uses no
identifier and no header of another one.
"""
import os
import re

import tree

WHERE = re.compile(r"libcore/(?!frameworks/(?!launch/)[^/]+/)")

# Folders of libcore/frameworks/ that are not frameworks.
SHARED = ("launch",)

# Further names of frameworks: Flower's package, and the files and keys of one framework.
WORDS = ("flwr", "nvfl", "config_fed_", "deploy_map")

GUIDE = r"FLMEM_SOURCE_NVFLARE_GUIDE"

# (file, the tokens that may stay, why)
ALLOWED = (
    ("libcore/include/flmem/roles.h", r"NVFLARE|APPFL|FLOWER|nvflare|appfl|flower",
     "the list of all frameworks"),
    ("libcore/include/flmem/settings.h", r"NVFLARE_\w+|nvflare-\w+|.*NVFlare's \w+ launcher",
     "the public enumeration of formats"),
    ("libcore/base/text/secret_options.c", r"NVFLARE_APP|nvflare\.private\.fed\.app\.",
     "base/ hides secrets for all folders; it cannot depend on the tables of frameworks"),
    ("libcore/settings/table.c", GUIDE + r"|NVFlare start script .*",
     "the sources of rows about processes of any framework"),
    ("libcore/rules/rules.h", GUIDE + r"|NVFlare guide .*",
     "the source that rules about processes of any framework cite"),
    ("libcore/rules/trend_rules.c", GUIDE, "the source of a rule about any process"),
    ("libcore/rules/live_rules.c", GUIDE, "the source of rules about any process"),
)

TOKEN = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|[A-Za-z_]\w*', re.S)


# Matches the folder of a framework, whose sources belong to it.
OWN = re.compile(r"libcore/frameworks/(?!launch/)([^/]+)/")
OWNED = re.compile(r"(?:flmem_|frameworks/)([a-z]+)[_/]")


def folders(top):
    folder = os.path.join(top, "libcore/frameworks")
    known = os.listdir(folder) if os.path.isdir(folder) else ()
    found = [n for n in known if n not in SHARED and os.path.isdir(os.path.join(folder, n))]
    return {"nvflare", "appfl", "flower", *found}


def names(known):
    return re.compile("|".join(sorted({*known, *WORDS})), re.I)


def find_foreign(top, known):
    """Returns (sources read, findings): uses of one framework by another."""
    sources = [n for n in tree.sources(top, ".c", ".h", ".inc") if OWN.match(n)]
    findings = []
    for name in sources:
        for line, text in tokens(tree.text(top, name)):
            owner = OWNED.match(text)
            if owner and owner.group(1) in known - {OWN.match(name).group(1)}:
                findings.append(f"{name}:{line}: '{text}' belongs to another framework: what two "
                                "of them need is in frameworks/ or rules/")
    return sources, findings


def tokens(source):
    """Yields (line, text) of identifiers and strings."""
    for match in TOKEN.finditer(source):
        text = match.group()
        if not text.startswith("/"):
            yield source.count("\n", 0, match.start()) + 1, text.strip('"')


def main():
    top = tree.root()
    sources = [n for n in tree.sources(top, ".c", ".h", ".inc", ".js") if WHERE.match(n)]
    known = folders(top)
    pattern, used = names(known), set()
    own, findings = find_foreign(top, known)
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
    # A tree without such sources, as test_checks.py makes them, has nothing to check.
    tree.finish(findings, max(len(sources) + len(own), 1))


main()
