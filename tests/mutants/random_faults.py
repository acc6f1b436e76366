# SPDX-License-Identifier: Apache-2.0
"""
Plants random faults in code whose results reach a user, one at a time, and counts those that the
unit tests notice: an operator flipped, a return value inverted, a constant changed.

usage: random_faults.py BUILD [--count N] [--seed N] [--in FOLDER ...] [--jobs N] [--least PERCENT]

BUILD must be up to date, with its tests. The same seed plants the same faults in the same sources.
Faults that cannot change what a program does are not planted: a text buffer that is one byte
larger, the larger of two values where they are equal, and another positive result of a comparison.
One of which the compiler makes the same code is not counted. Others of that kind remain, so the
share is held against --least, not against all. A test that takes ten times as long as without the
fault, and more than a minute, has noticed it; these faults are counted apart, because on a machine
that becomes very busy that may happen without a fault.
Exit status 1 when fewer than --least percent of them were noticed.
"""
import argparse
import collections
import multiprocessing
import os
import random
import re
import shutil
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(HERE, ".."))
sys.path.insert(0, HERE)

from harness import skip  # noqa: E402
import shadow  # noqa: E402

LIMIT_S = 60  # limit of a test; more if it takes longer without a fault: CLEAN times its time
CLEAN = 10
HUNG = ", time limit"

RULE_TESTS = ("kept_rules", "kept_live", "golden", "nomem", "nvflare_rules", "recipe_rules",
              "script_rules", "cleanup_rules", "python_rules", "launch_rules", "launch_shell",
              "launch_python", "launch_batch", "appfl_rules",
              "live_rules", "trend_rules", "troubles", "toml", "launch", "heap_site_rules",
              "correct", "comm_rules", "recipe_uses", "recipe_hidden", "recipe_sources",
              "recipe_reach", "script_hidden", "script_texts", "bound_again", "nvflare_specs",
              "launch_launchers", "launch_wrappers", "launch_callers", "launch_calls",
              "launch_unfollowed", "launch_tasks", "launch_texts", "launch_ends", "launch_named",
              "launch_shown", "launch_chunks")

# The tests that concern a folder, those that notice most faults first.
CONCERNS = {
    "libcore/rules": (*RULE_TESTS, "oom_log", "gpu_oom_log", "kept_variations"),
    "libcore/documents": ("kept_documents", "document", "edit", "toml", "python_calls", "nomem",
                          "golden", "correct", "recipe_rules", "kept_variations"),
    "libcore/series": ("kept_series", "kept_recordings", "trend", "robust", "policy", "history",
                       "round_stats", "forecast_state", "watch_state", "trend_rules", "recording",
                       "thin", "labelled"),
    "libcore/settings": ("kept_settings", "settings", "golden", "nomem", "observed", "env_values",
                         "launch", "launch_rules", "live_rules"),
    "libcore/frameworks": ("kept_rules", "golden", "kept_live", "kept_rounds", "frameworks",
                           "nomem", "rounds", *RULE_TESTS, "kept_settings", "settings", "plan",
                           "kept_plans", "log_tail", "kept_variations"),
    "libcore/ops/recommend": ("kept_rules", "golden", "nomem", "correct", "leftovers",
                              "kept_live", "kept_plans", "plan", "oom_log", "gpu_oom_log",
                              "heap_site_rules", "trend_rules", "other_files", "recommend_time",
                              "module_files", "check_once", *RULE_TESTS, "kept_variations"),
    "libcore/ops/watch": ("watch_state", "watch_replay", "round_stats", "forecast_state",
                          "log_tail", "exec_follow", "kept_recordings", "kept_rounds", "policy",
                          "pressure", "metrics", "watch_page", "labelled", "nomem"),
}

# Folders whose tests run programs, which takes longer: only with --in.
SLOW_CONCERNS = {
    "libcore/preload": ("sampler_arithmetic", "sampler_rules", "sampler_parts", "sampler_mixed",
                        "sampler_tables", "sampler_totals", "sampler_pace", "sampler_lines",
                        "sampler_forks", "sampler_orders", "cli.profile_restricted",
                        "cli.profile_mappings", "cli.profile_native", "cli.profile_run",
                        "cli.profile_handlers", "cli.profile_late"),
}

