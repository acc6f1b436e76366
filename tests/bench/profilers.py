# SPDX-License-Identifier: Apache-2.0
"""
flmem profile beside memray and heaptrack, on the loops of `sample`: the processor time of a loop, the
peak of resident memory, the size of the file; and the ten largest sites at the peak.
"""
import json
import os
import select
import signal
import subprocess
import tempfile

import figures
import sampling
import stage
from figures import MIB, MS

ROUNDS = 15
TURNS = 40  # about 1.3 s
NUMPY_TURNS = 180  # 3 s
LONGEST_S = 60  # a program that takes longer in a profiler is not measured there
MEMRAY = "memray==1.20.0"
# A program with twelve sites, each with a block that is larger than several intervals.
SITES = "kept = []\n" + "".join(
    f"def site_{n}():\n    kept.append(bytearray({n * 3000000}))\n" for n in range(1, 13)
) + "".join(f"site_{n}()\n" for n in range(1, 13)) + "print(0)\n"
TOP_TEN = """
import json, sys, memray
reader = memray.FileReader(sys.argv[1])
sizes = {}
for record in reader.get_high_watermark_allocation_records(merge_threads=True):
    name = next((f[0] for f in record.stack_trace() if f[0].startswith("site_")), None)
    if name:
        sizes[name] = sizes.get(name, 0) + record.size
print(json.dumps(sorted(sizes, key=sizes.get, reverse=True)[:10]))
"""


def _memray_python(folder):
    """Returns a Python with memray and the modules of the usual one; None, with a message, if there
    is none."""
    python = os.path.join(folder, "venv", "bin", "python")
    for words in ([stage.PYTHON, "-m", "venv", "--system-site-packages", os.path.join(folder, "venv")],
                  [python, "-m", "pip", "install", "-q", MEMRAY]):
        done = subprocess.run(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=False)
        if done.returncode:
            said = done.stderr.decode(errors="replace").strip().splitlines() or ["no reason"]
            stage.progress(f"profilers: memray is NOT MEASURED: {said[-1]}")
            return None
    return python


def _ways(bench, folder, python):
    """Returns name -> (words before the program, file that is written); the file is replaced."""
    ours = [bench.flmem, "profile", "run", "--force", "-o", os.path.join(folder, "ours")]
    ways = {"flmem": (ours + ["--"], "ours"), "flmem --native": (ours + ["--native", "--"], "ours")}
    if python:
        theirs = [python, "-m", "memray", "run", "-q", "-f", "-o", os.path.join(folder, "memray")]
        for option in ("", "--aggregate", "--native"):
            ways[f"memray {option}".strip()] = (theirs + ([option] if option else []), "memray")
    if subprocess.run(["heaptrack", "--version"], stdout=subprocess.DEVNULL, check=False,
                      stderr=subprocess.DEVNULL).returncode:
        stage.progress("profilers: heaptrack is NOT MEASURED: it is not installed")
    else:
        ways["heaptrack"] = (["heaptrack", "-o", os.path.join(folder, "heaptrack")], "heaptrack")
    return ways


class _TooLong(Exception):
    pass


def _run(words):
    """Returns (milliseconds that the program printed, peak of resident memory in MiB)."""
    reader, writer = os.pipe()
    with subprocess.Popen(words, stdout=writer, stderr=subprocess.DEVNULL,
                          stdin=subprocess.DEVNULL, start_new_session=True) as process:
        os.close(writer)
        with os.fdopen(reader) as file:
            if not select.select([file], [], [], LONGEST_S)[0]:
                os.killpg(process.pid, signal.SIGKILL)
                raise _TooLong()
            said = file.read()
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise stage.Failed(f"{words[0]}: exit status {process.returncode}")
    numbers = [line for line in said.splitlines() if line.strip().isdigit()]
    return int(numbers[-1]) / MS, used.ru_maxrss * 1024 / MIB


def _size_mib(folder, name):
    return sum(os.stat(os.path.join(folder, entry)).st_blocks * 512 for entry in os.listdir(folder)
               if entry.startswith(name)) / MIB


