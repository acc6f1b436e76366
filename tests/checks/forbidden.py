# SPDX-License-Identifier: Apache-2.0
"""Functions that flmem's own code does not call, each with what to use instead."""
import re

import tree

UNBOUNDED = r"sprintf|vsprintf|strcpy|stpcpy|strcat|gets|alloca|strncpy|strncat|strtok"
LOOSE_NUMBERS = r"atoi|atol|atoll|atof|sscanf|fscanf|scanf|strto(?:l|ul|ll|ull|imax|umax|d|f|ld)"
TALKING = r"printf|vprintf|puts|putchar|perror|err|errx|warn|warnx|exit|abort|assert|psignal"

# (where, but not where, names, advice)
RULES = (
    (("cli/", "libcore/", "tests/"), (), UNBOUNDED, "use snprintf or struct flmem_buf"),
    (("cli/", "libcore/"), ("libcore/base/parse",), LOOSE_NUMBERS, "use flmem/parse.h"),
    (("cli/", "libcore/"), (), r"system|popen", "a shell parses its words; use posix_spawn"),
    (("cli/", "libcore/"), ("libcore/base/plugin.c",), r"dlopen|dlsym", "use flmem/plugin.h"),
    (("libcore/",), (), TALKING, "the library never prints, exits or aborts"),
    (("libcore/",), (), r"fprintf\s*\(\s*std(?:err|out)\b.*|fputs", "the library never prints"),
)

NOISE = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'', re.S)


def code(source):
    """The source with comments and literals blanked, line numbers kept."""
    return NOISE.sub(lambda m: re.sub(r"[^\n]", " ", m.group()), source)


def main():
    top = tree.root()
    names = [n for n in tree.sources(top, ".c", ".h") if n.startswith(("cli/", "libcore/", "tests/"))]
    findings = []
    for name in names:
        lines = code(tree.text(top, name)).split("\n")
        for where, but_not, words, advice in RULES:
            if not name.startswith(where) or (but_not and name.startswith(but_not)):
                continue
            call = re.compile(rf"(?<![\w.>])({words})\s*\(")
            for number, line in enumerate(lines, 1):
                match = call.search(line)
                if match:
                    findings.append(f"{name}:{number}: {match.group(1)}: {advice}")
    tree.finish(findings, len(names))


main()
