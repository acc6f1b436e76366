# SPDX-License-Identifier: Apache-2.0
"""
Safetensors files for tests, written and read without the package of that name, and means as NumPy
computes them in float64. Types that NumPy lacks are arrays of their bits.
"""
import json
import struct

import numpy

TYPES = {"F64": "f8", "F32": "f4", "F16": "f2", "BF16": "u2", "I64": "i8", "I32": "i4", "I16": "i2",
         "I8": "i1", "U64": "u8", "U32": "u4", "U16": "u2", "U8": "u1", "BOOL": "u1", "C64": "c8",
         "F8_E4M3": "u1", "F8_E5M2": "u1", "F8_E8M0": "u1"}


def write(path, tensors, notes=None, pad=b""):
    """Writes a file. tensors: name to (type, array), in the order of the file."""
    header, place = {}, 0
    if notes:
        header["__metadata__"] = notes
    for name, (kind, array) in tensors.items():
        header[name] = {"dtype": kind, "shape": list(array.shape),
                        "data_offsets": [place, place + array.nbytes]}
        place += array.nbytes
    text = json.dumps(header).encode() + pad
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for _, array in tensors.values():
            file.write(numpy.ascontiguousarray(array).tobytes())


def read(path):
    """Returns the tensors as read() does, and the notes."""
    with open(path, "rb") as file:
        content = file.read()
    start = 8 + struct.unpack("<Q", content[:8])[0]
    header = json.loads(content[8:start])
    notes = header.pop("__metadata__", None)
    tensors = {}
    for name, about in header.items():
        begin, end = about["data_offsets"]
        tensors[name] = (about["dtype"], numpy.frombuffer(
            content[start + begin:start + end], TYPES[about["dtype"]]).reshape(about["shape"]))
    return tensors, notes


def to_double(kind, array):
    if kind == "BF16":
        return (array.astype("u4") << 16).view("f4").astype("f8")
    return array.astype("f8")


def from_double(kind, array):
    """Rounds once; BF16 to nearest even, from the double and not from a float."""
    if kind != "BF16":
        return array.astype(TYPES[kind])
    bits = numpy.ascontiguousarray(array).view("u8")
    exponent = (bits >> 52 & 0x7ff).astype("i8") - 1023
    quantum = numpy.ldexp(1.0, (numpy.maximum(exponent, -126) - 7).astype("i4"))
    exact = numpy.rint(array / quantum) * quantum
    return (exact.astype("f4").view("u4") >> 16).astype("u2")


def mean(models, weights, name):
    kind = models[0][name][0]
    total = sum(to_double(kind, model[name][1]) * weight
                for model, weight in zip(models, weights))
    return from_double(kind, total / sum(weights))


def same(one, other):
    """True if types, shapes and bytes are equal."""
    return one[0] == other[0] and one[1].shape == other[1].shape and \
        one[1].tobytes() == other[1].tobytes()


def sample(seed, size=1000):
    """Returns a model with every type that is averaged, and some others."""
    random = numpy.random.default_rng(seed)

    def normal(*shape):
        return random.standard_normal(shape) * 0.1

    return {
        "embed.weight": ("BF16", from_double("BF16", normal(size, 17))),
        "layers.0.weight": ("F32", normal(size, 31).astype("f4")),
        "layers.0.bias": ("F16", normal(size).astype("f2")),
        "layers.1.weight": ("F64", normal(13, 7)),
        "layers.1.scale": ("F32", normal(1).reshape(()).astype("f4")),
        "layers.1.none": ("F32", numpy.zeros((0, 3), "f4")),
        "norm.num_batches_tracked": ("I64", numpy.array(3)),
        "norm.mask": ("BOOL", numpy.arange(11) % 2 == 0),
        "odd": ("U8", numpy.arange(5, dtype="u1")),
        "phase": ("C64", numpy.ones(3, "c8")),
    }
