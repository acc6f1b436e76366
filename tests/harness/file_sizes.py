# SPDX-License-Identifier: Apache-2.0
"""Sizes of files that another process creates, renames and removes meanwhile."""
import os


def size_of(path):
    """Bytes of the file; 0 where there is none."""
    try:
        return os.path.getsize(path)
    except FileNotFoundError:
        return 0
