# SPDX-License-Identifier: Apache-2.0
"""Reads and writes safetensors files without their package: a header of JSON, then the data of all
tensors."""

import ctypes
import json
import mmap
import os
import struct
import sys
from typing import Any, BinaryIO, Dict, Iterable, List, NamedTuple, Tuple

__all__ = ["Entry", "Raw", "Source", "bytes_of", "count_bytes", "empty", "kind_of", "make_header", "map_tensors",
           "memory_of", "of_file", "of_value", "parse_header", "place_of", "write"]

_HEADER_MAX = 100_000_000  # the limit of the format's own reader
_COPY_BYTES = 16 << 20
_NUMPY = {
    "F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4", "I16": "<i2", "I8": "|i1",
    "U64": "<u8", "U32": "<u4", "U16": "<u2", "U8": "|u1", "BOOL": "|b1",
}
_TORCH = {
    "F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16", "I64": "int64",
    "I32": "int32", "I16": "int16", "I8": "int8", "U8": "uint8", "BOOL": "bool", "U16": "uint16",
    "U32": "uint32", "U64": "uint64", "F8_E4M3": "float8_e4m3fn", "F8_E5M2": "float8_e5m2",
}
_SIZES = {
    "F64": 8, "F32": 4, "F16": 2, "BF16": 2, "I64": 8, "I32": 4, "I16": 2, "I8": 1, "U64": 8, "U32": 4, "U16": 2,
    "U8": 1, "BOOL": 1, "F8_E4M3": 1, "F8_E5M2": 1, "C64": 8,
}
# Types by their place in a file: the package safetensors writes tensors of the last one first.
_ORDER = ("BOOL", "U8", "I8", "F8_E5M2", "F8_E4M3", "I16", "U16", "F16", "BF16", "I32", "U32", "F32", "C64", "F64", "I64",
          "U64")


class Source(NamedTuple):
    """A tensor to be written: from memory, or from a range of a file."""

    dtype: str
    shape: Tuple[int, ...]
    size: int
    data: Any  # a buffer, or (path, offset)

    def copy_to(self, file: BinaryIO) -> None:
        """Appends the data to an open file."""
        if not isinstance(self.data, tuple):
            file.write(self.data)
            return
        path, offset = self.data
        with open(path, "rb") as source:
            source.seek(offset)
            left = self.size
            while left:
                part = source.read(min(left, _COPY_BYTES))
                if not part:
                    raise OSError(f"'{path}' ends before its data")
                file.write(part)
                left -= len(part)


def _read_header(file: BinaryIO, path: str) -> Tuple[Dict[str, Any], int]:
    """Returns the entries by name, and the offset at which the data begin."""
    size_bytes = file.read(8)
    size = struct.unpack("<Q", size_bytes)[0] if len(size_bytes) == 8 else _HEADER_MAX + 1
    if size > _HEADER_MAX:
        raise ValueError(f"'{path}' is not a safetensors file")
    try:
        header = json.loads(file.read(size))
    except ValueError as problem:
        raise ValueError(f"'{path}' is not a safetensors file: {problem}") from problem
    if not isinstance(header, dict):
        raise ValueError(f"'{path}' is not a safetensors file")
    header.pop("__metadata__", None)
    return header, 8 + size


def of_file(path: str, name: str) -> Source:
    """Returns the tensor of that name in a file."""
    with open(path, "rb") as file:
        header, start = _read_header(file, path)
    if name not in header:
        raise ValueError(f"'{path}' has no tensor '{name}'")
    entry = header[name]
    begin, end = entry["data_offsets"]
    return Source(entry["dtype"], tuple(entry["shape"]), end - begin, (path, start + begin))


class Raw(NamedTuple):
    """A tensor that is neither PyTorch's nor NumPy's."""

    dtype: str  # name of the type in safetensors: "F32"
    shape: Tuple[int, ...]
    data: Any  # a buffer with the tensor's bytes, little-endian


