# SPDX-License-Identifier: Apache-2.0
"""
Trims every kind of target over and over and checks after each call that the target is unharmed.

usage: matrix.py BUILD [--trims N] [--groups blocked,busy,linked,traps,pythons,code]
                 [--allocators glibc,jemalloc,tcmalloc,mimalloc] [--jobs N] [--together N]
                 [--code-trims N] [--behind] [--starved] [--row]

N is the number of trims altogether; each target gets its share, at least two. Trims with Python code
take a hundred times as long as others: with --code-trims each target of these gets so many of them,
and the others share the rest. An allocator may also be the path of a library to preload. Most of the
time passes in waits (for refusals, for rounds of a target), so --jobs runs several batches of targets
at the same time; a batch has --together targets, of which many compute all the time. --behind gives those a
tenth of what flmem and the tests beside it get of the processors: flmem finds their moments sooner. --starved gives
flmem itself a fiftieth of one processor, as a machine does that is far too busy. --row
prints the figures as a row of docs/soak.md, too, and the progress meanwhile.
"""
import argparse
import collections
import contextlib
import functools
import os
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

from harness import command, report, skip, starved, victim  # noqa: E402
import entries  # noqa: E402
import trimming  # noqa: E402

GROUPS = ("blocked", "busy", "linked", "traps", "pythons", "code")
TOGETHER = 10  # number of victims that run at the same time, by default
STARVED = 0.02  # share of one processor


def share(usable, options):
    """Returns [(entries, trims of each)]; entries that run Python code are separate if they have
    their own number."""
    coded = [entry for entry in usable if entry.code] if options.code_trims else []
    others = [entry for entry in usable if entry not in coded]
    left = options.trims - options.code_trims * len(coded)
    return [(some, trims) for some, trims in (
        (others, max(2, -(-left // max(1, len(others))))), (coded, options.code_trims)) if some]


def figures_of(flmem, batch, trims):
    return [tally.figures() for tally in trimming.run_batch(flmem, batch, trims)]


def run_batches(flmem, shares, options):
    """Runs all entries, `options.jobs` batches at a time; returns their tallies."""
    batches = [(some[start:start + options.together], trims) for some, trims in shares
               for start in range(0, len(some), options.together)]
    actions = [functools.partial(figures_of, flmem, *batch) for batch in batches]
    tallies, count = [], sum(len(batch) for batch, _ in batches)
    for (batch, _), results in zip(batches, trimming.run_beside(actions, options.jobs)):
        tallies += [trimming.Tally.of(entry, figures) for entry, figures in zip(batch, results)]
        if options.row:
            print(f"{len(tallies)} of {count} kinds of target", flush=True)
    return tallies


def exiting(flmem, victims, count):
    """Trims targets that end by themselves at any moment of the call."""
    entry = entries.Entry("exits meanwhile", [], expect=entries.EITHER, statuses=(3, 5, 6))
    tally = trimming.Tally(entry)
    for number in range(count):
        argv = [os.path.join(victims, "safe_threads"), "-c", "2", "-i", "2", "-x",
                str(1 + 7 * number % 60)]
        with victim.Victim(argv) as target:
            trim = flmem.trim(target.pid)
            tally.add(trim)
            if not trim.touched and trim.status not in entry.statuses:
                tally.problems.append(f"refused with status {trim.status}: {trim.reason}")
            status = target.process.wait(timeout=victim.PROGRESS_S)
            if status != 0 or target.page.failures:
                tally.problems.append(f"it ended with {status}: {target.page.first_failure}")
    return tally


def choose(groups, victims, allocators):
    chosen = []
    if "blocked" in groups:
        chosen += entries.blocked(victims, allocators)
    if "busy" in groups:
        chosen += entries.busy(victims, allocators)
    if "linked" in groups:
        chosen += entries.linked(victims)
    if "traps" in groups:
        chosen += entries.traps(victims, allocators)
    if "pythons" in groups:
        chosen += entries.pythons()
    if "code" in groups:
        chosen += entries.code()
    return chosen


def show(tallies, missing):
    rows = []
    for tally in tallies:
        problems = tally.verdict()
        rows.append((tally.entry.name, tally.entry.allocator, tally.entry.expect,
                     tally.outcomes["trimmed"], tally.outcomes["released"],
                     tally.outcomes["refused"], len(problems),
                     next(iter(tally.reasons), "")[:90]))
    report.table(("target", "allocator", "expected", "trimmed", "released", "refused", "problems",
                  "first reason of a refusal"), rows)
    for tally in tallies:
        if tally.no_room:
            print(f"SKIP: {tally.entry.name}, {tally.entry.allocator}: {tally.no_room}")
        for problem in tally.verdict()[:5]:
            print(f"PROBLEM: {tally.entry.name}, {tally.entry.allocator}: {problem}")
    for entry in missing:
        print(f"SKIP: {entry.name}, {entry.allocator}: {entry.missing}")


def print_row(total, kinds, bad):
    """Returns the first row of the table in docs/soak.md."""
    made, refused = total["trimmed"], total["refused"]
    found = "no problem" if not bad else f"{bad} problems"
    print(f"| trims | {time.strftime('%d %b')} | {made + refused:,} trims of {kinds} kinds of target | {made:,} made "
          f"({total['released']:,} of them returned memory), {refused:,} refused, because they must be "
          f"or because no thread was idle; {found} |")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build")
    parser.add_argument("--trims", type=int, default=0)
    parser.add_argument("--groups", default=",".join(GROUPS))
    parser.add_argument("--allocators", default=",".join(entries.ALLOCATORS))
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--together", type=int, default=TOGETHER)
    parser.add_argument("--code-trims", type=int, default=0)
    parser.add_argument("--behind", action="store_true")
    parser.add_argument("--starved", action="store_true")
    parser.add_argument("--row", action="store_true")
    options = parser.parse_args()
    victim.end_at_signals()
    flmem = command.Flmem(options.build)
    flmem.require("trim")
    groups = options.groups.split(",")
    victims = os.path.join(os.path.abspath(options.build), "tests", "victims")
    chosen = choose(groups, victims, options.allocators.split(","))
    if not chosen:
        skip("no such group")
    usable = [entry for entry in chosen if not entry.missing]
    for entry in usable:
        entry.behind = options.behind and entry.computes
    shares = share(usable, options)
    with starved.share(STARVED) if options.starved else contextlib.nullcontext(()) as flmem.wrapper:
        tallies = run_batches(flmem, shares, options)
        if "busy" in groups:
            tallies.append(exiting(flmem, victims, max(10, shares[0][1])))
    show(tallies, [entry for entry in chosen if entry.missing])
    total = collections.Counter()
    for tally in tallies:
        total.update(tally.outcomes)
    bad = sum(len(tally.verdict()) for tally in tallies)
    if options.row:
        print_row(total, len(tallies), bad)
    print(f"{total['trimmed'] + total['refused']} trims of {len(tallies)} targets: "
          f"{total['released']} released memory, {total['refused']} were refused, {bad} problems")
    hopeful = any(tally.entry.expect == entries.TRIM for tally in tallies)
    if hopeful and not total["released"]:
        print("PROBLEM: nothing was released anywhere; this proves nothing")
        bad += 1
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
