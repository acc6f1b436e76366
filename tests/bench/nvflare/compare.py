#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
Runs one NVFlare job whose clients grow, unchanged, in three ways: as it is, with NVFlare's own memory
management after every round, and with `flmem watch --auto` beside it. Prints what the clients' memory
did in each round, and with --docs DIRECTORY writes the plot and the table that docs/ shows. Exit
status 1 when a client under flmem watch --auto --gc holds more memory than with NVFlare's own means.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.dont_write_bytecode = True
sys.path.insert(0, HERE)

import plot  # noqa: E402
import release  # noqa: E402

MIB = 1 << 20
SKIPPED = 2  # rounds at the start, in which everything is loaded
TOLERANCE = 1.02  # two runs of memory_gc_rounds=1 differed by up to 1.9 %

# (name, NVFlare's own memory_gc_rounds, further options of flmem watch)
WAYS = (
    ("as it is", 0, []),
    ("memory_gc_rounds=1", 1, []),
    ("flmem watch --auto", 0, ["--auto"]),
    ("flmem watch --auto --gc", 0, ["--auto", "--gc"]),
)


def clients_of(directory):
    """Returns the pids of the simulated clients that work in this directory."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/cmdline", "rb") as file:
                words = file.read().split(b"\0")
        except OSError:
            continue
        if b"nvflare.private.fed.app.simulator.simulator_worker" in words and any(
                word.startswith(directory.encode()) for word in words):
            found.append(int(name))
    return sorted(found)


def wait_for_clients(job, directory):
    end = time.monotonic() + 300
    while time.monotonic() < end:
        found = clients_of(directory)
        if len(found) == 2:
            return found
        if job.poll() is not None:
            break
        time.sleep(0.1)
    raise release.Failed("the clients did not come up")


def watch(flmem, job, directory, rounds, more):
    """Returns all lines that flmem watch printed about the job."""
    pids = wait_for_clients(job, directory)
    logs = [os.path.join(directory, "growing", name, "log.txt")
            for name in ("server", "site-1", "site-2")]
    words = [flmem, "watch", "--pid", ",".join(map(str, pids)), "--json", "--interval", "100ms",
             *(word for log in logs for word in ("--log", log)),
             "--rounds", str(rounds - 1), *more]
    done = subprocess.run(words, check=False, capture_output=True, text=True, timeout=1800)
    if done.returncode:
        raise release.Failed(f"{' '.join(words)}: status {done.returncode}: {done.stderr}")
    return [json.loads(line) for line in done.stdout.splitlines()]


def run(flmem, gc_rounds, rounds, more):
    with release.running("job.py", rounds, gc_rounds) as job:
        lines = watch(flmem, job.process, job.directory, rounds, more)
        if job.process.wait(timeout=300):
            job.fail()
        return lines


def figures(lines):
    """Sums up the rounds after the first ones, for both clients together."""
    rounds = [line for line in lines if line["type"] == "round" and line["round"] >= SKIPPED]
    samples = [line["rss_bytes"] for line in lines
               if line["type"] == "sample" and (line["round"] or 0) >= SKIPPED]
    last = max(line["round"] for line in rounds)
    trend = lines[-1]["processes"][0]["trend"]
    growth = trend["growth_per_round_bytes"]
    actions = [line for line in lines if line["type"] == "action" and line["action"] == "trimmed"]
    return {
        "mean": statistics.mean(samples) / MIB,
        "trough": statistics.mean(line["trough_bytes"] for line in rounds) / MIB,
        "peak": max(line["peak_bytes"] for line in rounds) / MIB,
        "last": max(line["trough_bytes"] for line in rounds if line["round"] == last) / MIB,
        "growth": None if growth is None else growth / MIB,
        "verdict": trend["verdict"],
        "forecast_s": trend["exhausted_in_s"],
        "trims": len(actions),
        "stopped_ms": max((line["stopped_us"] or 0 for line in actions), default=0) / 1000,
    }


def curve(lines):
    """Returns the curve of the first client, from the start of the watch."""
    pid = lines[0]["pid"]
    return [(line["elapsed_ms"] / 1000, line["rss_bytes"] / MIB) for line in lines
            if line["type"] == "sample" and line["pid"] == pid]


COLUMNS = (
    ("way", "Run", "{}"),
    ("verdict", "Trend", "{}"),
    ("growth", "Growth per round", "{:+.1f} MiB"),
    ("trough", "After a round, mean", "{:.0f} MiB"),
    ("last", "After the last round", "{:.0f} MiB"),
    ("mean", "Mean", "{:.0f} MiB"),
    ("peak", "Highest", "{:.0f} MiB"),
    ("trims", "Trims", "{}"),
    ("stopped_ms", "Longest stop of a thread", "{:.1f} ms"),
)


def cell(row, key, form):
    return "-" if row[key] is None else form.format(row[key])


def table(rows):
    yield "| " + " | ".join(title for _, title, _ in COLUMNS) + " |"
    yield "|---|---|" + "---:|" * (len(COLUMNS) - 2)
    for row in rows:
        yield "| " + " | ".join(cell(row, key, form) for key, _, form in COLUMNS) + " |"


def write_docs(directory, rows, curves):
    page = os.path.join(directory, "nvflare-auto.md")
    begin, end = "<!-- figures -->\n", "<!-- end of figures -->\n"
    with open(os.path.join(directory, "nvflare-auto.svg"), "w", encoding="utf-8") as file:
        file.write(plot.svg(curves))
    with open(page, encoding="utf-8") as file:
        before, rest = file.read().split(begin)
    with open(page, "w", encoding="utf-8") as file:
        file.write(before + begin + "\n" + "\n".join(table(rows)) + "\n\n" + end +
                   rest.split(end)[1])


def options():
    parser = argparse.ArgumentParser(description="Compares flmem watch --auto with NVFlare's own "
                                     "memory management; about two minutes a way.")
    parser.add_argument("flmem", help="the built command, for example build/release/cli/flmem")
    parser.add_argument("--rounds", type=int, default=12, metavar="N")
    parser.add_argument("--docs", metavar="DIRECTORY", help="renew the page and the plot there")
    parser.add_argument("--json", metavar="FILE", help="write all figures there")
    return parser.parse_args()


def main():
    chosen = options()
    rows, curves = [], {}
    release.install()
    for name, gc_rounds, more in WAYS:
        print(f"running: {name}", file=sys.stderr, flush=True)
        lines = run(os.path.abspath(chosen.flmem), gc_rounds, chosen.rounds, more)
        rows.append({"way": name, **figures(lines)})
        curves[name] = curve(lines)
    print("\n".join(table(rows)))
    if chosen.json:
        with open(chosen.json, "w", encoding="utf-8") as file:
            json.dump({"nvflare": release.VERSION, "rows": rows, "curves": curves}, file)
    if chosen.docs:
        write_docs(chosen.docs, rows, curves)
    own, ours = rows[1], rows[3]
    worse = [key for key in ("trough", "last", "peak") if ours[key] > own[key] * TOLERANCE]
    for key in worse:
        print(f"{key}: {ours[key]:.1f} MiB with flmem, {own[key]:.1f} MiB with memory_gc_rounds=1")
    return 1 if worse else 0


if __name__ == "__main__":
    sys.exit(main())