def _is_torch(value: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def _is_array(value: Any) -> bool:
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(value, (numpy.ndarray, numpy.generic))


def _kind_of_torch(tensor: Any) -> str:
    import torch  # pylint: disable=import-outside-toplevel; the caller has it already

    # Refuse subclasses whose memory is not the plain elements: a mask, a shard, another number of
    # elements.
    if getattr(type(tensor), "__torch_dispatch__", None) != getattr(torch.Tensor, "__torch_dispatch__", None):
        raise ValueError(f"unsupported type {type(tensor).__name__}; pass a plain tensor")
    kinds = {getattr(torch, name, None): kind for kind, name in _TORCH.items()}
    if tensor.dtype not in kinds or tensor.layout != torch.strided:
        raise ValueError(f"unsupported type {tensor.dtype}")
    return kinds[tensor.dtype]


def _kind_of_array(array: Any) -> str:
    import numpy  # pylint: disable=import-outside-toplevel; the caller has it already

    if isinstance(array, (numpy.ma.MaskedArray, numpy.ma.core.mvoid)):
        raise ValueError("a masked array; its mask would be lost: pass what filled() returns")
    kinds = {numpy.dtype(code): kind for kind, code in _NUMPY.items()}
    if array.dtype not in kinds:
        raise ValueError(f"unsupported type {array.dtype}")
    return kinds[array.dtype]


def count_bytes(kind: str, shape: Iterable[int]) -> int:
    """Returns the size of a tensor; ValueError for a type without whole bytes per element."""
    if kind not in _SIZES:
        raise ValueError(f"unsupported type {kind}")
    size = _SIZES[kind]
    for length in shape:
        size *= length
    return size


def kind_of(name: str, value: Any) -> str:
    """Returns the type of a tensor of PyTorch, an array of NumPy or a Raw, without importing
    either."""
    try:
        if _is_torch(value):
            return _kind_of_torch(value)
        if _is_array(value):
            return _kind_of_array(value)
        if isinstance(value, Raw):
            if count_bytes(value.dtype, value.shape) != memoryview(value.data).nbytes:
                raise ValueError("its data have another size than its shape")
            return value.dtype
        raise ValueError(f"unsupported type {type(value).__name__}")
    except ValueError as problem:
        raise ValueError(f"parameter '{name}': {problem}") from problem


def _view_of_memory(tensor: Any) -> memoryview:
    """Returns the memory of a contiguous tensor on the CPU, also for a type that NumPy lacks."""
    size = tensor.numel() * tensor.element_size()
    if not size:
        return memoryview(b"")
    buffer = (ctypes.c_ubyte * size).from_address(tensor.data_ptr())
    buffer.owner = tensor  # the tensor lives as long as there is a view
    return memoryview(buffer).cast("B")


def _is_negated(tensor: Any) -> bool:
    """Reports whether the memory has the negated values, as that of `z.conj().imag`."""
    return hasattr(tensor, "is_neg") and tensor.is_neg()


def bytes_of(value: Any) -> memoryview:
    """Returns the data of a tensor: a view, or a copy if it is on a device, not contiguous, or
    negated."""
    if _is_torch(value):
        tensor = value.detach().cpu()
        return _view_of_memory((tensor.resolve_neg() if _is_negated(tensor) else tensor).contiguous())
    if _is_array(value):
        import numpy  # pylint: disable=import-outside-toplevel; the caller has it already

        flat = numpy.ascontiguousarray(value).reshape(-1)
        return memoryview(flat.view(numpy.uint8) if flat.size else b"")
    return memoryview(value.data).cast("B") if memoryview(value.data).nbytes else memoryview(b"")


def of_value(name: str, value: Any) -> Source:
    """Describes a tensor of PyTorch or an array of NumPy, without importing either."""
    kind = kind_of(name, value)
    data = bytes_of(value)
    return Source(kind, tuple(value.shape), data.nbytes, data)


def place_of(name: str, kind: str) -> Tuple[int, bytes]:
    """Returns the key that sorts tensors as the package safetensors writes them."""
    return -_ORDER.index(kind), name.encode("utf-8", "surrogatepass")


def make_header(entries: Iterable[Tuple[str, str, Tuple[int, ...], int]]) -> bytes:
    """Returns the header for tensors (name, type, shape, bytes) whose data follow in this order."""
    header: Dict[str, Any] = {}
    offset = 0
    for name, kind, shape, size in entries:
        header[name] = {"dtype": kind, "shape": list(shape), "data_offsets": [offset, offset + size]}
        offset += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text


def write(path: str, tensors: Iterable[Tuple[str, Source]]) -> None:
    """Writes tensors in this order. The header comes first in the file, so no data are held in
    memory."""
    named = list(tensors)
    header = make_header((name, source.dtype, source.shape, source.size) for name, source in named)
    with open(path, "wb") as file:
        file.write(header)
        for _, source in named:
            source.copy_to(file)


class Entry(NamedTuple):
    """One tensor in a file."""

    name: str
    kind: str
    shape: Tuple[int, ...]
    begin: int  # range within the data
    end: int


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 63


def _read_entry(name: str, entry: Any) -> Entry:
    kind, shape, offsets = (entry.get(key) for key in ("dtype", "shape", "data_offsets"))
    if (not isinstance(kind, str) or not isinstance(shape, list) or not isinstance(offsets, list)
            or len(offsets) != 2 or len(shape) > 64 or not all(map(_is_count, shape + offsets))):
        raise ValueError(f"tensor '{name}' is not described")
    found = Entry(name, kind, tuple(shape), offsets[0], offsets[1])
    if count_bytes(kind, shape) != found.end - found.begin:
        raise ValueError(f"tensor '{name}' has another size than its shape")
    return found


def _unique(pairs: List[Tuple[str, Any]]) -> Dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key is there twice")
    return found


def parse_header(text: bytes, data_bytes: int) -> List[Entry]:
    """Returns the tensors in the order of their data, which they must cover without holes."""
    try:
        header = json.loads(text, object_pairs_hook=_unique)
    except RecursionError as problem:
        raise ValueError("the header is nested too deep") from problem
    if not isinstance(header, dict):
        raise ValueError("the header is not an object")
    header.pop("__metadata__", None)
    if not all(isinstance(entry, dict) for entry in header.values()):
        raise ValueError("the header describes no tensors")
    entries = sorted((_read_entry(name, entry) for name, entry in header.items()), key=lambda one: (one.begin, one.end))
    at = 0
    for entry in entries:
        if entry.begin != at:
            raise ValueError(f"tensor '{entry.name}' does not begin where the one before ends")
        at = entry.end
    if at != data_bytes:
        raise ValueError("the tensors have another size than the file")
    return entries


def empty(entry: Entry, framework: str) -> Tuple[Any, memoryview]:
    """Returns a new tensor ("torch"), array ("numpy") or Raw ("raw"), and its memory to be
    filled."""
    if framework == "torch":
        import torch  # pylint: disable=import-outside-toplevel

        kind = getattr(torch, _TORCH.get(entry.kind, ""), None)
        if kind is None:
            raise ValueError(f"tensor '{entry.name}': this PyTorch has no type for {entry.kind}")
        tensor = torch.empty(entry.shape, dtype=kind)
        return tensor, _view_of_memory(tensor)
    if framework == "numpy":
        import numpy  # pylint: disable=import-outside-toplevel

        if entry.kind not in _NUMPY:
            raise ValueError(f"tensor '{entry.name}': NumPy has no type for {entry.kind}; pull it as 'torch' or 'raw'")
        array = numpy.empty(entry.shape, _NUMPY[entry.kind])
        return array, memoryview(array.reshape(-1).view(numpy.uint8) if array.size else b"")
    data = bytearray(entry.end - entry.begin)
    return Raw(entry.kind, entry.shape, data), memoryview(data)


def memory_of(name: str, value: Any, entry: Entry) -> Any:
    """Returns the memory of an existing tensor or array to be filled; None if it cannot be used in
    place."""
    if kind_of(name, value) != entry.kind or tuple(value.shape) != entry.shape:
        raise ValueError(f"parameter '{name}': the model has {entry.kind} {list(entry.shape)}")
    if _is_torch(value):
        in_place = value.device.type == "cpu" and value.is_contiguous() and not _is_negated(value)
        return _view_of_memory(value.detach()) if in_place else None
    view = bytes_of(value)
    in_place = not _is_array(value) or (value.flags.c_contiguous and value.flags.writeable)
    return view if in_place and (not view.readonly or not view.nbytes) else None


def _as_torch(buffer: Any, dtype: str, shape: Tuple[int, ...], offset: int, size: int) -> Any:
    import torch  # pylint: disable=import-outside-toplevel

    kind = getattr(torch, _TORCH.get(dtype, ""), None)
    if kind is None:
        raise ValueError(f"this PyTorch has no type for {dtype}")
    if not size:
        return torch.empty(shape, dtype=kind)
    count = size // torch.empty(0, dtype=kind).element_size()
    return torch.frombuffer(buffer, dtype=kind, count=count, offset=offset).reshape(shape)


def _as_array(buffer: Any, dtype: str, shape: Tuple[int, ...], offset: int, size: int) -> Any:
    import numpy  # pylint: disable=import-outside-toplevel

    kind = numpy.dtype(_NUMPY[dtype])
    return numpy.frombuffer(buffer, kind, size // kind.itemsize, offset).reshape(shape)


def map_tensors(path: str, is_torch: Dict[str, bool]) -> Dict[str, Any]:
    """Returns a file's tensors by name: tensors of PyTorch or arrays of NumPy over a mapping.

    Pages that are not written to belong to the file, so the kernel can reclaim them; one that is
    written to is copied. The file may be unlinked, and must not be changed.
    """
    with open(path, "rb") as file:
        header, start = _read_header(file, path)
        buffer = mmap.mmap(file.fileno(), os.fstat(file.fileno()).st_size, access=mmap.ACCESS_COPY)
    found = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        make = _as_torch if is_torch[name] else _as_array
        found[name] = make(buffer, entry["dtype"], tuple(entry["shape"]), start + begin, end - begin)
    return found
