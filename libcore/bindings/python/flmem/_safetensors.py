# SPDX-License-Identifier: Apache-2.0
"""Safetensors files without their package: a header of JSON, then the data of all tensors."""

import json
import mmap
import os
import struct
import sys
from typing import Any, BinaryIO, Dict, Iterable, List, NamedTuple, Tuple

__all__ = ["Source", "map_tensors", "of_file", "of_value", "write"]

_HEADER_MAX = 100_000_000  # of the format's own reader
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


class Source(NamedTuple):
    """A tensor that is to be written: from memory, or from a range of a file."""

    dtype: str
    shape: Tuple[int, ...]
    size: int
    data: Any  # a buffer, or (path, offset)

    def copy_to(self, file: BinaryIO) -> None:
        """Appends the data."""
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
    """The entries by name, and where the data begin."""
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
    """The tensor of that name."""
    with open(path, "rb") as file:
        header, start = _read_header(file, path)
    if name not in header:
        raise ValueError(f"'{path}' has no tensor '{name}'")
    entry = header[name]
    begin, end = entry["data_offsets"]
    return Source(entry["dtype"], tuple(entry["shape"]), end - begin, (path, start + begin))


def _bytes_of_torch(tensor: Any) -> Tuple[str, Any]:
    import torch  # pylint: disable=import-outside-toplevel; the caller has it already

    kinds = {getattr(torch, name, None): kind for kind, name in _TORCH.items()}
    kind = kinds.get(tensor.dtype)
    if kind is None:
        raise ValueError(f"unsupported type {tensor.dtype}")
    flat = tensor.detach().cpu().contiguous().reshape(-1)
    return kind, memoryview(flat.view(torch.uint8).numpy() if flat.numel() else b"")


def _bytes_of_array(array: Any) -> Tuple[str, Any]:
    import numpy  # pylint: disable=import-outside-toplevel; the caller has it already

    kinds = {numpy.dtype(code): kind for kind, code in _NUMPY.items()}
    kind = kinds.get(array.dtype)
    if kind is None:
        raise ValueError(f"unsupported type {array.dtype}")
    flat = numpy.ascontiguousarray(array).reshape(-1)
    return kind, memoryview(flat.view(numpy.uint8) if flat.size else b"")


def of_value(name: str, value: Any) -> Source:
    """A tensor of PyTorch or an array of NumPy; neither is imported for it."""
    torch, numpy = sys.modules.get("torch"), sys.modules.get("numpy")
    try:
        if torch is not None and isinstance(value, torch.Tensor):
            kind, data = _bytes_of_torch(value)
        elif numpy is not None and isinstance(value, (numpy.ndarray, numpy.generic)):
            kind, data = _bytes_of_array(numpy.asarray(value))
        else:
            raise ValueError(f"unsupported type {type(value).__name__}")
    except ValueError as problem:
        raise ValueError(f"parameter '{name}': {problem}") from problem
    return Source(kind, tuple(value.shape), data.nbytes, data)


def write(path: str, tensors: Iterable[Tuple[str, Source]]) -> None:
    """Writes them in this order. The file has its header first, so nothing is held in memory."""
    header: Dict[str, Any] = {}
    sources: List[Source] = []
    offset = 0
    for name, source in tensors:
        end = offset + source.size
        header[name] = {"dtype": source.dtype, "shape": list(source.shape), "data_offsets": [offset, end]}
        sources.append(source)
        offset = end
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for source in sources:
            source.copy_to(file)


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
    """Its tensors, by name, as tensors of PyTorch or arrays of NumPy over a mapping of the file.

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
