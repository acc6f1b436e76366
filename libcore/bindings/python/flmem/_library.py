# SPDX-License-Identifier: Apache-2.0
"""Finds and loads libflmem, once per process."""

import ctypes
import glob
import logging
import os
import shutil
import threading
from ctypes import byref
from typing import Iterator, List, Optional

__all__ = ["Error", "byref", "load"]

_NAME = "libflmem.so.0"
_MESSAGE_MAX = 512  # FLMEM_ERROR_MESSAGE_MAX of flmem/error.h

_logger = logging.getLogger("flmem")
_lock = threading.Lock()
_library: Optional[ctypes.CDLL] = None
_tried = False


CLEANUP_CUDA = 1  # enum flmem_cleanup of flmem/own_process.h


class Error(ctypes.Structure):
    """struct flmem_error of flmem/error.h."""

    _fields_ = [
        ("code", ctypes.c_int),
        ("sys_errno", ctypes.c_int),
        ("message", ctypes.c_char * _MESSAGE_MAX),
    ]

    def text(self) -> str:
        """Returns the message as text."""
        return self.message.decode("utf-8", "backslashreplace")


def _is_sanitized(path: str) -> bool:
    """Reports whether a library was built with AddressSanitizer, which ends a process that loads it
    after other libraries."""
    with open(path, "rb") as file:
        return b"__asan_init" in file.read()


def _newest_build(tree: str) -> Iterator[str]:
    """Yields the library of the source tree's newest build that any process can load, if there is
    one."""
    found = glob.glob(os.path.join(glob.escape(tree), "build", "*", "libcore", _NAME))
    try:
        for path in sorted(found, key=os.path.getmtime, reverse=True):
            if not _is_sanitized(path):
                yield path
                return
    except OSError as problem:  # a build that is being replaced
        _logger.debug("the builds of %s were passed over: %s", tree, problem)


def _near_command() -> Iterator[str]:
    """Yields the library of the installed command, for a module in a virtual environment."""
    command = shutil.which("flmem")
    if command:
        prefix = os.path.dirname(os.path.dirname(os.path.realpath(command)))
        yield from glob.glob(os.path.join(glob.escape(prefix), "lib", _NAME))
        yield from glob.glob(os.path.join(glob.escape(prefix), "lib", "*", _NAME))


def _candidates() -> Iterator[str]:
    """Yields names for dlopen, best first.

    When FLMEM_LIBRARY is set, nothing else is tried. ``make install`` writes _install.py with the
    place of the library. Without it this is a source tree or a virtual environment: the libraries
    that the dynamic linker finds and that belong to the command ``flmem`` come before the tree's
    own builds, which may be older than the module.
    """
    chosen = os.environ.get("FLMEM_LIBRARY")
    if chosen:
        yield chosen
        return
    here = os.path.dirname(os.path.abspath(__file__))
    try:
        from ._install import LIBRARY_DIRECTORY
    except ImportError:
        yield _NAME
        yield from _near_command()
        yield from _newest_build(os.path.normpath(os.path.join(here, "..", "..", "..", "..")))
        return
    near = os.path.normpath(os.path.join(here, LIBRARY_DIRECTORY, _NAME))
    if os.path.exists(near):
        yield near
    yield _NAME


def _declare(library: ctypes.CDLL) -> None:
    library.flmem_get_allocator_type.argtypes = []
    library.flmem_get_allocator_type.restype = ctypes.c_int
    library.flmem_allocator_name.argtypes = [ctypes.c_int]
    library.flmem_allocator_name.restype = ctypes.c_char_p
    library.flmem_try_malloc_trim.argtypes = []
    library.flmem_try_malloc_trim.restype = ctypes.c_int
    library.flmem_cleanup_memory_with.argtypes = [
        ctypes.c_uint, ctypes.POINTER(ctypes.c_uint64), ctypes.POINTER(Error)]
    library.flmem_cleanup_memory_with.restype = ctypes.c_int


def _open(quietly: bool) -> Optional[ctypes.CDLL]:
    problems: List[str] = []
    for name in _candidates():
        try:
            library = ctypes.CDLL(name)
            _declare(library)
            return library
        except (OSError, AttributeError) as problem:
            problems.append(str(problem))
    _logger.log(
        logging.DEBUG if quietly else logging.WARNING,
        "%s is not there, so the allocator stays as it is; install flmem or set FLMEM_LIBRARY (%s)",
        _NAME,
        "; ".join(problems),
    )
    return None


def load(quietly: bool = False) -> Optional[ctypes.CDLL]:
    """Returns the library, or None when it cannot be loaded, which the first call logs.

    With `quietly` nothing is logged, and a later call without it still logs the failure.
    """
    global _library, _tried  # pylint: disable=global-statement
    if not _tried:
        with _lock:
            if not _tried:
                _library = _open(quietly)
                _tried = _library is not None or not quietly
    return _library
