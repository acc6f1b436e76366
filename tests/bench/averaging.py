# SPDX-License-Identifier: Apache-2.0
"""
`flmem aggregate` of four models of 1 GiB beside a plain copy of the same bytes, and beside NumPy and
PyTorch; from the page cache and, as root, from the disk. Two more programs only write and flush as many
bytes as the output has: no program can be faster than they are.
"""
import json
import os
import struct
import subprocess
import tempfile

import figures
import stage
from harness import report

HERE = os.path.dirname(os.path.abspath(__file__))
INPUTS, TENSORS, TENSOR_BYTES = 4, 64, 16 << 20
PEAK_MIB, PEAK_MANY_MIB, COPY_SHARE, TIMES_FASTER = 64, 256, 0.8, 3
ROOM_BYTES = 8 << 30
TOUCHED_GIB = 6  # size of inputs and output in the page cache, or in memory
PEERS = ("numpy", "torch", "appfl", "nvflare")
WRITES = ("write", "write-direct")


def write_model(path, seed, tensors=TENSORS):
    script = ("import sys, numpy; random = numpy.random.default_rng(int(sys.argv[1]))\n"
              "for _ in range(int(sys.argv[2])):\n"
              "    sys.stdout.buffer.write((random.standard_normal(1 << 22, 'f4') * .02).tobytes())")
    header = {f"layers.{n:02}.weight": {"dtype": "F32", "shape": [1024, 4096],
                                        "data_offsets": [n * TENSOR_BYTES, (n + 1) * TENSOR_BYTES]}
              for n in range(tensors)}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        file.flush()
        subprocess.run([stage.PYTHON, "-c", script, str(seed), str(tensors)], check=True, stdout=file)


def make_cold():
    os.sync()
    try:
        with open("/proc/sys/vm/drop_caches", "w", encoding="ascii") as file:
            file.write("1")
    except OSError:
        return False
    return True


def make_warm(names):
    os.sync()
    for name in names:
        with open(name, "rb") as file:
            while file.read(1 << 24):
                pass


def _ways(bench, output, names):
    """Returns the command lines by name."""
    peers = {way: [stage.PYTHON, os.path.join(HERE, "averaging_peers.py"), way, output, *names]
             for way in PEERS}
    plain = {way: [bench.tools.plaincopy, way, output, *names] for way in ("copy", *WRITES)}
    return {"flmem": [bench.flmem, "aggregate", "--json", "-o", output, *names], **plain, **peers}


def _single(bench, output, names):
    """Returns the command lines that write one model to another file, by name."""
    return {"convert": [bench.flmem, "aggregate", "convert", "-q", "-o", output, names[0]],
            "copy of one": [bench.tools.plaincopy, "copy", output, names[0]]}


def _reads(bench, names):
    """Yields how long it takes to read one model, or two, with nothing to write."""
    ways = {"inspect": ["inspect", names[0]], "inspect --stats": ["inspect", "--stats", names[0]],
            "diff of different models": ["diff", "--tolerance", "1e300", *names[:2]]}
    make_warm(names[:2])
    for way, words in ways.items():
        for threads in "1", "4":
            stage.progress(f"averaging: {way}, {threads} threads")
            timings = [bench.tools.time(bench.flmem, "aggregate", *words, "--threads", threads)
                       for _ in range(bench.count(5))]
            yield figures.of_values(f"{way}, {threads} thread{'s' * (threads != '1')}, warm", _seconds(timings), unit="s")


def _one(bench, words, output):
    timing = bench.tools.time(*words, keep=True)
    os.unlink(output)
    return timing


def _rounds(bench, folder, names, cold, commands=_ways):
    """Returns timings by way. Each round takes all ways in turn and begins with another one, as the
    way before has left memory and the disk in other states."""
    output = os.path.join(folder, "out.safetensors")
    ways = list(commands(bench, output, names).items())
    timings = {way: [] for way, _ in ways}
    for number in range(bench.count(5)):
        first = number % len(ways)
        for way, words in ways[first:] + ways[:first]:
            if cold and way in ("appfl", "nvflare", *WRITES):
                continue
            stage.progress(f"averaging, {'cold' if cold else 'warm'}: round {number + 1}, {way}")
            if cold:
                make_cold()
            else:
                make_warm(names)
            stage.touch_memory(TOUCHED_GIB)
            timings[way].append(_one(bench, words, output))
    return {way: rows for way, rows in timings.items() if rows}