TOKEN = re.compile(r"""
    (?P<skip>/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|\s+)
  | (?P<directive>^[ \t]*\#(?:\\\n|[^\n])*)
  | (?P<word>[A-Za-z_]\w*)
  | (?P<number>0[xX][0-9a-fA-F]+[uUlL]*|\d[\d.]*[uUlLfF]*)
  | (?P<operator>->|\+\+|--|<<=|>>=|<<|>>|[<>=!+\-*/%&|^]=|&&|\|\||.)
""", re.VERBOSE | re.DOTALL | re.MULTILINE)

SWAPS = {"==": "!=", "!=": "==", "<": "<=", "<=": "<", ">": ">=", ">=": ">", "&&": "||",
         "||": "&&", "true": "false", "false": "true"}
BINARY = {"+": "-", "-": "+"}

Fault = collections.namedtuple("Fault", "file start end new line")


def tokens_of(text):
    """Yields (kind, text, start) of the tokens, without comments, strings and white space."""
    found = []
    for match in TOKEN.finditer(text):
        if match.lastgroup not in ("skip", "directive"):
            found.append((match.lastgroup, match.group(), match.start()))
    return found


def changed_number(word):
    match = re.fullmatch(r"(0[xX][0-9a-fA-F]+|\d+)([uUlL]*)", word)
    return f"{int(match.group(1), 0) + 1}{match.group(2)}" if match and \
        not re.fullmatch(r"0\d+", match.group(1)) else None


def replacement(tokens, index):
    kind, word, _ = tokens[index]
    before = tokens[index - 1] if index else ("operator", ";", 0)
    if word in SWAPS and kind != "number":
        return SWAPS[word]
    if word in BINARY and (before[0] in ("word", "number") and before[1] != "return"
                           or before[1] in (")", "]")):
        return BINARY[word]
    if word == "!" and kind == "operator":
        return ""
    return changed_number(word) if kind == "number" else None


# Matches the line up to the "[" of a size: char path[128], name[
TEXT_BUFFER = re.compile(r'\s*(static )?char \w+(\[[^][]*\]( = "[^"]*")?, \w+)*\[[^][]*')
OPERAND = r"[\w.>\[\]()*&-]+"
LARGER_OF_TWO = re.compile(rf"({OPERAND}) [<>]=? ({OPERAND})\s*\?\s*"
                           r"(?:\1\s*:\s*\2|\2\s*:\s*\1)(?!\w)")


# Matches code like: if (a > b) b = a;
KEEPS_LARGER = re.compile(rf"({OPERAND}) [<>]=? ({OPERAND})\)\s*(?:\1 = \2|\2 = \1);")
SIGN = re.compile(r"\? -1 : (?:1;|\w+ >)")


def is_buffer_size(text, start):
    """Reports whether a number is the size of a text buffer, or a part of it."""
    line = text.rfind("\n", 0, start) + 1
    return text[start].isdigit() and TEXT_BUFFER.fullmatch(text[line:start])


def is_in(pattern, text, start):
    line = text.rfind("\n", 0, start) + 1
    return any(match.start() < start < match.end() for match in
               pattern.finditer(text, max(0, line - 100), start + 200))


def is_larger_of_two(text, start):
    """Reports whether an operator only chooses between two compared values."""
    return is_in(LARGER_OF_TWO, text, start) or is_in(KEEPS_LARGER, text, start)


