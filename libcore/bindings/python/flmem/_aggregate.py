# SPDX-License-Identifier: Apache-2.0
"""``flmem.aggregate``: averages models on disk with libflmem."""

import ctypes
import json
import os
import signal
import threading
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple, Union

from . import _library

__all__ = ["aggregate"]

Path = Union[str, "os.PathLike[str]"]

_EUSAGE, _EPERM = -2, -4  # flmem/error.h
_RESULT_WORDS = 128  # more than struct flmem_aggregate_result has; its contents are read as JSON
_NAN = ("reject", "skip-client", "propagate")
_NON_FLOAT = ("equal", "first", "round")


class _Progress(ctypes.Structure):
    """struct flmem_aggregate_progress of flmem/aggregate.h."""

    _fields_ = [
        ("done_bytes", ctypes.c_uint64),
        ("total_bytes", ctypes.c_uint64),
        ("elapsed_us", ctypes.c_uint64),
    ]


_Callback = ctypes.CFUNCTYPE(ctypes.c_bool, ctypes.c_void_p, ctypes.POINTER(_Progress))


class _Http(ctypes.Structure):
    """struct flmem_http_options of flmem/http.h."""

    _fields_ = [
        ("headers", ctypes.POINTER(ctypes.c_char_p)),
        ("header_count", ctypes.c_size_t),
        ("cacert", ctypes.c_char_p),
        ("retries", ctypes.c_uint),
        ("timeout_seconds", ctypes.c_uint),
    ]


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
        ("progress", _Callback),
        ("context", ctypes.c_void_p),
        ("key", ctypes.c_char_p),
        ("http", ctypes.POINTER(_Http)),
        ("shard_bytes", ctypes.c_uint64),
    ]


def _functions() -> ctypes.CDLL:
    library = _library.load()
    if library is None:
        raise RuntimeError("libflmem was not found; install flmem or set FLMEM_LIBRARY")
    try:
        library.flmem_aggregate.restype = ctypes.c_int
        library.flmem_report_aggregate_json.restype = ctypes.c_void_p
        library.flmem_aggregate_result_clear.restype = None
    except AttributeError as problem:
        raise RuntimeError(f"libflmem is too old for aggregate: {problem}") from problem
    return library


def _choice(name: str, value: str, choices: Sequence[str]) -> int:
    if value not in choices:
        raise ValueError(f"invalid {name} {value!r}; choose from {', '.join(choices)}")
    return list(choices).index(value)


def _path(value: Optional[Path]) -> Optional[bytes]:
    """Refuses a path with a NUL, as open() does: C would read a shorter path."""
    if value is None:
        return None
    path = os.fsencode(value)
    if b"\0" in path:
        raise ValueError("embedded null byte in a path")
    return path


def _real(value: Optional[float]) -> Any:
    return None if value is None else ctypes.pointer(ctypes.c_double(value))


def _http(headers: Sequence[str], cacert: Optional[Path]) -> Any:
    lines = [line.encode() for line in headers]
    return _Http(
        headers=(ctypes.c_char_p * len(lines))(*lines),
        header_count=len(lines),
        cacert=_path(cacert),
    )


def _raise(code: int, error: _library.Error) -> None:
    if code == _EUSAGE:
        raise ValueError(error.text())
    if code == _EPERM:
        raise PermissionError(error.sys_errno, error.text())
    raise OSError(error.sys_errno, error.text())


def _take_json(library: ctypes.CDLL, result: Any) -> Dict[str, Any]:
    text = library.flmem_report_aggregate_json(ctypes.byref(result))
    library.flmem_aggregate_result_clear(ctypes.byref(result))
    if not text:
        raise MemoryError("out of memory for the result")
    try:
        found: Dict[str, Any] = json.loads(ctypes.string_at(text))
    finally:
        release = ctypes.CDLL(None).free
        release.argtypes = [ctypes.c_void_p]
        release(text)
    return found


class _Signals:
    """Defers the handlers of signals, which run in the main thread, until `run`.

    Since CPython 3.11 a handler can run when a function is entered, so before its first `try`. What it
    raises at the start of a callback, for example KeyboardInterrupt, ctypes only prints.
    """

    def __init__(self) -> None:
        self._handlers: Dict[int, Any] = {}
        self._came: List[Tuple[int, Any]] = []

    def _note(self, number: int, frame: Any) -> None:
        self._came.append((number, frame))

    def run(self) -> None:
        """Calls the handlers of the signals that came; they may raise."""
        while self._came:
            number, frame = self._came.pop(0)
            self._handlers[number](number, frame)

    def __enter__(self) -> "_Signals":
        if threading.current_thread() is threading.main_thread():
            handlers = {number: signal.getsignal(number) for number in signal.valid_signals()}
            self._handlers = {number: handler for number, handler in handlers.items() if callable(handler)}
            for number in self._handlers:
                signal.signal(number, self._note)
        return self

    def __exit__(self, *_what: Any) -> None:
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        self.run()


