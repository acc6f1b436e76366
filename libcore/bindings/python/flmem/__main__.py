# SPDX-License-Identifier: Apache-2.0
"""``python -m flmem`` runs the command ``flmem`` that was installed with this module."""

import os
import shutil
import sys
import sysconfig
from typing import Iterator


def _places() -> Iterator[str]:
    """Yields the paths where the command can be, best first: beside libflmem, among this Python's
    scripts, in PATH."""
    here = os.path.dirname(os.path.abspath(__file__))
    try:
        from ._install import LIBRARY_DIRECTORY
    except ImportError:
        pass
    else:
        library = os.path.normpath(os.path.join(here, LIBRARY_DIRECTORY))
        for prefix in (os.path.dirname(library), os.path.dirname(os.path.dirname(library))):
            yield os.path.join(prefix, "bin", "flmem")
    yield os.path.join(sysconfig.get_path("scripts"), "flmem")
    yield shutil.which("flmem") or ""


def main() -> int:
    """Replaces this process by the command; returns only if there is none."""
    for place in _places():
        if os.access(place, os.X_OK):
            try:
                os.execv(place, ["flmem", *sys.argv[1:]])
            except OSError as problem:  # built for another processor or C library
                sys.stderr.write(f"flmem: cannot run '{place}': {problem.strerror}\n")
                return 126
    sys.stderr.write(
        "flmem: the command is not installed with this module; install the package or put the "
        "command in PATH\n"
    )
    return 127


if __name__ == "__main__":
    sys.exit(main())
