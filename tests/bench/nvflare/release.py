# SPDX-License-Identifier: Apache-2.0
"""The release of NVFlare that the benchmarks run: from the Python registry, into ~/.cache/flmem, once.
It has the packages of the system's Python besides, PyTorch among them."""
import os
import subprocess
import sys

VERSION = "2.8.3"
HOME = os.path.expanduser(f"~/.cache/flmem/nvflare-{VERSION}")
PYTHON = os.path.join(HOME, "bin", "python")
SYSTEM_PYTHON = "/usr/bin/python3"


def install():
    if os.path.exists(PYTHON) and subprocess.run(
            [PYTHON, "-c", "import nvflare"], check=False, capture_output=True).returncode == 0:
        return
    print(f"installing NVFlare {VERSION} into {HOME}", file=sys.stderr)
    subprocess.run([SYSTEM_PYTHON, "-m", "venv", "--system-site-packages", HOME], check=True)
    subprocess.run([os.path.join(HOME, "bin", "pip"), "install", "--quiet", f"nvflare=={VERSION}"],
                   check=True)


def children(pid):
    """All descendants of a process, in no order."""
    parents = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat", encoding="utf-8", errors="replace") as file:
                parents[int(name)] = int(file.read().rpartition(")")[2].split()[1])
        except OSError:
            continue
    found, wanted = [], {pid}
    while wanted:
        wanted = {child for child, parent in parents.items() if parent in wanted} - set(found)
        found += wanted
    return found
