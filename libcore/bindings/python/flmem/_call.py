# SPDX-License-Identifier: Apache-2.0
"""Parts that all calls of libflmem on models share: progress, signals, errors, the result as
JSON."""

import ctypes
import json
import os
import signal
import threading
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple, Union

from . import _library

__all__ = ["Callback", "Http", "Path", "call", "http_options", "needed_path", "path_bytes", "whole"]

Path = Union[str, "os.PathLike[str]"]

_EUSAGE, _EPERM = -2, -4  # flmem/error.h
_RESULT_WORDS = 128  # more than any result has; the contents are only read as JSON


class _Progress(ctypes.Structure):
    """struct flmem_aggregate_progress of flmem/aggregate.h."""

    _fields_ = [
        ("done_bytes", ctypes.c_uint64),
        ("total_bytes", ctypes.c_uint64),
        ("elapsed_us", ctypes.c_uint64),
    ]


Callback = ctypes.CFUNCTYPE(ctypes.c_bool, ctypes.c_void_p, ctypes.POINTER(_Progress))


class Http(ctypes.Structure):
    """struct flmem_http_options of flmem/http.h."""

    _fields_ = [
        ("headers", ctypes.POINTER(ctypes.c_char_p)),
        ("header_count", ctypes.c_size_t),
        ("cacert", ctypes.c_char_p),
        ("retries", ctypes.c_uint),
        ("timeout_seconds", ctypes.c_uint),
    ]


def path_bytes(value: Optional[Path]) -> Optional[bytes]:
    """Refuses a path with a NUL, as open() does: C would read a shorter path."""
    if value is None:
        return None
    path = os.fsencode(value)
    if b"\0" in path:
        raise ValueError("embedded null byte in a path")
    return path


def needed_path(value: Path) -> bytes:
    """Refuses None, which is a null pointer to C."""
    path = path_bytes(value)
    if path is None:
        raise TypeError("a path is needed, not None")
    return path


def whole(name: str, value: Optional[int], limit: int = 2**31) -> int:
    """Refuses 0, which the library takes for its default but a caller does not mean so."""
    if value is None:
        return 0
    if not 0 < value < limit:  # ctypes would truncate a larger one
        raise ValueError(f"invalid {name} {value}; expected 1 or more, or None for the default")
    return value


def http_options(headers: Sequence[str], cacert: Optional[Path]) -> Any:
    if isinstance(headers, (str, bytes)):
        raise TypeError("headers is a list of lines, not one line")
    lines = [line.encode() for line in headers]
    if any(b"\0" in line for line in lines):
        raise ValueError("embedded null byte in a header")
    return Http(
        headers=(ctypes.c_char_p * len(lines))(*lines),
        header_count=len(lines),
        cacert=path_bytes(cacert),
    )


def _raise(code: int, error: _library.Error) -> None:
    if code == _EUSAGE:
        raise ValueError(error.text())
    kind = PermissionError if code == _EPERM else OSError
    if error.sys_errno:
        raise kind(error.sys_errno, error.text())
    raise kind(error.text())  # with a message alone, so that it does not begin with "[Errno 0]"


def _take_json(text: Optional[int]) -> Dict[str, Any]:
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

    Since CPython 3.11 a handler can run when a function is entered, so before its first `try`.
    ctypes only prints an exception that a handler raises there in a callback, such as
    KeyboardInterrupt.
    """

    def __init__(self) -> None:
        self._handlers: Dict[int, Any] = {}
        self._came: List[Tuple[int, Any]] = []

    def _note(self, number: int, frame: Any) -> None:
        self._came.append((number, frame))

    def run(self) -> None:
        """Calls the handlers of the signals that arrived; they may raise."""
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
    """Reports progress. An exception in the callback, also KeyboardInterrupt, stops the call, which
    then raises it."""

    def __init__(self, progress: Optional[Callable[[int, int], Any]], signals: _Signals) -> None:
        self.progress = progress
        self.signals = signals
        self.raised: List[BaseException] = []
        self.callback = Callback(self._called)

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


def _library_with(names: Sequence[str]) -> ctypes.CDLL:
    library = _library.load()
    if library is None:
        raise RuntimeError("libflmem was not found; install flmem or set FLMEM_LIBRARY")
    for name in names:
        try:
            getattr(library, name)
        except AttributeError as problem:
            raise RuntimeError(f"libflmem is too old for {names[0][len('flmem_'):]}: {problem}") from problem
    return library


def call(
    names: Tuple[str, str, Optional[str]],
    request: Any,
    arguments: Callable[[Any, Any], Sequence[Any]],
    progress: Optional[Callable[[int, int], Any]],
) -> Dict[str, Any]:
    """Makes a call with the GIL released and returns its result.

    Args:
        names: the function, the one that makes JSON of its result, and the one that frees what the
            result owns, or None.
        request: the function's structure; this call sets the field ``progress``.
        arguments: makes the second function's arguments of pointers to the request and the result.
    """
    if progress is not None and not callable(progress):
        raise TypeError("progress is a function, or None")
    library = _library_with([name for name in names if name])
    signals = _Signals()
    watcher = _Watcher(progress, signals)
    request.progress = watcher.callback
    error = _library.Error()
    result = (ctypes.c_uint64 * _RESULT_WORDS)()
    function, report = getattr(library, names[0]), getattr(library, names[1])
    report.restype = ctypes.c_void_p
    try:
        with signals:
            code = function(ctypes.byref(request), ctypes.byref(result), ctypes.byref(error))
        if watcher.raised:
            raise watcher.raised[0]
        if code != 0:
            _raise(code, error)
        return _take_json(report(*arguments(ctypes.byref(request), ctypes.byref(result))))
    finally:
        if names[2]:
            getattr(library, names[2])(ctypes.byref(result))
