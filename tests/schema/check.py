# SPDX-License-Identifier: Apache-2.0
"""Holds JSON output of flmem, read from stdin, to docs/json-schema.

    check.py SCHEMAS COMMAND         the output is valid, explains every null, and would not be
                                     valid with a field more or a field less
    check.py SCHEMAS --self HEADERS  the schemas are schemas, and their lists of names are those of
                                     the public headers
"""
import glob
import json
import os
import re
import sys

try:
    import jsonschema
except ImportError:
    sys.exit(77)  # skipped

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "scripts"))

from schema_names import NAMES, at, macro_column  # noqa: E402

MEASURES = re.compile(r"_(bytes|us|ms|s)$")

def load(directory):
    schemas = {}
    for path in sorted(glob.glob(os.path.join(directory, "*.json"))):
        with open(path, encoding="utf-8") as text:
            schemas[os.path.basename(path)[:-5]] = json.load(text)
    return schemas


def validator(schemas, command):
    store = {schema["$id"]: schema for schema in schemas.values()}
    resolver = jsonschema.RefResolver(schemas[command]["$id"], schemas[command], store=store)
    return jsonschema.Draft202012Validator(schemas[command], resolver=resolver)


def objects(value, path=()):
    """Yields every object in the output with its path."""
    if isinstance(value, dict):
        yield path, value
        for key, inner in value.items():
            yield from objects(inner, path + (key,))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from objects(inner, path + (index,))


def unexplained(output):
    """Checks that a null number has its reason under 'unknown' of its object."""
    for path, value in objects(output):
        for key, inner in value.items():
            if inner is None and MEASURES.search(key) and key not in value.get("unknown", {}):
                yield "/".join(map(str, path + (key,)))


def is_map(path):
    """True for objects whose keys are names, not fields."""
    return path and path[-1] in ("unknown", "settings", "environment", "own")


def shape(value):
    """Returns the structure of a value, which is equal for elements of a list that differ in their
    numbers alone."""
    if isinstance(value, dict):
        return tuple(sorted((key, shape(inner)) for key, inner in value.items()))
    if isinstance(value, list):
        return frozenset(shape(inner) for inner in value)
    return type(value).__name__


def thinned(value):
    """Returns the value with one object of each shape in every list of objects."""
    if isinstance(value, dict):
        return {key: thinned(inner) for key, inner in value.items()}
    if isinstance(value, list) and all(isinstance(inner, dict) for inner in value):
        return [thinned(inner) for inner in {shape(inner): inner for inner in value}.values()]
    return value


def alone(value, path):
    """Returns (value, path) with no other elements in the lists on the way to `path`."""
    if not path:
        return value, ()
    inner, rest = alone(value[path[0]], path[1:])
    if isinstance(value, list):
        return [inner], (0,) + rest
    return {**value, path[0]: inner}, path[:1] + rest


def loose(output, check, may_miss):
    """Objects that would take a field that no schema names, or do without one of theirs.

    Each field is a validation of what is left, so `output` is to be thinned; of objects in one place
    that differ in their values alone, one is tried.
    """
    seen = set()
    for path, value in list(objects(output)):
        kind = tuple(step for step in path if isinstance(step, str)), shape(value)
        if is_map(path) or kind in seen:
            continue
        seen.add(kind)
        single, there = alone(output, path)
        if not check.is_valid(single):
            yield "%s is not valid alone" % "/".join(map(str, path))
        value = at(single, there)
        value["surprise"] = 1
        if check.is_valid(single):
            yield "%s takes any field" % "/".join(map(str, path))
        del value["surprise"]
        for key in list(value):
            inner = value.pop(key)
            if check.is_valid(single) and key not in may_miss:
                yield "%s is valid without '%s'" % ("/".join(map(str, path)), key)
            value[key] = inner


def referred(schemas, command):
    """Yields the schema and those of other files that it refers to."""
    yield schemas[command]
    for _, part in objects(schemas[command]):
        other = part.get("$ref", "#").split("#")[0].replace(".json", "")
        if other and other != command:
            yield schemas[other]


def optional(schemas, command):
    """Returns names of fields that an object of the schema may omit."""
    names = set()
    for _, part in (o for schema in referred(schemas, command) for o in objects(schema)):
        properties = part.get("properties")
        if isinstance(properties, dict) and part.get("type") == "object":
            names |= set(properties) - set(part.get("required", ()))
    return names


def check_output(schemas, command):
    output = json.load(sys.stdin)
    check = validator(schemas, command)
    findings = ["%s: %s" % ("/".join(map(str, e.absolute_path)), e.message)
                for error in check.iter_errors(output)
                for e in (error, *(error.context or ()))]
    if not findings:
        findings += ["%s is null without a reason" % p for p in unexplained(output)]
        findings += loose(thinned(output), check, optional(schemas, command))
    return findings


def check_self(schemas, headers):
    findings = []
    for name, schema in schemas.items():
        try:
            jsonschema.Draft202012Validator.check_schema(schema)
        except jsonschema.SchemaError as problem:
            findings.append("%s.json is not a schema: %s" % (name, problem.message))
        if not schema["$id"].endswith("/%s.json" % name):
            findings.append("%s.json calls itself %s" % (name, schema["$id"]))
    for name, path, macro, column in NAMES:
        if name not in schemas:
            findings.append("there is no %s.json" % name)
            continue
        listed = [n for n in at(schemas[name], path.split()) if n is not None]
        expected = macro_column(headers, macro, column)
        if listed != expected:
            findings.append("%s.json: %s has %s, %s has %s" % (name, path, listed, macro, expected))
    return findings


def main():
    schemas = load(sys.argv[1])
    if sys.argv[2] == "--self":
        findings = check_self(schemas, sys.argv[3])
    else:
        findings = check_output(schemas, sys.argv[2])
    for finding in findings:
        print(finding)
    sys.exit(1 if findings else 0)


main()
