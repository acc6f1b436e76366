# SPDX-License-Identifier: Apache-2.0
"""Words that users do not search for, each with the standard one.

Checked are the strings and comments of sources in C, Python and the like, and all other text: documentation with its
schemas, alert rules and dashboards, recipes, scripts, build files, tests in bats with their titles.
"""
import bisect
import itertools
import os
import re

import tree

# (regular expression, replacement); a blank matches any white space
WORDS = (
    (r"\bforetold\b|\bforetell", "predicted, predict"),
    (r"\breckon", "compute, estimate or count"),
    (r"\bis none of \(", "invalid value 'x'; choose from ..."),
    (r"\bis no sound\b|\bno sound [a-z]+\b", "is not a valid ..."),
    (r"\blook(s|ed|ing)? whether\b", "check whether"),
    (r"\bhas begun to climb\b", "has begun to rise"),
    (r"\bmalloc is that of\b", "malloc is served by"),
    (r"\bmeant is\b", "did you mean"),
    (r"\bsure to [0-9%]", "confidence 99.9 %"),
    (r"\bstands? (higher|lower)\b|\blike phases\b", "memory after each round keeps rising"),
    (r"\bis no (rate|size|number|duration|recording|regular file)\b", "invalid rate, is not a ..."),
    (r"\bwant of memory\b", "memory pressure, out of memory"),
    (r"\bstood still\b", "was borrowed for"),
    (r"\bin vain\b", "ineffective"),
    (r"\blook(s|ed|ing)? at\b", "reads, checks, tests"),
    # 'cannot tell' is allowed: it is a state of `recommend --troubleshoot`.
    (r"\btold\b|(?<!cannot[\s-])\btell(s|ing)?\b", "reports, shows, distinguishes; unknown; no samples yet"),
    (r"\bstands? still\b", "is stopped, is blocked"),
    (r"\bis none of (it|the [a-z]+'s)\b", "is not part of, does not belong to"),
    (r"\bof (one's|our|their) own\b", "custom, its own, separate"),
    (r"\bcomes to (mean|rest|an end)\b", "name what happens: is reused, stops, ends"),
    (r"\bgives? up\b", "stops, abandons, releases"),
    (r"\bfor ever\b", "forever, without limit"),
    (r"(?<!here )\b(is|are) no (?!longer|other|such|need|more|room|way|second|setting|list|limit|thread|server|answer)[a-z]",
     "is not a ..., are not ..."),
    (r"\bor no (whole|finite) numbers?\b", "or not a ..."),
    (r"\b(found|finds|had) no room\b", "did not fit"),
    (r"\b(held|hold) against (the|a|it)\b", "compared with"),
    (r"\b(hold|holds) together\b", "is consistent"),
    (r"\bwent past the\b", "bypassed"),
    (r"\bsomebody else\b|\b(some|no)body listens\b", "another user, another process; nothing listens"),
    (r"\b(bytes|what|window|be) (is |are )?on the way\b", "in flight"),
    (r"\bof one moment\b", "a snapshot"),
    (r"\bcut short\b", "truncated"),
    (r"\bin the place of\b", "in place of, instead of"),
    (r"\bcannot hold (the|its|a) [a-z]", "cannot store the ..., cannot allocate the ..."),
    (r"(?<!-)\bbehind --", "after --"),
    (r"\b(comes?|came|gets?|got) to an end\b", "ends"),
    (r"\bpiles? up\b", "accumulate"),
)

TOKEN = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'', re.S)
# Matches literals, and groups of consecutive comment lines.
PYTHON_TOKEN = re.compile(r'(?:(?<=\n)[ \t]*#[^\n]*\n)+|#[^\n]*|"""(?:\\.|.)*?"""|"(?:\\.|[^"\\\n])*"|'
                          r"'(?:\\.|[^'\\\n])*'", re.S)
C_LIKE = (".c", ".h", ".inc", ".js", ".pml", ".cu")
PYTHON = (".py", ".pyi")
PLAIN = (".md", ".json", ".yml", ".yaml", ".toml", ".cmake", ".in", ".sh", ".bash", ".bats", ".spec", ".fish", ".txt", ".conf",
         ".service")
NO_SUFFIX = re.compile(r"[A-Za-z_-]+")  # scripts and Makefile, but not .gitignore and the like
# Files that contain the words on purpose, data of tests, and the licence.
EXEMPT = ("tests/checks/wording.py", "tests/checks/test_checks.py", "tests/fixtures/", "tests/fuzz/corpus/",
          "tests/recordings/", "LICENSE")


def blanks(words):
    """Makes a blank match any white space; within a look-behind, which has a fixed width, a single
    one."""
    return re.sub(r"\(\?<!.*?\)| ", lambda m: m.group().replace(" ", r"\s") if len(m.group()) > 1 else r"\s+", words)


def c_texts(source):
    """Yields (offset, text) of each literal, with adjacent ones joined, and of each comment."""
    found = []
    end = -1
    for match in TOKEN.finditer(source):
        word = match.group()
        if word.startswith('"'):
            joined = found and end >= 0 and not source[end:match.start()].strip(" \t\n\\")
            if joined:
                found[-1] = (found[-1][0], found[-1][1] + word[1:-1])
            else:
                found.append((match.start(), word[1:-1]))
            end = match.end()
        elif word.startswith("/"):
            found.append((match.start(), re.sub(r"\n\s*\*", " ", word)))
            end = -1
    return found


def python_texts(source):
    """Yields (offset, text) of each literal and of each group of comment lines."""
    return [(m.start(), re.sub(r"\n[ \t]*#", " ", m.group())) for m in PYTHON_TOKEN.finditer(source)]


def doc_texts(source):
    """Yields (offset, text) of each paragraph."""
    return [(m.start(), m.group()) for m in re.finditer(r"(?:[^\n]+\n?)+", source)]


def is_read(name):
    return not name.startswith(EXEMPT) and (
        name.endswith(C_LIKE + PYTHON + PLAIN) or NO_SUFFIX.fullmatch(os.path.basename(name)))


def texts_of(name, source):
    if name.endswith(C_LIKE):
        return c_texts(source)
    return python_texts(source) if name.endswith(PYTHON) else doc_texts(source)


def matches_of(found):
    """Yields (offset of the text, offset within it, matched words, replacement). The texts of a file are searched
    together, as a call takes longer than a text; no expression matches across what is between them."""
    joined = "\0".join(text for _, text in found)
    starts = list(itertools.accumulate((len(text) + 1 for _, text in found), initial=0))
    for words, instead in WORDS:
        for match in re.finditer(blanks(words), joined, re.I):
            number = bisect.bisect(starts, match.start()) - 1
            yield found[number][0], match.start() - starts[number], " ".join(match.group().split()), instead


def main():
    top = tree.root()
    names = [n for n in tree.files(top) if is_read(n)]
    findings, texts = [], 0
    for name in names:
        source = tree.text(top, name)
        found = texts_of(name, source)
        texts += len(found)
        for offset, within, word, instead in matches_of(found):
            if name.endswith(C_LIKE + PYTHON):
                within = 0
            line = source.count("\n", 0, offset + within) + 1
            findings.append(f"{name}:{line}: '{word}': write {instead}")
    tree.finish(findings, len(names) if texts else 0)


main()
