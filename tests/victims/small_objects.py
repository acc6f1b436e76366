# SPDX-License-Identifier: Apache-2.0
"""A CPython with many small objects, most of them freed again; it prints what sys._debugmallocstats
reports, and waits. Runs under 2.7 to 3.15."""
import gc
import os
import sys
import time


def main():
    objects = [(str(i), float(i), [i]) for i in range(200000)]
    objects = objects[::7]
    gc.collect()
    if hasattr(sys, "_debugmallocstats"):
        sys._debugmallocstats()
    sys.stderr.flush()
    os.write(1, b"ready\n")
    time.sleep(1000)
    return objects


main()
