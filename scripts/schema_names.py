#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the lists of names in the JSON schemas from the X-macros of the public headers.

    schema_names.py SCHEMAS HEADERS
"""
import glob
import json
import os
import re
import sys

# Schema, path of the enum in it, X-macro that has the names, column of the name.
NAMES = (
    ("error", "properties error properties code enum", "FLMEM_CODES", 1),
    ("trim", "$defs outcome enum", "FLMEM_TRIM_OUTCOMES", 1),
    ("trim", "$defs event_name enum", "FLMEM_REPEAT_EVENTS", 1),
    ("detect", "$defs framework enum", "FLMEM_FRAMEWORKS", 1),
    ("detect", "$defs role enum", "FLMEM_ROLES", 1),
    ("detect", "$defs allocator_name enum", "FLMEM_ALLOCATORS", 1),
    ("detect", "$defs verdict_class enum", "FLMEM_VERDICTS", 1),
    ("detect", "$defs file_kind enum", "FLMEM_BACKINGS", 1),
    ("watch", "$defs framework enum", "FLMEM_FRAMEWORKS", 1),
    ("watch", "$defs role enum", "FLMEM_ROLES", 1),
    ("watch", "$defs trend properties verdict enum", "FLMEM_TREND_VERDICTS", 1),
    ("watch", "$defs action properties action enum", "FLMEM_WATCH_ACTIONS", 1),
    ("env", "$defs result properties framework enum", "FLMEM_FRAMEWORKS", 1),
    ("env", "$defs origin enum", "FLMEM_SETTING_ORIGINS", 1),
    ("recommend", "$defs plan properties framework enum", "FLMEM_FRAMEWORKS", 1),
    ("recommend", "$defs severity enum", "FLMEM_SEVERITIES", 1),
    ("aggregate", "$defs result properties algorithm enum", "FLMEM_ALGORITHMS", 1),
    ("exchange-status", "$defs result properties phase enum", "FLMEM_EXCHANGE_PHASES", 1),
    ("exchange-wait", "$defs result properties phase enum", "FLMEM_EXCHANGE_PHASES", 1),
    ("heap-profile", "$defs measure enum", "FLMEM_HEAP_MEASURES", 1),
    ("heap-profile", "$defs profile properties state enum", "FLMEM_HEAP_ENDINGS", 1),
    ("heap-profile", "$defs profile properties stacks enum", "FLMEM_HEAP_STACKS", 1),
)


def at(value, path):
    for step in path:
        value = value[step]
    return value


def macro_column(headers, macro, column):
    """Returns the texts of a column; of a row without texts, its words. None: no header has the macro."""
    for path in sorted(glob.glob(os.path.join(headers, "flmem", "*.h"))):
        with open(path, encoding="utf-8") as text:
            body = re.search(r"#define %s\(X\)((?:.*\\\n)*.*)" % macro, text.read())
        if body:
            rows = re.findall(r"X\(([^)]*)\)", body.group(1))
            return [(re.findall(r'"([^"]*)"', row) or re.findall(r"\w+", row)[1:])[column - 1] for row in rows]
    return None


def write(schemas, headers):
    for name in sorted({row[0] for row in NAMES}):
        path = os.path.join(schemas, f"{name}.json")
        with open(path, encoding="utf-8") as text:
            schema = json.load(text)
        for _, place, macro, column in (row for row in NAMES if row[0] == name):
            names = at(schema, place.split())
            names[:] = macro_column(headers, macro, column) + [None] * (None in names)
        with open(path, "w", encoding="utf-8") as text:
            text.write(json.dumps(schema, indent=2, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    write(*sys.argv[1:3])
