# SPDX-License-Identifier: Apache-2.0
"""
Releases of NVFlare from the Python registry, each in a virtual environment of its own without
PyTorch, made the first time: $FLMEM_NVFLARES/VERSION, else ~/.cache/flmem/nvflares/VERSION.
"""
import os
import shutil
import subprocess

from . import skip

CACHE = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
MADE = os.environ.get("FLMEM_NVFLARES") or os.path.join(CACHE, "flmem", "nvflares")
PYTHONS = ("/usr/bin/python3", "python3")


def _last_line(done):
    lines = (done.stderr.strip() or done.stdout.strip() or "no output").splitlines()
    return lines[-1]


def _run(*words):
    return subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)


def _make(place, version):
    """Makes a release's environment; returns None, or why it cannot be made."""
    why = "no Python"
    for python in PYTHONS:
        if not shutil.which(python):
            continue
        shutil.rmtree(place, ignore_errors=True)
        done = _run(python, "-m", "venv", place)
        if not done.returncode:
            done = _run(os.path.join(place, "bin", "pip"), "install", "--quiet", f"nvflare=={version}")
        if not done.returncode:
            return None
        why = _last_line(done)
    shutil.rmtree(place, ignore_errors=True)
    return why


def environment(version):
    """Returns the bin directory of a release; ends the program as a skipped test where it cannot be
    had."""
    place = os.path.join(MADE, version)
    programs = os.path.join(place, "bin")
    if os.path.exists(os.path.join(place, "whole")):
        return programs
    os.makedirs(MADE, exist_ok=True)
    why = _make(place, version)
    if why:
        skip(f"nvflare=={version} cannot be had: {why}")
    with open(os.path.join(place, "whole"), "w", encoding="utf-8"):
        pass
    return programs
