# SPDX-License-Identifier: Apache-2.0
"""``flmem.inspect``, ``flmem.diff`` and ``flmem.convert``: models on disk, read by libflmem in blocks."""

import ctypes
from typing import Any, Callable, Dict, Optional, Sequence

from ._call import Callback, Http, Path, call, http_options, needed_path, path_bytes, whole

__all__ = ["convert", "diff", "inspect"]


class _InspectRequest(ctypes.Structure):
    """struct flmem_inspect_request of flmem/inspect.h."""

    _fields_ = [
        ("path", ctypes.c_char_p),
        ("key", ctypes.c_char_p),
        ("headers_only", ctypes.c_bool),
        ("statistics", ctypes.c_bool),
        ("http", ctypes.POINTER(Http)),
        ("progress", Callback),
        ("context", ctypes.c_void_p),
        ("threads", ctypes.c_uint),
    ]


class _CompareRequest(ctypes.Structure):
    """struct flmem_compare_request of flmem/compare.h."""

    _fields_ = [
        ("paths", ctypes.c_char_p * 2),
        ("key", ctypes.c_char_p),
        ("tolerance", ctypes.c_double),
        ("http", ctypes.POINTER(Http)),
        ("progress", Callback),
        ("context", ctypes.c_void_p),
        ("threads", ctypes.c_uint),
    ]


class _ConvertRequest(ctypes.Structure):
    """struct flmem_convert_request of flmem/convert.h."""

    _fields_ = [
        ("input", ctypes.c_char_p),
        ("output", ctypes.c_char_p),
        ("key", ctypes.c_char_p),
        ("dtype", ctypes.c_char_p),
        ("progress", Callback),
        ("context", ctypes.c_void_p),
        ("http", ctypes.POINTER(Http)),
        ("shard_bytes", ctypes.c_uint64),
        ("resume", ctypes.c_bool),
    ]


def inspect(
    path: Path,
    *,
    key: Optional[str] = None,
    stats: bool = False,
    headers_only: bool = False,
    threads: Optional[int] = None,
    headers: Sequence[str] = (),
    cacert: Optional[Path] = None,
    progress: Optional[Callable[[int, int], Any]] = None,
) -> Dict[str, Any]:
    """List the tensors of a model with checksums, as ``flmem aggregate inspect`` does.

    The GIL is released meanwhile.

    Args:
        path: a file of any format, a folder of shards, or an http:// or https:// address.
        key: of a PyTorch checkpoint, the dict that has the tensors.
        stats: also the smallest, largest and mean element, the norm, and how many are NaN.
        headers_only: reads no data: no checksums.
        threads: how many read and compute.
        headers, cacert, progress: as those of ``aggregate``.

    Returns:
        The object under ``models`` that ``flmem aggregate inspect --json`` prints.

    Raises:
        ValueError, PermissionError, OSError, RuntimeError: as ``aggregate``.
    """
    if stats and headers_only:
        raise ValueError("headers_only and stats exclude each other")
    request = _InspectRequest(
        path=needed_path(path),
        key=path_bytes(key),
        headers_only=headers_only,
        statistics=stats,
        http=ctypes.pointer(http_options(headers, cacert)),
        threads=whole("threads", threads),
    )
    found = call(
        ("flmem_inspect", "flmem_report_inspect_json", "flmem_inspection_clear"),
        request,
        lambda _request, result: [result, ctypes.c_size_t(1)],
        progress,
    )
    model: Dict[str, Any] = found["models"][0]
    return model


def diff(
    a: Path,
    b: Path,
    *,
    key: Optional[str] = None,
    tolerance: float = 0,
    threads: Optional[int] = None,
    headers: Sequence[str] = (),
    cacert: Optional[Path] = None,
    progress: Optional[Callable[[int, int], Any]] = None,
) -> Dict[str, Any]:
    """Compare two models tensor by tensor, as ``flmem aggregate diff`` does; the GIL is released.

    Args:
        a, b: as the path of ``inspect``.
        key: of PyTorch checkpoints, the dict that has the tensors.
        tolerance: differences of elements up to this do not count in ``exceeding``.
        threads: how many read and compute.
        headers, cacert, progress: as those of ``aggregate``.

    Returns:
        The object that ``flmem aggregate diff --json`` prints.

    Raises:
        ValueError, PermissionError, OSError, RuntimeError: as ``aggregate``.
    """
    request = _CompareRequest(
        paths=(ctypes.c_char_p * 2)(needed_path(a), needed_path(b)),
        key=path_bytes(key),
        tolerance=tolerance,
        http=ctypes.pointer(http_options(headers, cacert)),
        threads=whole("threads", threads),
    )
    return call(
        ("flmem_compare", "flmem_report_compare_json", "flmem_comparison_clear"),
        request,
        lambda pointer, result: [pointer, result],
        progress,
    )


def convert(
    path: Path,
    out: Path,
    *,
    dtype: Optional[str] = None,
    key: Optional[str] = None,
    shard_bytes: Optional[int] = None,
    resume: bool = False,
    headers: Sequence[str] = (),
    cacert: Optional[Path] = None,
    progress: Optional[Callable[[int, int], Any]] = None,
) -> Dict[str, Any]:
    """Write a model in another format or type, as ``flmem aggregate convert`` does; the GIL is released.

    Args:
        path: as that of ``inspect``.
        out: the file to write, whose suffix decides the format; it appears when it is complete.
        dtype: "bf16", "f16", "f32" or "f64": the type of all floating-point tensors.
        key: of a PyTorch checkpoint, the dict that has the tensors.
        shard_bytes: makes ``out`` a folder of shards with at most this many bytes of tensors each.
        resume: continues what an earlier call with the same arguments left.
        headers, cacert, progress: as those of ``aggregate``.

    Returns:
        The object that ``flmem aggregate convert --json`` prints.

    Raises:
        ValueError, PermissionError, OSError, RuntimeError: as ``aggregate``.
    """
    request = _ConvertRequest(
        input=needed_path(path),
        output=needed_path(out),
        key=path_bytes(key),
        dtype=None if dtype is None else dtype.upper().replace("FP", "F").encode(),
        http=ctypes.pointer(http_options(headers, cacert)),
        shard_bytes=whole("shard_bytes", shard_bytes, 2**63),
        resume=resume,
    )
    return call(
        ("flmem_convert", "flmem_report_convert_json", None),
        request,
        lambda pointer, result: [pointer, result],
        progress,
    )
