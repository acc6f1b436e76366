# SPDX-License-Identifier: Apache-2.0
"""Memory clean-up of the calling process, under the names and signatures of NVFlare.

``from flmem import cleanup_memory`` replaces
``from nvflare.fuel.utils.memory_utils import cleanup_memory``; so do ``get_allocator_type`` and
``try_malloc_trim``. ``install`` replaces them inside NVFlare itself. The work on the allocator is done
by libflmem, which differs from NVFlare's own functions in two ways: the allocator is the one that
malloc reaches, whatever else is loaded, and jemalloc, tcmalloc and mimalloc are asked to return
memory instead of being left to their own policy. docs/guides/library.md lists every difference.

If libflmem is missing, only ``aggregate``, ``inspect``, ``diff`` and ``convert`` raise: that is logged
once, by the logger "flmem", and the other functions do what they can without it.
"""

import gc
import importlib
import logging
import sys
from types import ModuleType
from typing import Optional

from . import _library, _nvflare
from ._aggregate import aggregate
from ._models import convert, diff, inspect

__all__ = [
    "Installer",
    "aggregate",
    "allocator_name",
    "cleanup_memory",
    "convert",
    "diff",
    "get_allocator_type",
    "inspect",
    "install",
    "try_malloc_trim",
]

_logger = logging.getLogger("flmem")


def __getattr__(name: str) -> ModuleType:
    """Load ``flmem.exchange`` on first use: nothing else needs it."""
    if name == "exchange":
        return importlib.import_module(".exchange", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def allocator_name() -> str:
    """Name the allocator that malloc of this process reaches.

    Returns:
        "glibc", "jemalloc", "tcmalloc", "mimalloc" or another of the names that ``flmem detect``
        prints; "unknown" when it is unknown or libflmem is missing. The result is looked
        up once and remembered.
    """
    library = _library.load()
    if library is None:
        return "unknown"
    name = library.flmem_allocator_name(library.flmem_get_allocator_type())
    return name.decode("ascii") if name else "unknown"


def get_allocator_type() -> str:
    """Return which of the allocators that NVFlare supports is in use.

    Returns:
        "glibc", "jemalloc" or "unknown". NVFlare's contract has these three values, and programs
        branch on them, so every other allocator is "unknown" here: in particular tcmalloc and
        mimalloc are not "glibc", for malloc_trim does nothing for them. ``allocator_name``
        distinguishes them.
    """
    name = allocator_name()
    return name if name in ("glibc", "jemalloc") else "unknown"


def try_malloc_trim() -> Optional[int]:
    """Call glibc's malloc_trim(0).

    Returns:
        1 if memory was given back, 0 if there was none to give, None if malloc of this process is
        not glibc's or libflmem is not there.
    """
    library = _library.load()
    if library is None:
        return None
    released = library.flmem_try_malloc_trim()
    return released if released >= 0 else None


def cleanup_memory(cuda_empty_cache: bool = False) -> None:
    """Return unused memory to the operating system.

    Runs Python's garbage collector, then asks the allocator to release what it only retains
    (glibc: malloc_trim; jemalloc: this thread's cache is flushed and all arenas are purged;
    tcmalloc and mimalloc: their own release calls).

    Args:
        cuda_empty_cache: also empty the caches of device memory: PyTorch's, CuPy's default pools
            on the current device, and CUDA's own stream-ordered pools. Does nothing in a process
            that has not imported the library or not started CUDA: it has no such cache, and
            finding out otherwise would take more memory than it frees.
    """
    freed = gc.collect()
    if freed > 0:
        _logger.info("gc.collect() freed %d unreachable objects", freed)
    if cuda_empty_cache:
        _empty_cuda_cache()
        _empty_cupy_pools()
    _release_heap(_library.CLEANUP_CUDA if cuda_empty_cache else 0)


def _release_heap(flags: int) -> None:
    library = _library.load()
    if library is None:
        return
    error = _library.Error()
    if library.flmem_cleanup_memory_with(flags, None, _library.byref(error)) != 0:
        _logger.debug("not all memory was released: %s", error.text())
    else:
        _logger.debug("%s was asked to release memory", allocator_name())


def _empty_cuda_cache() -> None:
    torch = sys.modules.get("torch")
    if torch is None:
        return
    try:
        if torch.cuda.is_available() and torch.cuda.is_initialized():
            torch.cuda.empty_cache()
            _logger.debug("torch.cuda.empty_cache() called")
    except Exception as problem:  # pylint: disable=broad-except; a clean-up never ends a job
        _logger.debug("cuda.empty_cache failed: %s", problem)


def _empty_cupy_pools() -> None:
    cupy = sys.modules.get("cupy")
    if cupy is None:
        return
    try:
        pool = cupy.get_default_memory_pool()
        if pool.total_bytes() > pool.used_bytes():  # so CUDA has been started
            pool.free_all_blocks()
        pinned = cupy.get_default_pinned_memory_pool()
        if pinned.n_free_blocks() > 0:
            pinned.free_all_blocks()
    except Exception as problem:  # pylint: disable=broad-except; a clean-up never ends a job
        _logger.debug("free_all_blocks of CuPy failed: %s", problem)


def install() -> bool:
    """Replace the three functions inside NVFlare, so that its own calls in this process use them.

    Call it once, before training: in the client's script for the trainer, and as the component
    ``Installer`` of a job for the server and the client's job process. Modules of NVFlare that
    have imported the functions already get them, too.

    Returns:
        True if NVFlare uses the functions of this module now; False, which is logged, if there is
        no NVFlare of 2.7.2 or later, or no libflmem: NVFlare's own functions then stay.
    """
    if _library.load() is None:
        return False
    return _nvflare.replace((cleanup_memory, get_allocator_type, try_malloc_trim))


class Installer:  # pylint: disable=too-few-public-methods; NVFlare only makes it
    """A component for a job: {"id": "flmem", "path": "flmem.Installer"} calls ``install``."""

    def __init__(self) -> None:
        self.installed = install()
