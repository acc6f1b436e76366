# SPDX-License-Identifier: Apache-2.0
"""
Plants faults in the code that protects targets, one at a time, and checks that a test notices each.

usage: run.py BUILD [--quick] [--only NAME ...] [--jobs N] [--list | --tests]

BUILD must be up to date, with its tests. --quick: only faults in code that touches other processes,
and that unit tests notice at once.
--list: the faults; --tests: the tests that have to notice them. Both plant nothing.
Every named test has to pass without a fault first. Exit status 1 when a fault survived, was not
found in the source, did not compile, or named a test that does not pass.
"""
import argparse
import collections
import multiprocessing
import os
import shutil
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(HERE, ".."))
sys.path.insert(0, HERE)

from harness import report, skip  # noqa: E402
import faults  # noqa: E402
import shadow  # noqa: E402
from tables import FAULTS  # noqa: E402

LIMIT_S = 120  # limit of a test; one that hangs with a fault has noticed it
LOG_LINES = 15

KILLED, SURVIVED, STALE, BROKEN, SKIPPED = "killed", "SURVIVED", "STALE", "BROKEN", "skipped"
BAD = (SURVIVED, STALE, BROKEN)

Outcome = collections.namedtuple("Outcome", "name result by seconds")
worker = None  # the Shadow of each process of the pool


def start_worker(build, tests, directory):
    global worker  # pylint: disable=global-statement
    shadow.become_subreaper()
    worker = shadow.Shadow(build, ROOT, shadow.new_folder(directory), tests)


def run_clean(test):
    """Returns (test, result without a fault, the end of its output)."""
    try:
        worker.link_clean(test)
        result, text, _ = worker.run(test, 10 * LIMIT_S)
    except shadow.Failure as error:
        result, text = "failed", str(error)
    return test, result, "\n".join(text.splitlines()[-LOG_LINES:])


def try_tests(fault, clean):
    """Returns (result, the test that noticed the fault, or why none did)."""
    changed = worker.compile(fault)
    usable = [test for test in fault.tests if clean[test] in ("passed", "partly")]
    for test in usable:
        worker.link(test, changed)
        result, _, _ = worker.run(test, LIMIT_S, hasty=True)
        if result in ("failed", "time limit"):
            return KILLED, test if result == "failed" else f"{test}, {result}"
    # A test case that is skipped here (by a sanitised build, say) may be the one that notices the
    # fault.
    missing = [f"{test} {clean[test]}" for test in fault.tests if clean[test] != "passed"]
    if missing:
        return SKIPPED, ", ".join(missing)
    return SURVIVED, "none of " + ", ".join(fault.tests)


def try_fault(task):
    fault, clean = task
    started = time.monotonic()
    try:
        result, by = try_tests(fault, clean)
    except faults.Stale as error:
        result, by = STALE, str(error)
    except shadow.Failure as error:
        result, by = BROKEN, str(error)
    return Outcome(fault.name, result, by, round(time.monotonic() - started, 1))


def choose(options):
    chosen = [f for f in FAULTS if not options.only or f.name in options.only]
    unknown = set(options.only or ()) - {f.name for f in FAULTS}
    if unknown:
        raise SystemExit(f"run.py: no fault '{unknown.pop()}'; --list names them")
    return [f.hastened() for f in chosen if f.quick] if options.quick else chosen


def work(options, chosen, directory):
    """Returns (outcomes, tests that failed without a fault)."""
    tests = shadow.read_tests(options.build)
    named = sorted({test for fault in chosen for test in fault.tests})
    outcomes, broken = [], []
    with multiprocessing.Pool(options.jobs, start_worker,
                              (options.build, tests, directory)) as pool:
        clean = {}
        for test, result, text in pool.imap_unordered(run_clean, named):
            clean[test] = result
            if result in ("failed", "time limit"):
                broken.append(test)
                print(f"{test} fails without a fault:\n{text}", flush=True)
            elif result == "skipped":
                print(f"SKIP: {test}: {text.splitlines()[-1] if text else ''}", flush=True)
        for outcome in pool.imap_unordered(try_fault, [(fault, clean) for fault in chosen]):
            outcomes.append(outcome)
            print(f"{outcome.result:8}  {outcome.name}: {outcome.by}", flush=True)
        pool.close()
        pool.join()
    return outcomes, broken


def parse_options():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("build")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", nargs="+")
    parser.add_argument("--jobs", type=int)
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--tests", action="store_true")
    options = parser.parse_args()
    options.build = os.path.realpath(options.build)
    # The tests that notice the quick faults mostly wait.
    options.jobs = options.jobs or len(os.sched_getaffinity(0)) + 2 * options.quick
    return options


def main():
    options = parse_options()
    if options.tests:
        named = {test.partition("/")[0] for fault in choose(options) for test in fault.tests}
        print("\n".join(sorted(named)))
        return
    wrong = faults.check(FAULTS, ROOT)
    if wrong:
        raise SystemExit("\n".join(wrong))
    chosen = choose(options)
    if options.list:
        for fault in chosen:
            print(f"{fault.name}: {fault.file}: {fault.removes}")
        return
    if os.uname().machine != "x86_64":
        skip("threads are not borrowed on this processor yet")
    if not shutil.which("ninja") or not os.path.exists(f"{options.build}/build.ninja"):
        skip(f"{options.build} is not built by ninja")
    directory = shadow.new_folder(options.build, "mutants-")
    try:
        outcomes, broken = work(options, chosen, directory)
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    found = collections.Counter(outcome.result for outcome in outcomes)
    removes = {fault.name: fault.removes for fault in chosen}
    print()
    report.table(("fault", "result", "by", "seconds"),
                 [o._replace(by=o.by.splitlines()[-1][:60] if o.by else "")
                  for o in sorted(outcomes)])
    for outcome in sorted(outcomes):
        if outcome.result in BAD:
            print(f"{outcome.result} {outcome.name}: without {removes[outcome.name]}: {outcome.by}")
    print(f"{found[KILLED]} killed, {found[SURVIVED]} survived, {found[STALE]} stale"
          + "".join(f", {found[word]} {word.lower()}" for word in (BROKEN, SKIPPED) if found[word]))
    sys.exit(bool(broken or any(found[word] for word in BAD)))


if __name__ == "__main__":
    main()
