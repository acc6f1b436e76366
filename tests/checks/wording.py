# SPDX-License-Identifier: Apache-2.0
"""Words that users do not search for, each with the standard one.

Checked are the strings of C sources, the comments of public headers, and the documentation.
"""
import re

import tree

# (regular expression, what to write instead); a blank is any white space
WORDS = (
    (r"\bforetold\b|\bforetell", "predicted, predict"),
    (r"\breckon", "compute, estimate or count"),
    (r"\bis none of \(", "invalid value 'x'; choose from ..."),
    (r"\bis no sound\b|\bno sound [a-z]+\b", "is not a valid ..."),
    (r"\bto tell so soon\b", "not enough samples yet"),
    (r"\bis to be told\b|\bto be told\b", "name who reports it"),
    (r"\blook(s|ed|ing)? whether\b", "check whether"),
    (r"\bhas begun to climb\b", "has begun to rise"),
    (r"\bmalloc is that of\b", "malloc is served by"),
    (r"\bmeant is\b", "did you mean"),
    (r"\bsure to [0-9%]", "confidence 99.9 %"),
    (r"\bstands? (higher|lower)\b|\blike phases\b", "memory after each round keeps rising"),
    (r"\bis no (rate|size|number|duration|recording|regular file)\b", "invalid rate, is not a ..."),
    (r"\bwant of memory\b", "memory pressure, out of memory"),
    (r"\bnothing to tell\b", "no samples yet"),
    (r"\btells (whether|which)\b", "reports whether, reports which"),
    (r"\bstood still\b", "was borrowed for"),
    (r"\bin vain\b", "ineffective"),
)

TOKEN = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'', re.S)
DOCS = ("README.md", "CONTRIBUTING.md", "docs/")


def c_texts(name, source):
    """(offset, text) of each literal, adjacent ones joined, and of comments in public headers."""
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
        elif word.startswith("/") and name.startswith("libcore/include/"):
            found.append((match.start(), re.sub(r"\n\s*\*", " ", word)))
            end = -1
    return found


def doc_texts(source):
    """(offset, text) of each paragraph."""
    return [(m.start(), m.group()) for m in re.finditer(r"(?:[^\n]+\n?)+", source)]


def main():
    top = tree.root()
    names = [n for n in tree.sources(top, ".c", ".h", ".md")
             if n.startswith(("cli/", "libcore/") + DOCS)]
    findings, texts = [], 0
    for name in names:
        source = tree.text(top, name)
        found = doc_texts(source) if name.endswith(".md") else c_texts(name, source)
        texts += len(found)
        for offset, text in found:
            for words, instead in WORDS:
                for match in re.finditer(words.replace(" ", r"\s+"), text, re.I):
                    within = match.start() if name.endswith(".md") else 0
                    line = source.count("\n", 0, offset + within) + 1
                    word = " ".join(match.group().split())
                    findings.append(f"{name}:{line}: '{word}': write {instead}")
    tree.finish(findings, len(names) if texts else 0)


main()
