# SPDX-License-Identifier: Apache-2.0
"""CRC-32C by libflmem, where that is installed: the standard library has another polynomial."""

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
        """Continues the checksum of what came before."""
        if not view.nbytes:
            return crc
        # The argument itself: a cast would not keep a copy alive during the call.
        found: int = self._update(crc, _readable(view), view.nbytes)
        return found

    def join(self, first: int, second: int, length: int) -> int:
        """The checksum of two pieces; `length` is that of the second."""
        found: int = self._join(first, second, length)
        return found


def header(crc: int) -> str:
    """A checksum as tus has it."""
    return "crc32c " + base64.b64encode(crc.to_bytes(4, "big")).decode()


def find() -> Optional[Crc32c]:
    """None where there is no library, or an older one."""
    library = _library.load(quietly=True)
    try:
        return None if library is None else Crc32c(library)
    except AttributeError:
        return None
