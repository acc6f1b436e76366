# SPDX-License-Identifier: Apache-2.0
"""
How far the estimates of flmem profile are from exact counts: programs that know what each of their sites has live at
the end and had live at the peak, sampled 20 times. Of the sites with 1 % of the heap or more, the largest error counts.
"""
import json
import os
import statistics
import subprocess
import tempfile

import figures
import stage

RUNS = 20
LIMIT_PERCENT = 5
# sys.argv has "COUNTxSIZE" for each site. After the peak half of each site is freed, of every third
# site all.
PROGRAM = """
import json, os, sys
kept, exact = {}, {}
names = {"kept": kept}
for number, word in enumerate(sys.argv[1:]):
    name = f"site_{number}"
    exec(f"def {name}(count, size):\\n    kept['{name}'] = [bytearray(size - 1) for _ in range(count)]\\n", names)
for number, word in enumerate(sys.argv[1:]):
    count, size = map(int, word.split("x"))
    names[f"site_{number}"](count, size)
    exact[f"site_{number}"] = [count * size, 0 if number % 3 == 2 else (count - count // 2) * size]
for number, name in enumerate(exact):
    del kept[name][:len(kept[name]) if number % 3 == 2 else len(kept[name]) // 2]
print(json.dumps(exact), flush=True)
os._exit(0)  # what is live stays in the file
"""
# Each Python object adds 56 bytes, in the arena of its line: at most 0.4 %.
BLOCKS = [f"{(64 << 20) // (16384 * (1 + number))}x{16384 * (1 + number)}" for number in range(8)]
# (name, sites, interval)
PROGRAMS = (
    ("tensors of 4 to 28 MiB", [f"{3 + number}x{(4 + number % 4 * 8) << 20}" for number in range(8)], "512KiB"),
    ("8 sites of 64 MiB in blocks of 16 to 128 KiB", BLOCKS, "512KiB"),
    ("8 sites of 64 MiB in blocks of 16 to 128 KiB", BLOCKS, "8KiB"),
)


def _measured(bench, path):
    """Returns site -> (peak, live)."""
    done = subprocess.run([bench.flmem, "profile", "summary", "--json", path], stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, check=True)
    found = {}
    for row in json.loads(done.stdout)["functions"]:
        # CPython before 3.12 has a frame for the list comprehension, called by the function of that
        # name.
        name = (row["frame"] or {}).get("function") or ""
        if name.startswith("site_") and "." not in name:
            found[name] = (row["total"]["peak_bytes"], row["total"]["live_bytes"])
    return found


def _errors(bench, folder, sites, interval):
    """Returns the signed error in percent of each site above 1 % of the heap: at the peak, live."""
    path = os.path.join(folder, "truth.prof")
    done = subprocess.run([bench.flmem, "profile", "run", "--force", "--interval", interval, "-o", path, "--",
                           stage.PYTHON, "-c", PROGRAM, *sites], stdout=subprocess.PIPE, check=True)
    exact, found = json.loads(done.stdout), _measured(bench, path)
    errors = []
    for which in range(2):
        heap = sum(row[which] for row in exact.values())
        errors.append([100 * (found.get(name, (0, 0))[which] / row[which] - 1) for name, row in exact.items()
                       if row[which] >= heap / 100])
    return errors


def truth(bench):
    """Samples each program; yields the worst run and the mean of all."""
    with tempfile.TemporaryDirectory() as folder:
        for what, sites, interval in PROGRAMS:
            stage.progress(f"truth: {what}, one sample per {interval}")
            runs = [_errors(bench, folder, sites, interval) for _ in range(bench.count(RUNS))]
            for which, name in enumerate(("at the peak", "live at the end")):
                errors = [error for run in runs for error in run[which]]
                yield figures.of_values(f"{what}, {interval}: error of a site {name}, largest of all",
                                        [max(map(abs, errors))], unit="%", limit=LIMIT_PERCENT)
                by_site = [statistics.mean(site) for site in zip(*(run[which] for run in runs))]
                yield figures.of_values(f"{what}, {interval}: mean of {len(runs)} runs of a site {name}, largest of all",
                                        [max(map(abs, by_site))], unit="%", limit=LIMIT_PERCENT)
                yield figures.of_values(f"{what}, {interval}: mean error {name}", [statistics.mean(errors)], unit="%")
