# SPDX-License-Identifier: Apache-2.0
"""Writes PyTorch checkpoints for tests byte by byte: valid ones without PyTorch, and archives whose
parts disagree."""
import struct
import zlib

STORAGES = {"F64": "Double", "F32": "Float", "F16": "Half", "BF16": "BFloat16", "I64": "Long", "I32": "Int",
            "I16": "Short", "I8": "Char", "U8": "Byte", "BOOL": "Bool", "C64": "ComplexFloat"}
SIZES = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2, "I64": 8, "I32": 4, "I16": 2, "I8": 1, "U8": 1, "BOOL": 1,
         "C64": 8, "F8_E4M3": 1, "F8_E5M2": 1, "U16": 2}
DTYPES = {"F8_E4M3": "float8_e4m3fn", "F8_E5M2": "float8_e5m2", "U16": "uint16"}
CALL = b"ctorch._utils\n_rebuild_tensor_v2\n"
CALL_TYPED = b"ctorch._utils\n_rebuild_tensor_v3\n"
EMPTY_DICT = b"ccollections\nOrderedDict\n)R"


def text(value):
    content = value if isinstance(value, bytes) else value.encode()
    return b"X" + struct.pack("<I", len(content)) + content


def number(value):
    return b"\x8a\x08" + struct.pack("<q", value)


def numbers(values):
    return b"(" + b"".join(number(value) for value in values) + b"t"


def contiguous(shape):
    strides, step = [], 1
    for extent in reversed(shape):
        strides.insert(0, step)
        step *= extent
    return strides


def tensor(kind, storage, count, shape, first=0, strides=None):
    """Returns the opcodes of a tensor in storage number `storage`, which has `count` elements."""
    known = STORAGES.get(kind)
    name = f"ctorch\n{known}Storage\n" if known else "ctorch.storage\nUntypedStorage\n"
    place = b"(" + text("storage") + name.encode() + text(str(storage)) + text("cpu") + \
        number(count if known else count * SIZES[kind]) + b"tQ"
    about = number(first) + numbers(shape) + numbers(contiguous(shape) if strides is None else strides) + \
        b"\x89" + EMPTY_DICT
    typed = b"" if known else f"ctorch\n{DTYPES[kind]}\n".encode()
    return (CALL if known else CALL_TYPED) + b"(" + place + about + typed + b"tR"


def dictionary(rows):
    """Returns the opcodes of a dict; rows: names and opcodes."""
    return EMPTY_DICT + b"(" + b"".join(text(name) + value for name, value in rows) + b"u"


def finish(opcodes):
    return b"\x80\x02" + opcodes + b"."


def pickle_of(model, key=None):
    """Returns the entries of a model: name to (type, array); each is in the storage of its
    number."""
    rows = [(name, tensor(kind, index, array.size, array.shape))
            for index, (name, (kind, array)) in enumerate(model.items())]
    if not key:
        return finish(dictionary(rows))
    return finish(b"}(" + text("epoch") + b"K\x03" + text(key) + dictionary(rows) + b"u")


def entries_of(model, key=None, folder="m"):
    found = [{"name": f"{folder}/data.pkl", "data": pickle_of(model, key)}]
    for index, (_, array) in enumerate(model.values()):
        found.append({"name": f"{folder}/data/{index}", "data": array.tobytes()})
    found.append({"name": f"{folder}/version", "data": b"3\n"})
    return found


def extra_for(at, name):
    """Returns the padding that PyTorch writes: the bytes begin at a multiple of 64."""
    length = -(at + 30 + len(name) + 4) % 64
    return b"FB" + struct.pack("<H", length) + b"Z" * length


def local_header(entry, at):
    about = {"flags": 0, "method": 0, "crc": zlib.crc32(entry["data"]), "stored": len(entry["data"]),
             "size": len(entry["data"]), "name": entry["name"].encode(), **entry.get("local", {})}
    extra = entry.get("extra", extra_for(at, about["name"]))
    return struct.pack("<IHHHHHIIIHH", 0x04034b50, 20, about["flags"], about["method"], 0, 0, about["crc"],
                       about["stored"], about["size"], len(about["name"]), len(extra)) + about["name"] + extra


def record(entry, at):
    """Returns an entry's record in the directory."""
    about = {"flags": 0, "method": 0, "crc": zlib.crc32(entry["data"]), "stored": len(entry["data"]),
             "size": len(entry["data"]), "name": entry["name"].encode(), "at": at, "extra": b"",
             "attributes": 0, **entry.get("central", {})}
    return struct.pack("<IHHHHHHIIIHHHHHII", 0x02014b50, 20, 20, about["flags"], about["method"], 0, 0,
                       about["crc"], about["stored"], about["size"], len(about["name"]), len(about["extra"]), 0,
                       0, 0, about["attributes"], about["at"]) + about["name"] + about["extra"]


def archive(entries, large=False):
    """Returns an archive. `large`: only the 64-bit record leads to the directory, as in files above
    4 GiB."""
    content, directory = b"", b""
    for entry in entries:
        place = len(content)
        if not entry.get("hidden"):
            directory += record(entry, place)
        if entry.get("absent"):
            continue
        content += local_header(entry, place) + entry["data"]
    at, count = len(content), sum(not entry.get("hidden") for entry in entries)
    content += directory
    if not large:
        return content + struct.pack("<IHHHHIIH", 0x06054b50, 0, 0, count, count, len(directory), at, 0)
    end = len(content)
    content += struct.pack("<IQHHIIQQQQ", 0x06064b50, 44, 45, 45, 0, 0, count, count, len(directory), at)
    content += struct.pack("<IIQI", 0x07064b50, 0, end, 1)
    return content + struct.pack("<IHHHHIIH", 0x06054b50, 0, 0, 0xffff, 0xffff, 2**32 - 1, 2**32 - 1, 0)


def write(path, model, key=None, **options):
    with open(path, "wb") as file:
        file.write(archive(entries_of(model, key), **options))
