# SPDX-License-Identifier: Apache-2.0
"""A control group whose processes get a small share of the processors, as on a machine that is far
too busy."""
import contextlib
import os
import time

from . import skip

PERIOD_US = 100000
# Places of the processor controller: version 1, which has its own tree, and version 2.
PLACES = (("/sys/fs/cgroup/cpu", "cpu.cfs_quota_us", "{quota}"), ("/sys/fs/cgroup", "cpu.max", "{quota} {period}"))
ENTER = 'echo $$ >"$0/cgroup.procs" && exec "$@"'


def own_group(place):
    """Returns the group of this process below a tree, or the tree itself."""
    with open("/proc/self/cgroup", encoding="ascii") as lines:
        for line in lines:
            _, controllers, path = line.rstrip("\n").split(":", 2)
            if os.path.basename(place) in controllers.split(",") or place == "/sys/fs/cgroup" and not controllers:
                return place + path
    return place


def limit(group, file, text):
    with open(os.path.join(group, file), "w", encoding="ascii") as opened:
        opened.write(text)


def remove(group):
    """Removes the group; killed processes in it may take a moment to end."""
    for _ in range(100):
        with contextlib.suppress(OSError):
            os.rmdir(group)
            return
        time.sleep(0.1)


@contextlib.contextmanager
def share(part):
    """Yields the words in front of a command that gets this part of one processor. Skips where
    there is no such group."""
    for place, file, text in PLACES:
        group = os.path.join(own_group(place), f"flmem-starved-{os.getpid()}")
        try:
            os.mkdir(group)
        except OSError:
            continue
        try:
            if os.path.exists(os.path.join(group, file)):
                limit(group, file, text.format(quota=int(part * PERIOD_US), period=PERIOD_US))
                yield ("/bin/sh", "-c", ENTER, group)
                return
        finally:
            remove(group)
    skip("needs control groups of processor time that may be written")
