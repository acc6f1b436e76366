# SPDX-License-Identifier: Apache-2.0
"""
One model from server to client ("pull") and from client to server ("push") by `flmem exchange`, by the client in Python,
and by the frameworks' own transfer, in turn in the same run: time, and the peak of the processes that send and receive.
"""
import os
import signal
import subprocess
import sys
import tempfile

import figures
import stage
import transfer_ways as ways
from harness import report

SIZES_MIB = (256, 1024)
PEAK_MIB = 64
HEADINGS = ["way", "direction", "median", "MB/s", "peak of sender", "in models", "peak of receiver", "in models",
            "between"]


def _write_models(folder, mib):
    """Makes two different models, so that the published one cannot be mistaken for the sent one."""
    paths = ways.Models(*(os.path.join(folder, f"{name}-{mib}.safetensors") for name in ways.Models._fields))
    for seed, path in enumerate(paths):
        subprocess.run([stage.PYTHON, "-B", os.path.join(ways.HERE, "peer.py"), path, str(mib), str(seed)], check=True)
    return paths


def _measure(present, folder, mib, rounds):
    """Returns lists of measurements, by way and direction."""
    found = {}
    models = _write_models(folder, mib)
    for number in range(rounds):
        for way in present:
            for direction in ways.DIRECTIONS:
                stage.progress(f"transfer: {mib} MiB, round {number + 1}, {way.name}, {direction}")
                with tempfile.TemporaryDirectory(dir=folder) as own:
                    found.setdefault((way.name, direction), []).append(way.move(direction, models, own))
    for path in models:
        os.unlink(path)
    return found


def _line(name, direction, moved, mib):
    """Returns a row of the table, of medians."""
    seconds, *peaks = (report.median(values) for values in zip(*moved))
    cells = [cell for peak in peaks[:2] for cell in (f"{peak / figures.MIB:.0f} MiB", f"{peak / figures.MIB / mib:.2f}")]
    return [name, direction, f"{seconds:.2f} s", f"{mib * figures.MIB / 1e6 / seconds:.0f}", *cells,
            f"{peaks[2] / figures.MIB:.0f} MiB" if peaks[2] else ""]


def _rows(found, mib):
    """Yields the times of all ways, and what is expected of flmem."""
    for (name, direction), moved in found.items():
        own = name == "flmem, command"
        yield figures.of_values(f"{direction}, {mib} MiB, {name}", [one.seconds for one in moved], unit="s")
        for what in ("sender", "receiver"):
            limited = {"limit": PEAK_MIB} if own else {}
            yield figures.of_values(f"its peak, {what}", [getattr(one, what) / figures.MIB for one in moved], unit="MiB",
                                    **limited)
    for direction in ways.DIRECTIONS:
        others = {name: report.median([one.seconds for one in moved]) for (name, way), moved in found.items()
                  if way == direction and not name.startswith("flmem")}
        own_ways = [name for (name, way) in found if way == direction and name.startswith("flmem")]
        if others:
            fastest = min(others, key=others.get)
            for own in own_ways:
                yield figures.ratio(f"{direction}, {mib} MiB: {fastest}, the fastest framework / {own}",
                                    [one.seconds for one in found[fastest, direction]],
                                    [one.seconds for one in found[own, direction]], limit=1)


def transfer(bench):
    """Yields rows, after a table that shows them side by side."""
    # so that all started processes end
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    all_ways = [way for way in ways.all_ways(bench) if not bench.ways or way.framework in bench.ways]
    absent = {way.name: how for way in all_ways if (how := way.absent())}
    for name, how in absent.items():
        stage.progress(f"transfer: {name} is NOT INSTALLED and not measured; install it with: {how}")
    for mib in bench.sizes or SIZES_MIB:
        with ways.place() as folder:
            found = _measure([way for way in all_ways if way.name not in absent], folder, mib, bench.count(3))
        print(f"transfer of {mib} MiB of float32, medians of {bench.count(3)}; load average {os.getloadavg()[0]:.1f}")
        lines = [_line(name, direction, moved, mib) for (name, direction), moved in found.items()]
        report.table(HEADINGS, sorted(lines, key=lambda line: ways.DIRECTIONS.index(line[1]))
                     + [[name, "NOT INSTALLED", *[""] * (len(HEADINGS) - 2)] for name in absent])
        yield from _rows(found, mib)