class _Watcher:
    """Reports progress; an exception in it, also KeyboardInterrupt, stops the call, which then raises it."""

    def __init__(self, progress: Optional[Callable[[int, int], Any]], signals: _Signals) -> None:
        self.progress = progress
        self.signals = signals
        self.raised: List[BaseException] = []
        self.callback = _Callback(self._called)

    def _called(self, _context: Any, progress: Any) -> bool:
        try:
            self.signals.run()
            if self.progress is not None:
                answer = self.progress(progress.contents.done_bytes, progress.contents.total_bytes)
                return answer is not False
        except BaseException as problem:  # pylint: disable=broad-except
            self.raised.append(problem)
            return False
        return True


def aggregate(
    inputs: Sequence[Path],
    weights: Optional[Sequence[float]],
    out: Path,
    *,
    algorithm: str = "fedavg",
    trim: float = 0,
    base: Optional[Path] = None,
    clip_norm: float = 0,
    hostile: int = 0,
    keep: int = 0,
    state: Optional[Path] = None,
    server_rate: float = 0,
    beta1: Optional[float] = None,
    beta2: Optional[float] = None,
    tau: float = 0,
    nan: str = "reject",
    non_float: str = "equal",
    chunk_bytes: int = 0,
    threads: int = 0,
    resume: bool = False,
    key: Optional[str] = None,
    headers: Sequence[str] = (),
    cacert: Optional[Path] = None,
    shard_bytes: int = 0,
    progress: Optional[Callable[[int, int], Any]] = None,
) -> Dict[str, Any]:
    """Combine several models into one safetensors file, as ``flmem aggregate`` does.

    Memory stays at a few MiB for any size of model. The GIL is released meanwhile, so other threads
    go on. An interrupted call can be continued with ``resume=True``.

    Args:
        inputs: safetensors files, folders of shards with an index, PyTorch checkpoints, and http:// or
            https:// addresses of safetensors files.
        weights: one number per input, for example counts of samples; None: all equal.
        out: the file to write; it appears when it is complete.
        shard_bytes: makes ``out`` a folder of shards with at most so many bytes of tensors each.
        headers: "Name: value" each, sent to the hosts of addresses.
        progress: called about five times a second in the calling thread with the bytes that are done
            and all bytes; returns False to stop. What it raises stops the call, too.

    The other arguments are the options of the command of the same names; 0 and None stand for their
    defaults.

    Returns:
        The object that ``flmem aggregate --json`` prints.

    Raises:
        ValueError: invalid arguments; inputs that are no models, or differ.
        PermissionError: an input cannot be read, or the output cannot be written.
        OSError: a read or write failed, the disk is full, or the call was stopped.
        RuntimeError: libflmem is not there, or is too old.
    """
    library = _functions()
    signals = _Signals()
    watcher = _Watcher(progress, signals)
    paths = [_path(one) for one in inputs]
    if weights is not None and len(weights) != len(paths):
        raise ValueError(f"{len(weights)} weights for {len(paths)} inputs")
    for name, number in (("hostile", hostile), ("keep", keep), ("chunk_bytes", chunk_bytes), ("threads", threads)):
        if not 0 <= number < 2**31:  # ctypes would cut it
            raise ValueError(f"invalid {name} {number}")
    request = _Request(
        output=_path(out),
        inputs=(ctypes.c_char_p * len(paths))(*paths),
        input_count=len(paths),
        weights=None if weights is None else (ctypes.c_double * len(paths))(*weights),
        algorithm=algorithm.encode(),
        trim=trim,
        base=_path(base),
        clip_norm=clip_norm,
        hostile=hostile,
        keep=keep,
        state=_path(state),
        server_rate=server_rate,
        beta1=_real(beta1),
        beta2=_real(beta2),
        tau=tau,
        nan=_choice("nan", nan, _NAN),
        non_float=_choice("non_float", non_float, _NON_FLOAT),
        chunk_bytes=chunk_bytes,
        threads=threads,
        resume=resume,
        progress=watcher.callback,
        key=_path(key),
        shard_bytes=shard_bytes,
        http=ctypes.pointer(_http(headers, cacert)),
    )
    error = _library.Error()
    result = (ctypes.c_uint64 * _RESULT_WORDS)()
    try:
        with signals:
            code = library.flmem_aggregate(ctypes.byref(request), ctypes.byref(result), ctypes.byref(error))
        if watcher.raised:
            raise watcher.raised[0]
    except BaseException:
        library.flmem_aggregate_result_clear(ctypes.byref(result))
        raise
    if code != 0:
        _raise(code, error)
    return _take_json(library, result)
