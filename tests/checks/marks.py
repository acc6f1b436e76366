# SPDX-License-Identifier: Apache-2.0
"""Remembers files that have passed a check, so that they are not checked again: empty files named
by a hash of everything that the result depends on."""
import hashlib
import os
import subprocess
import time

UNUSED_S = 90 * 86400


def directory_of(check):
    """Returns the folder of a check's marks, shared by all clones of a user; removes marks that
    were unused for months."""
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    directory = os.path.join(home, "flmem", check)
    try:
        os.makedirs(directory, exist_ok=True)
        for mark in os.scandir(directory):
            if time.time() - mark.stat().st_mtime > UNUSED_S:
                os.unlink(mark.path)
    except OSError:
        pass
    return directory


def version_of(*command):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    return done.stdout


def content(top, name):
    with open(os.path.join(top, name), "rb") as file:
        return file.read()


class Marks:
    """The marks of a tree's files for one check. COMMON: bytes that every result depends on,
    too."""

    def __init__(self, check, top, common):
        self.directory, self.top = directory_of(check), top
        self.common = b"".join(hashlib.sha256(part).digest() for part in common)

    def _path(self, name):
        digest = hashlib.sha256(self.common + os.fsencode(name) + b"\0" + content(self.top, name))
        return os.path.join(self.directory, digest.hexdigest())

    def missing(self, names):
        """Returns the files that have not passed in their present state."""
        found = []
        for name in names:
            try:
                os.utime(self._path(name))
            except OSError:
                found.append(name)
        return found

    def put(self, names):
        for name in names:
            try:
                with open(self._path(name), "w", encoding="ascii"):
                    pass
            except OSError:
                return