def sites_in(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        text = file.read()
    tokens = tokens_of(text)
    for index, (_, word, start) in enumerate(tokens):
        new = replacement(tokens, index)
        if new is not None and not is_buffer_size(text, start) and \
                not (word in "<=>=" and is_larger_of_two(text, start)) and \
                not (word == "1" and is_in(SIGN, text, start)):
            yield Fault(path, start, start + len(word), new, text.count("\n", 0, start) + 1)


def sources(folder):
    for directory, _, names in sorted(os.walk(os.path.join(ROOT, folder))):
        for name in sorted(names):
            if name.endswith(".c"):
                yield os.path.relpath(os.path.join(directory, name), ROOT)


def choose(folders, count, seed):
    sites = [site for folder in folders for path in sources(folder) for site in sites_in(path)]
    return random.Random(seed).sample(sites, min(count, len(sites)))


class Planted:
    """A fault in the form that Shadow.compile() takes."""
    def __init__(self, fault):
        self.fault, self.file = fault, fault.file

    def planted(self, source):
        with open(source, encoding="utf-8") as file:
            text = file.read()
        return text[:self.fault.start] + self.fault.new + text[self.fault.end:]


worker = None  # the Shadow of each process of the pool


def start_worker(build, tests, directory):
    global worker  # pylint: disable=global-statement
    shadow.become_subreaper()
    worker = shadow.Shadow(build, ROOT, shadow.new_folder(directory), tests)


def tests_for(path):
    names = next(names for folder, names in {**CONCERNS, **SLOW_CONCERNS}.items()
                 if path.startswith(folder + "/"))
    return [name if "." in name else f"unit.test_{name}" for name in dict.fromkeys(names)]


def in_slow_folder(path):
    return any(path.startswith(folder + "/") for folder in SLOW_CONCERNS)


def run_clean(test):
    worker.link_clean(test)
    result, text, spent = worker.run(test, 10 * LIMIT_S)
    return test, result, "\n".join(text.splitlines()[-5:]), max(LIMIT_S, CLEAN * spent)


def try_fault(task):
    """Returns (fault, the test that noticed it; None: none did; "": the same machine code, or none
    at all)."""
    fault, limits = task
    try:
        changed = worker.compile(Planted(fault))
    except shadow.Failure as error:
        if "older than its source" in str(error):
            raise
        return fault, ""
    for test in tests_for(fault.file):
        if test not in limits:
            continue
        try:
            worker.link(test, changed)
        except shadow.Failure:
            if not in_slow_folder(fault.file):
                raise
            continue  # a unit test that lacks this part of the sampler
        result = worker.run(test, limits[test], hasty=True)[0]
        if result in ("failed", "time limit"):
            return fault, test + (HUNG if result == "time limit" else "")
    return fault, "" if worker.is_same_code(Planted(fault), changed[0]) else None


def show(fault, by):
    with open(os.path.join(ROOT, fault.file), encoding="utf-8") as file:
        text = file.read()
    line = text.splitlines()[fault.line - 1].strip()
    state = "noticed" if by else ("MISSED" if by is None else "no code")
    print(f"{state:8} {fault.file}:{fault.line}: '{text[fault.start:fault.end]}' -> "
          f"'{fault.new}' in: {line[:80]}" + (f" ({by})" if by else ""), flush=True)


def work(options, directory):
    tests = shadow.read_tests(options.build)
    chosen = choose(options.folders, options.count, options.seed)
    named = sorted({test for fault in chosen for test in tests_for(fault.file)})
    found = collections.Counter()
    with multiprocessing.Pool(options.jobs, start_worker,
                              (options.build, tests, directory)) as pool:
        limits = {}
        for test, result, text, limit in pool.imap_unordered(run_clean, named):
            if result in ("passed", "partly"):
                limits[test] = limit
            else:
                print(f"{test} is not used: it {result}\n{text}", flush=True)
        for fault, by in pool.imap_unordered(try_fault, [(f, limits) for f in chosen]):
            show(fault, by)
            found["noticed" if by else "missed" if by is None else "none"] += 1
            found["hung"] += bool(by) and by.endswith(HUNG)
        pool.close()
        pool.join()
    return found


def parse_options():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("build")
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--in", dest="folders", nargs="+", default=list(CONCERNS),
                        choices=[*CONCERNS, *SLOW_CONCERNS])
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--least", type=int, default=0)
    options = parser.parse_args()
    options.build = os.path.realpath(options.build)
    return options


def main():
    options = parse_options()
    if not shutil.which("ninja") or not os.path.exists(f"{options.build}/build.ninja"):
        skip(f"{options.build} is not built by ninja")
    directory = shadow.new_folder(options.build, "mutants-")
    try:
        found = work(options, directory)
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    tried = found["noticed"] + found["missed"]
    share = 100 * found["noticed"] // tried if tried else 0
    print(f"{found['noticed']} of {tried} noticed, {share} %, {found['hung']} of them by the time "
          f"limit, seed {options.seed}; {found['none']} did not compile or changed nothing")
    sys.exit(share < options.least)


if __name__ == "__main__":
    main()