def _program(before, words, script):
    """Returns the command of a loop: memray takes a script, the others a command."""
    if "memray" not in before:
        return before + words
    return before + [script] if script else None


def _loops(folder):
    for name, code, module in (("small objects", sampling.whole(sampling.SMALL_OBJECTS, TURNS), None),
                               ("NumPy", sampling.whole(sampling.NUMPY, NUMPY_TURNS), "numpy"),
                               ("PyTorch", sampling.whole(sampling.TORCH, TURNS), "torch")):
        if module and subprocess.run([stage.PYTHON, "-c", f"import {module}"], check=False,
                                     stderr=subprocess.DEVNULL).returncode:
            stage.progress(f"profilers: {name} is NOT MEASURED: {module} is not there")
            continue
        script = os.path.join(folder, "loop.py")
        with open(script, "w", encoding="ascii") as file:
            file.write(code)
        yield name, [stage.PYTHON, script], script


def _loop(bench, folder, ways, loop):
    name, words, script = loop
    ways = dict(ways)
    plain, peaks, costs, sizes = [], [], {w: [] for w in ways}, {w: [] for w in ways}
    memory = {w: [] for w in ways}
    for _ in range(bench.count(ROUNDS)):
        alone, peak = _run(words)
        plain.append(alone)
        peaks.append(peak)
        for way, (before, file) in list(ways.items()):
            for old in os.listdir(folder):
                if old.startswith(file):
                    os.unlink(os.path.join(folder, old))
            try:
                spent, peak = _run(_program(before, words, script))
            except _TooLong:
                stage.progress(f"profilers: {name} in {way} is NOT MEASURED: it took more than {LONGEST_S} s")
                ways.pop(way)
                continue
            costs[way].append(100 * (spent / alone - 1))
            memory[way].append(peak)
            sizes[way].append(_size_mib(folder, file))
    yield figures.of_values(f"{name}, alone", plain)
    yield figures.of_values(f"{name}, alone: peak memory", peaks, unit="MiB")
    for way in ways:
        yield figures.of_values(f"{name}, {way}: cost", costs[way], unit="%")
        yield figures.of_values(f"{name}, {way}: peak memory", memory[way], unit="MiB")
        yield figures.of_values(f"{name}, {way}: file", sizes[way], unit="MiB")


def _our_top_ten(bench, path):
    done = subprocess.run([bench.flmem, "profile", "summary", "--json", "--by", "peak", path],
                          stdout=subprocess.PIPE, check=True)
    sizes = {}
    for row in json.loads(done.stdout)["functions"]:
        name = (row["frame"] or {}).get("function") or ""
        if name.startswith("site_"):
            sizes[name] = row["total"]["peak_bytes"]
    return sorted(sizes, key=sizes.get, reverse=True)[:10]


def _top_ten(bench, folder, ways, python):
    script = os.path.join(folder, "sites.py")
    with open(script, "w", encoding="ascii") as file:
        file.write(SITES)
    _run(ways["flmem"][0] + [stage.PYTHON, script])
    _run(ways["memray"][0] + [script])
    theirs = subprocess.run([python, "-c", TOP_TEN, os.path.join(folder, "memray")],
                            stdout=subprocess.PIPE, check=True).stdout
    ours = _our_top_ten(bench, os.path.join(folder, "ours"))
    same = sum(a == b for a, b in zip(ours, json.loads(theirs)))
    yield figures.of_values("of memray's ten largest sites, at the same place", [same], unit="",
                            limit=10, at_least=True)


def compare(bench):
    """Runs each loop alone and in each profiler, in turn."""
    with tempfile.TemporaryDirectory() as folder:
        os.mkdir(os.path.join(folder, "files"))
        files = os.path.join(folder, "files")
        python = _memray_python(folder)
        ways = _ways(bench, files, python)
        for loop in _loops(folder):
            stage.progress(f"profilers: {loop[0]}")
            yield from _loop(bench, files, ways, loop)
        if python:
            yield from _top_ten(bench, files, ways, python)
