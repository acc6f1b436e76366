# SPDX-License-Identifier: Apache-2.0
"""clang-tidy over every source file of the compile database, unchanged files from a cache.

usage: tidy.py ROOT BUILD_DIRECTORY [--deep]

The path-sensitive analyser takes most of the time. It reads what touches other processes or runs in them. A
tenth of the steps that it would take by itself in each function reaches all but 0.7 % of the blocks of code
that a third reaches, in a third of that time. --deep leaves it its own limit, and gives it all files.

A file that passed is remembered under a hash of everything its result depends on: its command, the
files it includes, .clang-tidy and clang-tidy's version; not where the tree and the build lie, so that
all clones of a user share what passed ($XDG_CACHE_HOME/flmem/tidy).
"""
import concurrent.futures
import functools
import hashlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys

import marks
import tree

NODES = 20000  # the default is 225000 (clang 14, -analyzer-config max-nodes)
ANALYSED = ("libcore/ops/trim/", "libcore/preload/", "libcore/proc/", "libcore/remote/", "libcore/runtimes/")
TOGETHER = 12  # files per call of clang-tidy: its start takes as much processor time as a file


def output(command, directory):
    run = subprocess.run(command, cwd=directory, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                         text=True, errors="replace", check=False)
    return run.returncode, run.stdout


def words_of(entry):
    return entry.get("arguments") or shlex.split(entry["command"])


def arguments(entry):
    kept, skip_next = [], False
    for word in words_of(entry)[1:]:
        if skip_next or word in ("-c", entry["file"]):
            skip_next = False
        elif word == "-o":
            skip_next = True
        else:
            kept.append(word)
    return kept


def recorded(build):
    """Returns for each object the files that it was made of, as the compiler reported them to
    ninja."""
    found, names = {}, []
    listed = output(["ninja", "-t", "deps"], build)[1] if shutil.which("ninja") else ""
    for line in listed.splitlines():
        if line.startswith("    "):
            names.append(os.path.normpath(os.path.join(build, line.strip())))
            continue
        names = []
        if line.endswith("(VALID)"):
            found[os.path.join(build, line.partition(":")[0])] = names
    return found


@functools.lru_cache(maxsize=None)
def changed(name):
    return os.stat(name).st_mtime_ns if os.path.exists(name) else sys.maxsize


def included(entry, deps):
    """Returns the files of the translation unit, or None when it does not preprocess."""
    words = words_of(entry)
    made = os.path.join(entry["directory"], words[words.index("-o") + 1]) if "-o" in words else ""
    if deps.get(made) and max(map(changed, deps[made])) < changed(made) < sys.maxsize:
        return deps[made]
    status, text = output(["clang", "-M", *arguments(entry), entry["file"]], entry["directory"])
    if status:
        return None
    return [os.path.join(entry["directory"], w) for w in re.sub(r"\\\n", " ", text).split()[1:]]


@functools.lru_cache(maxsize=None)
def content(name):
    with open(name, "rb") as file:
        return hashlib.sha256(file.read()).digest()


def fingerprint(entry, places, common, deps):
    names = included(entry, deps)
    if names is None:
        return None
    digest = hashlib.sha256(common)
    command = "\0".join([*arguments(entry), entry["file"]])
    for place, path in places:
        command = command.replace(path, place)
    digest.update(command.encode())
    for name in names:
        digest.update(content(name))
    return digest.hexdigest()


def helped(entry, top):
    """Returns the option that includes analyser.h first, except where the functions that it wraps
    are defined."""
    if entry["file"].endswith("libcore/base/error.c"):
        return []
    header = os.path.join(top, "tests", "checks", "analyser.h")
    return [f"--extra-arg-before={word}" for word in
            (f"-I{top}/libcore/include", "-include", header)]


def analyser(entry, top, deep):
    """Returns the options that limit the analyser in a file."""
    if deep:
        return []
    if not os.path.relpath(entry["file"], top).startswith(ANALYSED):
        return ["--checks=-clang-analyzer-*"]
    words = ("-Xclang", "-analyzer-config", "-Xclang", f"max-nodes={NODES}")
    return [f"--extra-arg={word}" for word in words]


def cache_of(build):
    cache = marks.directory_of("tidy")
    if not os.access(cache, os.W_OK):
        cache = os.path.join(build, "tidy-cache")
        os.makedirs(cache, exist_ok=True)
    return cache


def mark_of(entry, places, cache, common, deps, extra):
    """Returns the path of the file's mark; None for one that does not preprocess."""
    key = fingerprint(entry, places, common + " ".join(extra).encode(), deps)
    return os.path.join(cache, key) if key else None


def is_remembered(mark):
    if not mark or not os.path.exists(mark):
        return False
    os.utime(mark)
    return True


def run_tidy(entries, build, words):
    return output(["clang-tidy", "--quiet", "-p", build, *words, *(e["file"] for e in entries)], build)


def examine(batch, build, words):
    """Returns findings in files with the same options; if there are any, checks the files one by
    one. Marks those without."""
    status, text = run_tidy([entry for entry, _ in batch], build, words)
    if status and len(batch) > 1:
        return [finding for one in batch for finding in examine([one], build, words)]
    if status:
        return [re.sub(r"(?m)^(\d+ warnings? generated|Suppressed .*|Use -header-filter.*)\.?$\n?", "", text)]
    for _, mark in batch:
        if mark:
            with open(mark, "w", encoding="ascii"):
                pass
    return []


def batches(entries, remembered, words):
    """Groups the files without a mark by their options: [([(entry, mark)], options)]."""
    groups = {}
    for entry, mark, options in zip(entries, remembered, words):
        if not is_remembered(mark):
            groups.setdefault(tuple(options), []).append((entry, mark))
    return [(group[start:start + TOGETHER], options) for options, group in groups.items()
            for start in range(0, len(group), TOGETHER)]


def main():
    top, build = os.path.realpath(tree.root()), os.path.realpath(sys.argv[2])
    if not shutil.which("clang-tidy") or not shutil.which("clang"):
        tree.skip("clang-tidy or clang is not installed")
    with open(os.path.join(build, "compile_commands.json"), encoding="utf-8") as file:
        entries = {e["file"]: e for e in json.load(file)}
    entries = [e for n, e in sorted(entries.items()) if n.startswith(top) and
               not n.startswith(build)]
    cache, deps, places = cache_of(build), recorded(build), (("BUILD", build), ("ROOT", top))
    # Take only time that other tests leave: this takes minutes of both processors, and they mostly
    # wait.
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    deep = "--deep" in sys.argv[3:]
    settings = (".clang-tidy", "tests/.clang-tidy", "tests/checks/analyser.h")
    common = ("".join(tree.text(top, name) for name in settings) +
              output(["clang-tidy", "--version"], top)[1]).encode()
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        remembered = list(pool.map(
            lambda e: mark_of(e, places, cache, common, deps, analyser(e, top, deep)), entries))
        words = [helped(e, top) + analyser(e, top, deep) for e in entries]
        findings = list(pool.map(lambda batch: examine(batch[0], build, batch[1]),
                                 batches(entries, remembered, words)))
    tree.finish([text for found in findings for text in found], len(entries))


main()
