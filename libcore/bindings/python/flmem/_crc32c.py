# SPDX-License-Identifier: Apache-2.0
"""CRC-32C by libflmem, if it is installed: the standard library has only another polynomial."""

import base64
import ctypes
from typing import Any, Optional

from . import _library

__all__ = ["Crc32c", "find", "header"]


def _readable(view: memoryview) -> Any:
    if view.readonly:
        return view.tobytes()
    return (ctypes.c_char * view.nbytes).from_buffer(view)


class Crc32c:
    """The two functions of the library."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self._update, self._join = library.flmem_exchange_crc32c, library.flmem_exchange_crc32c_join
        self._update.argtypes = [ctypes.c_uint32, ctypes.c_void_p, ctypes.c_size_t]
        self._join.argtypes = [ctypes.c_uint32, ctypes.c_uint32, ctypes.c_uint64]
        self._update.restype = self._join.restype = ctypes.c_uint32

    def update(self, crc: int, view: memoryview) -> int:
        """Continues the checksum `crc` of the bytes before with those of `view`."""
        if not view.nbytes:
            return crc
        # The pointer must be the argument itself: a cast would not keep a copy alive during the
        # call.
        found: int = self._update(crc, _readable(view), view.nbytes)
        return found

    def join(self, first: int, second: int, length: int) -> int:
        """Returns the checksum of two joined pieces; `length` is that of the second."""
        found: int = self._join(first, second, length)
        return found


def header(crc: int) -> str:
    """Returns a checksum in the form of tus's header."""
    return "crc32c " + base64.b64encode(crc.to_bytes(4, "big")).decode()


def find() -> Optional[Crc32c]:
    """Returns the functions; None if there is no library, or an older one."""
    library = _library.load(quietly=True)
    try:
        return None if library is None else Crc32c(library)
    except AttributeError:
        return None