def _seconds(timings):
    return [t.wall_us / 1e6 for t in timings]


def _rows(timings, state):
    for way, rows in timings.items():
        yield figures.of_values(f"{way}, {state}", _seconds(rows), unit="s")
    yield figures.ratio(f"share of the plain copy's speed, {state}", _seconds(timings["copy"]),
                        _seconds(timings["flmem"]), limit=COPY_SHARE)
    for way in PEERS:
        if way in timings:
            yield figures.ratio(f"{way} / flmem, {state}", _seconds(timings[way]),
                                _seconds(timings["flmem"]), limit=TIMES_FASTER)


def _bound(timings):
    """Yields how many times as fast as the fastest peer a program can be that writes what flmem writes."""
    medians = {way: report.median(_seconds(rows)) for way, rows in timings.items()}
    peer, write = (min(ways, key=medians.get) for ways in (PEERS, WRITES))
    yield figures.ratio(f"{peer} / {write}, the most that any program can reach",
                        _seconds(timings[peer]), _seconds(timings[write]))


def _anonymous(bench, output, names, cold):
    if cold:
        make_cold()
    else:
        make_warm(set(names))
    result = json.loads(_one(bench, [bench.flmem, "aggregate", "--json", "-o", output, *names],
                             output).output)
    return result["peak_anon_bytes"] / figures.MIB


def _memory(bench, folder, names):
    output = os.path.join(folder, "out.safetensors")
    small = os.path.join(folder, "small.safetensors")
    write_model(small, 9, tensors=4)
    cases = (("4 x 1 GiB", names, PEAK_MIB), ("4 x 64 MiB", [small] * 4, PEAK_MIB),
             ("64 x 64 MiB", [small] * 64, PEAK_MANY_MIB))
    for cold in (False, True) if make_cold() else (False,):
        for what, inputs, limit in cases:
            yield figures.of_values(f"anonymous memory, {what}, {'cold' if cold else 'warm'}",
                                    [_anonymous(bench, output, inputs, cold) for _ in range(bench.count(3))],
                                    unit="MiB", limit=limit)


def write_inputs(folder, part):
    """Generates the input files and returns their names."""
    room = os.statvfs(folder)
    if room.f_bavail * room.f_frsize < ROOM_BYTES:
        raise stage.Failed(f"{folder} has less than 8 GiB; set FLMEM_BENCH_DIR")
    names = [os.path.join(folder, f"client-{n}.safetensors") for n in range(INPUTS)]
    for number, name in enumerate(names):
        stage.progress(f"{part}: writing model {number + 1}")
        write_model(name, number)
    return names


def average(bench):
    """Measures speed and memory of an average of four models."""
    with tempfile.TemporaryDirectory(dir=os.environ.get("FLMEM_BENCH_DIR")) as folder:
        names = write_inputs(folder, "averaging")
        warm = _rounds(bench, folder, names, cold=False)
        yield from _rows(warm, "warm")
        yield from _bound(warm)
        single = {way: _seconds(rows)
                  for way, rows in _rounds(bench, folder, names, cold=False, commands=_single).items()}
        yield figures.ratio("convert: share of the plain copy's speed, warm", single["copy of one"],
                            single["convert"], limit=COPY_SHARE)
        yield from _reads(bench, names)
        for way, rows in warm.items():
            yield figures.of_values(f"peak RSS of {way}", [t.peak_bytes / figures.MIB for t in rows],
                                    unit="MiB")
        if make_cold():
            yield from _rows(_rounds(bench, folder, names, cold=True), "cold")
        else:
            stage.progress("averaging: only root can empty the page cache; no cold runs")
        yield from _memory(bench, folder, names)
