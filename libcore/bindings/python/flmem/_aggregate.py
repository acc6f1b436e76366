# SPDX-License-Identifier: Apache-2.0
"""``flmem.aggregate``: averages models on disk with libflmem."""

import ctypes
import os
from typing import Any, Callable, Dict, Mapping, Optional, Sequence

from ._call import Callback, Http, Path, call, http_options, needed_path, path_bytes, whole

__all__ = ["aggregate", "check_numbers"]

_NAN = ("reject", "skip-client", "propagate")
_NON_FLOAT = ("equal", "first", "round")


class _Request(ctypes.Structure):
    """struct flmem_aggregate_request of flmem/aggregate.h."""

    _fields_ = [
        ("output", ctypes.c_char_p),
        ("inputs", ctypes.POINTER(ctypes.c_char_p)),
        ("input_count", ctypes.c_size_t),
        ("weights", ctypes.POINTER(ctypes.c_double)),
        ("algorithm", ctypes.c_char_p),
        ("trim", ctypes.c_double),
        ("base", ctypes.c_char_p),
        ("clip_norm", ctypes.c_double),
        ("hostile", ctypes.c_size_t),
        ("keep", ctypes.c_size_t),
        ("state", ctypes.c_char_p),
        ("server_rate", ctypes.c_double),
        ("beta1", ctypes.POINTER(ctypes.c_double)),
        ("beta2", ctypes.POINTER(ctypes.c_double)),
        ("tau", ctypes.c_double),
        ("nan", ctypes.c_int),
        ("non_float", ctypes.c_int),
        ("chunk_bytes", ctypes.c_uint64),
        ("threads", ctypes.c_uint),
        ("resume", ctypes.c_bool),
        ("progress", Callback),
        ("context", ctypes.c_void_p),
        ("key", ctypes.c_char_p),
        ("http", ctypes.POINTER(Http)),
        ("shard_bytes", ctypes.c_uint64),
        ("mpi", ctypes.c_bool),
    ]


def _choice(name: str, value: str, choices: Sequence[str]) -> int:
    if value not in choices:
        raise ValueError(f"invalid {name} {value!r}; choose from {', '.join(choices)}")
    return list(choices).index(value)


def _real(value: Optional[float]) -> Any:
    return None if value is None else ctypes.pointer(ctypes.c_double(value))


def _positive(name: str, value: Optional[float]) -> float:
    """Refuses 0, which the library takes for its default but a caller does not mean so."""
    if value is None:
        return 0
    if value == 0:
        raise ValueError(f"invalid {name} {value}; expected more than 0, or None for the default")
    return value


def check_numbers(options: Mapping[str, Any]) -> None:
    """Refuses invalid options at once, not when all updates have arrived and are averaged."""
    for name in ("trim", "clip_norm"):
        _positive(name, options.get(name))
    for name in ("hostile", "keep"):
        whole(name, options.get(name))


def aggregate(
    inputs: Sequence[Path],
    weights: Optional[Sequence[float]],
    out: Path,
    *,
    algorithm: str = "fedavg",
    trim: Optional[float] = None,
    base: Optional[Path] = None,
    clip_norm: Optional[float] = None,
    hostile: Optional[int] = None,
    keep: Optional[int] = None,
    state: Optional[Path] = None,
    server_rate: Optional[float] = None,
    beta1: Optional[float] = None,
    beta2: Optional[float] = None,
    tau: Optional[float] = None,
    nan: str = "reject",
    non_float: str = "equal",
    chunk_bytes: Optional[int] = None,
    threads: Optional[int] = None,
    resume: bool = False,
    key: Optional[str] = None,
    headers: Sequence[str] = (),
    cacert: Optional[Path] = None,
    shard_bytes: Optional[int] = None,
    progress: Optional[Callable[[int, int], Any]] = None,
) -> Dict[str, Any]:
    """Combine several models into one safetensors file, as ``flmem aggregate`` does.

    Memory stays at a few MiB for any size of model. The GIL is released meanwhile, so other threads
    go on. An interrupted call can be continued with ``resume=True``.

    Args:
        inputs: safetensors files, folders of shards with an index, PyTorch checkpoints, NumPy archives,
            and http:// or https:// addresses of such files.
        weights: one number per input, for example counts of samples; None: all equal.
        out: the file to write; it appears when it is complete.
        shard_bytes: makes ``out`` a folder of shards with at most this many bytes of tensors each.
        headers: "Name: value" each, sent to the hosts of addresses.
        progress: called about five times a second in the calling thread with the bytes that are done
            and all bytes; returns False to stop. What it raises stops the call, too.

    The other arguments are the options of the command of the same names; None stands for their defaults.

    Returns:
        The object that ``flmem aggregate --json`` prints.

    Raises:
        ValueError: invalid arguments; inputs that are not models, or differ.
        PermissionError: an input cannot be read, or the output cannot be written.
        OSError: a read or write failed, the disk is full, or the call was stopped.
        RuntimeError: libflmem is not there, or is too old.
    """
    if isinstance(inputs, (str, bytes, os.PathLike)):
        raise TypeError("inputs is a list of paths, not one path")
    paths = [needed_path(one) for one in inputs]
    if weights is not None and len(weights) != len(paths):
        raise ValueError(f"{len(weights)} weights for {len(paths)} inputs")
    request = _Request(
        output=needed_path(out),
        inputs=(ctypes.c_char_p * len(paths))(*paths),
        input_count=len(paths),
        weights=None if weights is None else (ctypes.c_double * len(paths))(*weights),
        algorithm=algorithm.encode(),
        trim=_positive("trim", trim),
        base=path_bytes(base),
        clip_norm=_positive("clip_norm", clip_norm),
        hostile=whole("hostile", hostile),
        keep=whole("keep", keep),
        state=path_bytes(state),
        server_rate=_positive("server_rate", server_rate),
        beta1=_real(beta1),
        beta2=_real(beta2),
        tau=_positive("tau", tau),
        nan=_choice("nan", nan, _NAN),
        non_float=_choice("non_float", non_float, _NON_FLOAT),
        chunk_bytes=whole("chunk_bytes", chunk_bytes),
        threads=whole("threads", threads),
        resume=resume,
        key=path_bytes(key),
        shard_bytes=whole("shard_bytes", shard_bytes, 2**63),
        http=ctypes.pointer(http_options(headers, cacert)),
    )
    return call(
        ("flmem_aggregate", "flmem_report_aggregate_json", "flmem_aggregate_result_clear"),
        request,
        lambda _request, result: [result],
        progress,
    )
