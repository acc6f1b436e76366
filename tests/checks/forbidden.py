# SPDX-License-Identifier: Apache-2.0
"""Functions that flmem's own code does not call, each with what to use instead."""
import re

import tree

UNBOUNDED = r"sprintf|vsprintf|strcpy|stpcpy|strcat|gets|alloca|strncpy|strncat|strtok"
LOOSE_NUMBERS = r"atoi|atol|atoll|atof|sscanf|fscanf|scanf|strto(?:l|ul|ll|ull|imax|umax|d|f|ld)"
TALKING = (r"v?printf|v?dprintf|vfprintf|puts|putchar|putc|fputc|fwrite|perror|v?errx?|v?warnx?|error_at_line|psignal|"
           r"psiginfo|exit|_Exit|quick_exit|abort|assert")

# (folder, exceptions, names of functions, advice)
RULES = (
    (("cli/", "libcore/", "tests/"), (), UNBOUNDED, "use snprintf or struct flmem_buf"),
    (("cli/", "libcore/"), (), LOOSE_NUMBERS, "use flmem/parse.h"),
    (("cli/", "libcore/"), (), r"system|popen|wordexp", "a shell parses its words; use posix_spawn"),
    (("cli/", "libcore/"), ("libcore/base/plugin.c", "libcore/preload/"), r"dlm?open|dlv?sym", "use flmem/plugin.h"),
    (("libcore/preload/sampler/",), ("libcore/preload/sampler/fork_handlers.c",), "dl_iterate_phdr",
     "a fork would leave the linker's list locked in the child; use sampler_walk()"),
    (("libcore/",), (), TALKING, "the library never prints, exits or aborts"),
    (("libcore/",), (), r"fprintf(?=\s*\(\s*std(?:err|out)\b)|fputs", "the library never prints"),
)

# A failed allocation must be reported by the one error that names what could not be done and
# carries ENOMEM.
NO_MEMORY = re.compile(r'\bflmem_error_set\s*\([^;]*?(?:"(?:flmem is )?out of memory"|,\s*ENOMEM\s*,)')

NOISE = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'', re.S)


def code(source):
    """Returns the source with comments and literals blanked, line numbers kept."""
    return NOISE.sub(lambda m: re.sub(r"[^\n]", " ", m.group()), source)


def calls(name, source):
    text = code(source)
    for where, but_not, words, advice in RULES:
        if not name.startswith(where) or (but_not and name.startswith(but_not)):
            continue
        call = re.compile(rf"(?<![\w.>])({words})\s*\(")
        for match in call.finditer(text):
            word = " ".join(match.group(1).split())
            line = text.count("\n", 0, match.start()) + 1
            yield f"{name}:{line}: {word}: {advice}"


def no_memory(name, source):
    if not name.startswith(("cli/", "libcore/")):
        return
    for match in NO_MEMORY.finditer(source):
        line = source.count("\n", 0, match.start()) + 1
        yield f"{name}:{line}: a failed allocation: use flmem_error_nomem()"


def main():
    top = tree.root()
    names = [n for n in tree.sources(top, ".c", ".h", ".inc") if n.startswith(("cli/", "libcore/", "tests/"))]
    findings = []
    for name in names:
        source = tree.text(top, name)
        findings += [*calls(name, source), *no_memory(name, source)]
    tree.finish(findings, len(names))


main()
