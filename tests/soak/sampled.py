#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
The targets of matrix.py under the sampler. Each one is used in two ways:

run     started by `flmem profile run` and trimmed as in matrix.py; then its profile is read, and has samples
attach  `flmem profile attach`, a trim, `detach`, over and over: after each of them the entries of its tables are
        as before. What the sampler cannot be loaded into has to be refused each time, with the reason

usage: sampled.py BUILD [--groups blocked,busy,linked,traps,pythons,code] [--allocators glibc,...]
                  [--ways run,attach] [--trims N] [--cycles N] [--jobs N] [--short] [--behind] [--progress]

N trims of each target that was started by the sampler, N cycles of each that is attached to. --short: of the
targets that are one program in one state only one, with an allocator and a Python that takes turns; what computes
with Python or PyTorch is not attached to. safety.attach is on every Python.
"""
import argparse
import collections
import functools
import json
import os
import shutil
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, ".."))

from harness import command, got, heap_profile, proc, report, skip, victim  # noqa: E402
import entries  # noqa: E402
import matrix  # noqa: E402
import trimming  # noqa: E402

# small, so that every target has samples and the file is soon full
INTERVAL, LIMIT = "8KiB", "1MiB"
SAMPLE_S = 120  # a bound, not a measurement
ATTACH_TIMEOUTS = {entries.TRIM: "60s", entries.EITHER: "2s", entries.REFUSE: "400ms"}
DETACH_TIMEOUT = "60s"
QUIET = 3  # number of checks without samples that show the end of a late order's code
NOT_STARTED = "did not load the sampler"
NOT_SAMPLED, UNSAFE, LATE = 5, 6, 7
MAPPING = 1  # kind of a site


def read_profile(flmem, path):
    """Returns (samples, "") as flmem reads them, or (None, the reason why it cannot)."""
    status, said, errors, _ = flmem.run("profile", "stats", "--json", path)
    if status:
        return None, f"status {status}: {errors.strip()}"
    profile = heap_profile.Profile(path)
    if profile.update_begin == profile.update_end:  # it was not killed in the middle of an update
        profile.check()
    samples = json.loads(said)["profile"]["samples"]
    return samples, "" if samples == profile.samples else f"{samples} samples, not {profile.samples}"


def profile_problems(flmem, path, entry):
    """Checks a profile that `profile run` made, after the end of the target."""
    samples, why = read_profile(flmem, path)
    if entry.unloaded:
        return [] if NOT_STARTED in why else [f"{entry.unloaded}, but its profile: {why or samples}"]
    if why:
        return [f"its profile is not readable: {why}"]
    if entry.unseen:
        kinds = {site.kind for site in heap_profile.Profile(path).sites.values()}
        return [f"{entry.unseen}, but it was sampled"] if kinds - {MAPPING} else []
    return [] if samples else ["nothing was sampled"]


class Preloaded(trimming.Running):
    """A target started by `flmem profile run`."""

    def __init__(self, entry, flmem, folder):
        self.flmem = flmem
        self.profile = os.path.join(folder, "p.prof")
        super().__init__(entry)

    def start(self):
        return self.entry.start((self.flmem.path, "profile", "run", "-o", self.profile, "--interval",
                                 INTERVAL, "--limit", LIMIT, "--"))


def gate_pages(rows):
    """Returns the pages of the gate for forks (libcore/ops/profile/fork_gate.h): code, then
    data."""
    ends = [[int(number, 16) for number in row[0].rpartition("-")[::2]] if "-" in row[0] else [0, 0] for row in rows]
    found = []
    for at, (code, data) in enumerate(zip(rows, rows[1:])):
        is_gate = code[1:] == ("r-xp", "") and data[1:] == ("rw-p", "") and ends[at][1] == ends[at + 1][0]
        if is_gate and all(end - start == 4096 for start, end in ends[at:at + 2]):
            found += [code, data]
    return found


class Apart(proc.Snapshot):
    """The sampler's library and the gate stay mapped; got.check() finds whether anything else
    does."""

    def _mappings(self):
        rows = proc.mappings(self.pid)
        known = [row for row in rows if got.is_sampler(row[2])] + gate_pages(rows)
        self.mappings = [row for row in self.mappings if row not in known] + known
        return super()._mappings()


class Attached(trimming.Running):
    """A target that is sampled and not sampled, in turns."""

    snapshot = Apart

    def __init__(self, entry, flmem, folder):
        self.flmem = flmem
        self.profile = os.path.join(folder, "p.prof")
        super().__init__(entry)
        self.files = {}
        self.before = None if entry.attach == entries.REFUSE else self.tables().state()

    def tables(self):
        return got.Process(self.victim.pid, self.files)

    def order(self, verb, timeout, *more):
        status, said, errors, _ = self.flmem.run(
            "profile", verb, "--json", "--pid", str(self.victim.pid), "--timeout", timeout, *more)
        try:
            return status, json.loads(said).get("reason") or ""
        except json.JSONDecodeError:
            return status, errors.strip() or said

    def attach(self):
        """Attaches; returns whether the target is sampled now. A refusal must be an expected
        one."""
        entry, tally = self.entry, self.tally
        status, reason = self.order("attach", ATTACH_TIMEOUTS[entry.attach], "-o", self.profile, "--force", "--interval",
                                    INTERVAL, "--limit", LIMIT)
        tally.outcomes["attached" if status == 0 else "attach refused"] += 1
        if status == 0:
            if entry.attach == entries.REFUSE:
                tally.problems.append("attached to, must be refused")
            return True
        tally.reasons[reason] += 1
        if status not in entry.attach_statuses or entry.attach_says not in reason:
            tally.problems.append(f"attach: status {status}: {reason}")
        if status == LATE:
            self.settle()
        return entry.attach != entries.REFUSE and self.is_sampled()

    def is_sampled(self):
        return bool(got.redirected(self.tables()))

    def settle(self):
        """Waits for code that did not end in time and may still run."""
        until = time.monotonic() + SAMPLE_S
        quiet = 0
        while quiet < QUIET and time.monotonic() < until:
            quiet = quiet + 1 if self.order("detach", DETACH_TIMEOUT)[0] == NOT_SAMPLED else 0
            time.sleep(0.02)

    def await_sample(self):
        """Checks that allocations are seen from now on."""
        until = time.monotonic() + SAMPLE_S
        while not heap_profile.count_samples(self.profile):
            if time.monotonic() > until or not proc.is_alive(self.victim.pid):
                self.tally.problems.append("it is attached to, and nothing is sampled")
                return
            time.sleep(0.01)

    def detach(self):
        """Detaches. Code that could not be ended in time is ended later; then nothing of it is
        left."""
        status, reason = self.order("detach", DETACH_TIMEOUT)
        if status == LATE:
            self.settle()
        elif status == UNSAFE and self.entry.attach == entries.EITHER:
            self.tally.outcomes["left attached"] += 1  # the next cycle continues with it
            return
        elif status:
            self.tally.problems.append(f"detach: status {status}: {reason}")
            return
        self.tally.outcomes["detached"] += 1
        wrong = got.check(self.tables(), self.before)
        _, why = read_profile(self.flmem, self.profile)
        self.tally.problems += [text for text in (wrong, why) if text]

    def end_none(self):
        """Checks detach on a target that is not sampled."""
        status, reason = self.order("detach", trimming.CODE_TIMEOUT)
        if status != self.entry.detach_status:
            self.tally.problems.append(f"detach of one that is not sampled: {status}: {reason}")

    def cycle(self):
        held = self.entry.setup.startswith(("stop", "trace"))
        before = None if held else Apart(self.victim.pid, False, self.entry.own_mask)
        if self.attach():
            self.await_sample()
            self.trim(self.flmem)
            self.detach()
        else:
            self.end_none()
        if before:
            self.tally.problems += self.victim.problems() + before.changes()


def times(count, entry, options):
    """The short form waits only once for the moments of a target that computes."""
    is_slow = entry.computes and entries.TRIM not in (entry.expect, entry.attach)
    return 1 if options.short and is_slow else count


def refuse_to_start(flmem, entry, folder):
    """Checks a target whose dynamic linker, of another C library, the sampler would end."""
    tally = trimming.Tally(entry)
    try:
        Preloaded(entry, flmem, folder).victim.close()
    except RuntimeError as error:
        if "the sampler is built for" in str(error):
            tally.outcomes["not started"] += 1
            return tally
        raise
    tally.problems.append(f"it starts, although {entry.unstarted}")
    return tally


def run_preloaded(flmem, entry, folder, options):
    if entry.unstarted:
        return refuse_to_start(flmem, entry, folder)
    one = Preloaded(entry, flmem, folder)
    try:
        for _ in range(times(options.trims, entry, options)):
            trimming.guarded(one, lambda: one.trim(flmem))
        trimming.guarded(one, lambda: one.trim_once(flmem))
        trimming.guarded(one, one.finish)
    finally:
        one.close()
        one.victim.close()
    one.tally.problems = one.tally.verdict() + profile_problems(flmem, one.profile, entry)
    return one.tally


def run_attached(flmem, entry, folder, options):
    one = Attached(entry, flmem, folder)
    try:
        for _ in range(times(options.cycles, entry, options)):
            trimming.guarded(one, one.cycle)
        trimming.guarded(one, one.finish)
    finally:
        one.close()
        one.victim.close()
    if entry.attach == entries.TRIM:
        one.tally.problems = one.tally.verdict()
        if not one.tally.outcomes["attached"]:
            one.tally.problems.append("never attached to: " + "; ".join(one.tally.reasons))
    return one.tally


WAYS = {"run": run_preloaded, "attach": run_attached}


def use(flmem, way, entry, options):
    """Returns the figures of one target in one way."""
    folder = tempfile.mkdtemp(prefix="flmem-sampled-")
    try:
        tally = WAYS[way](flmem, entry, folder, options)
    except (RuntimeError, OSError, proc.Gone, AssertionError) as error:
        tally = trimming.Tally(entry)
        tally.problems.append(f"{type(error).__name__}: {error}")
    finally:
        shutil.rmtree(folder)
    return tally.figures()


def kind(way, entry):
    """Returns the kind of a target: targets of one kind differ only in allocator, Python or
    wait."""
    program = [os.path.basename(word) for word in entry.argv if os.path.basename(word).startswith("safe_")]
    if entry.code or "torch" in entry.argv:
        return program, entry.argv[-1]  # in one of the ways
    if way == "attach" and entry.attach == entries.REFUSE:
        return way, entry.setup, entry.attach_says, entry.unstarted or entry.unloaded
    return way, program, entry.expect, entry.setup


def shorten(work):
    """Returns one target of each kind; which one changes, so that allocators and Pythons have their
    turns."""
    kinds = collections.defaultdict(list)
    for way, entry in work:
        # Targets that compute take long to find their moments; PyTorch has 300 libraries.
        if way == "run" or not (entry.code and entry.computes or "torch" in entry.argv):
            kinds[repr(kind(way, entry))].append((way, entry))
    return [found[number % len(found)] for number, found in enumerate(kinds.values())]


def choose(options):
    """Returns ([(way, target)], the targets that cannot be used)."""
    victims = os.path.join(os.path.abspath(options.build), "tests", "victims")
    chosen = matrix.choose(options.groups.split(","), victims, options.allocators.split(","))
    work = [(way, entry) for way in options.ways.split(",") for entry in chosen
            if not entry.missing and (way != "attach" or os.uname().machine == "x86_64")]
    for _, entry in work:
        entry.behind = options.behind and entry.computes
    return shorten(work) if options.short else work, [entry for entry in chosen if entry.missing]


def show(rows, missing):
    report.table(("target", "allocator", "way", "trimmed", "refused", "attached", "attach refused",
                  "problems", "first reason of a refusal"),
                 [(tally.entry.name, tally.entry.allocator, way, tally.outcomes["trimmed"],
                   tally.outcomes["refused"], tally.outcomes["attached"],
                   tally.outcomes["attach refused"], len(tally.problems),
                   next(iter(tally.reasons), "")[:90]) for way, tally in rows])
    for way, tally in rows:
        why = tally.entry.unstarted or tally.entry.unloaded or tally.entry.unseen
        if why and way == "run":
            print(f"NOT SAMPLED: {tally.entry.name}: {why}")
        for problem in tally.problems[:5]:
            print(f"PROBLEM: {tally.entry.name}, {tally.entry.allocator}, {way}: {problem}")
    for entry in missing:
        print(f"SKIP: {entry.name}, {entry.allocator}: {entry.missing}")


def run_all(flmem, work, options):
    """Returns [(way, tally)]."""
    actions = [functools.partial(use, flmem, way, entry, options) for way, entry in work]
    rows = []
    for (way, entry), figures in zip(work, trimming.run_beside(actions, options.jobs)):
        rows.append((way, trimming.Tally.of(entry, figures)))
        if options.progress:
            print(f"{len(rows)} of {len(work)}: {entry.name}, {entry.allocator}, {way}", flush=True)
    return rows


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build")
    parser.add_argument("--groups", default=",".join(matrix.GROUPS))
    parser.add_argument("--allocators", default=",".join(entries.ALLOCATORS))
    parser.add_argument("--ways", default=",".join(WAYS))
    parser.add_argument("--trims", type=int, default=2)
    parser.add_argument("--cycles", type=int, default=2)
    parser.add_argument("--jobs", type=int, default=4)
    parser.add_argument("--short", action="store_true")
    parser.add_argument("--behind", action="store_true")
    parser.add_argument("--progress", action="store_true")
    options = parser.parse_args()
    victim.end_at_signals()
    flmem = command.Flmem(options.build)
    work, missing = choose(options)
    if not work:
        skip("no such group or way")
    rows = run_all(flmem, work, options)
    show(rows, missing)
    total = collections.Counter()
    for _, tally in rows:
        total.update(tally.outcomes)
    bad = sum(len(tally.problems) for _, tally in rows)
    print(f"{len(rows)} targets: {total['trimmed'] + total['refused']} trims ({total['released']} released "
          f"memory, {total['refused']} refused), attached to {total['attached']} times and refused "
          f"{total['attach refused']} times, {bad} problems")
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
