#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
check_sampled.py PROFILE OUTPUT [exact|SIGMAS]: holds a profile against what the victim `sampled` says
that it allocated. With SIGMAS a site's estimate may be off by that many standard deviations: with
512 KiB between samples and blocks of `size` bytes, that of n blocks has variance
n * size^2 * (1 - p) / p, p = 1 - exp(-size / interval).
"""
import math
import sys
from collections import defaultdict

from heap_profile import UNIT, Profile


def read_sites(path):
    """Returns [(address, name, allocated, live, count)], by address."""
    with open(path, encoding="ascii") as file:
        rows = [line.split()[1:] for line in file if line.startswith("site ")]
    return sorted((int(at, 16), name, int(allocated), int(live), int(count))
                  for name, at, allocated, live, count in rows)


def name_of(sites, address):
    below = [row for row in sites if row[0] <= address]
    return below[-1][1] if below and below[-1][1] != "end" else None


def measured(profile, sites):
    """Returns name -> [allocated, live, count]."""
    found = defaultdict(lambda: [0, 0, 0])
    for site in profile.sites.values():
        stack = profile.stack(site.node)
        name = name_of(sites, stack[0][0]) if stack and len(stack[0]) == 2 else None
        if name:
            found[name][0] += site.allocated_bytes
            found[name][1] += profile.live_bytes(site)
            found[name][2] += site.allocated_count / UNIT
    return found


def deviation(total, count, interval):
    if not count:
        return 0
    p = -math.expm1(-total / count / interval)
    return math.sqrt(count * (1 - p) / p) * total / count


def main():
    profile = Profile(sys.argv[1])
    sites = read_sites(sys.argv[2])
    sigmas = 0 if sys.argv[3] == "exact" else float(sys.argv[3])
    found = measured(profile, sites)
    interval = profile.interval_bytes << profile.paced
    profile.check()
    checked, wrong = 0, []
    for _, name, allocated, live, count in sites:
        if not allocated:
            continue
        checked += 1
        share = live / allocated
        for what, expected, got in (("allocated", allocated, found[name][0]),
                                    ("live", live, found[name][1]),
                                    ("count", count, found[name][2])):
            if what == "count" and not count:
                continue
            spread = deviation(allocated, count, interval) * sigmas
            if what == "live":
                spread = deviation(live, count * share, interval) * sigmas
            if what == "count":
                spread *= count / allocated
            print(f"{name} {what}: {got:.0f}, expected {expected} +- {spread:.0f}")
            if abs(got - expected) > max(spread, count * 0.002 if what == "count" else 0):
                wrong.append(f"{name} {what}")
    assert checked, "the victim names no site"
    assert not wrong, wrong


if __name__ == "__main__":
    main()
