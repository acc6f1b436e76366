# SPDX-License-Identifier: Apache-2.0
"""Decodes a profile of pprof into JSON: pprof.py FILE

An independent reading of profile.proto (github.com/google/pprof): unknown fields, wrong wire types and
references that lead nowhere are errors.
"""
import gzip
import json
import sys

# message -> field -> (name, kind): n number, N repeated numbers, s string index, or a message; it
# is in a list if its name ends in []
MESSAGES = {
    "Profile": {1: ("sample_type", "ValueType[]"), 2: ("sample", "Sample[]"),
                3: ("mapping", "Mapping[]"), 4: ("location", "Location[]"),
                5: ("function", "Function[]"), 6: ("string_table", "bytes[]"), 7: ("drop_frames", "s"),
                8: ("keep_frames", "s"), 9: ("time_nanos", "n"), 10: ("duration_nanos", "n"),
                11: ("period_type", "ValueType"), 12: ("period", "n"), 13: ("comment", "N"),
                14: ("default_sample_type", "s")},
    "ValueType": {1: ("type", "s"), 2: ("unit", "s")},
    "Sample": {1: ("location_id", "N"), 2: ("value", "N")},
    "Mapping": {1: ("id", "n"), 2: ("memory_start", "n"), 3: ("memory_limit", "n"),
                4: ("file_offset", "n"), 5: ("filename", "s"), 6: ("build_id", "s"),
                7: ("has_functions", "n")},
    "Location": {1: ("id", "n"), 2: ("mapping_id", "n"), 3: ("address", "n"), 4: ("line", "Line[]")},
    "Line": {1: ("function_id", "n"), 2: ("line", "n")},
    "Function": {1: ("id", "n"), 2: ("name", "s"), 3: ("system_name", "s"), 4: ("filename", "s"),
                 5: ("start_line", "n")},
}


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            assert value < 1 << 64
            return value, at


def numbers(data):
    at, found = 0, []
    while at < len(data):
        value, at = varint(data, at)
        found.append(value)
    return found


def decode(name, data):
    fields = MESSAGES[name]
    message = {field: [] if kind.endswith("[]") or kind == "N" else 0 for field, kind in fields.values()}
    at = 0
    while at < len(data):
        tag, at = varint(data, at)
        field, kind = fields[tag >> 3]
        if tag & 7 == 0:
            assert kind in "nsN", (name, field)
            value, at = varint(data, at)
            if kind == "N":
                message[field].append(value)
            else:
                message[field] = value
            continue
        assert tag & 7 == 2 and kind not in "ns", (name, field, tag & 7)
        length, at = varint(data, at)
        part, at = data[at:at + length], at + length
        assert len(part) == length
        if kind == "N":
            message[field] += numbers(part)
        elif kind == "bytes[]":
            message[field].append(part.decode("utf-8"))
        elif kind.endswith("[]"):
            message[field].append(decode(kind[:-2], part))
        else:
            message[field] = decode(kind, part)
    return message


def by_id(rows):
    found = {row["id"]: row for row in rows}
    assert len(found) == len(rows) and 0 not in found
    return found


def main():
    with gzip.open(sys.argv[1]) as file:
        profile = decode("Profile", file.read())
    text = profile["string_table"]
    assert text[0] == ""
    functions, locations, mappings = (by_id(profile[name])
                                      for name in ("function", "location", "mapping"))

    def frame(location):
        line, = locations[location]["line"]
        function = functions[line["function_id"]]
        # Otherwise Go's pprof shows "<module>" as "<unknown>".
        assert not function["system_name"], text[function["system_name"]]
        mapping = locations[location]["mapping_id"]
        return {"name": text[function["name"]], "file": text[function["filename"]],
                "line": line["line"], "module": text[mappings[mapping]["filename"]] if mapping else ""}

    types = [[text[t["type"]], text[t["unit"]]] for t in profile["sample_type"]]
    samples = [{"values": s["value"], "stack": [frame(i) for i in s["location_id"]]}
               for s in profile["sample"]]
    assert all(len(s["values"]) == len(types) for s in samples)
    assert profile["time_nanos"] > 0 and profile["duration_nanos"] > 0
    assert text[profile["period_type"]["unit"]] == "bytes"
    print(json.dumps({"sample_types": types, "samples": samples, "period": profile["period"],
                      "default": text[profile["default_sample_type"]]}))


main()
