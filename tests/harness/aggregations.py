#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
Checks of `flmem aggregate` that need more than a shell, in the current directory, which is empty:

    aggregations.py FLMEM CHECK [NUMBER]
"""
import json
import os
import random
import signal
import subprocess
import sys
import time

import numpy

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

from harness import digests, tensors  # noqa: E402
from harness.aggregate_calls import kill_begun  # noqa: E402
from harness.file_sizes import size_of  # noqa: E402

FLMEM = sys.argv[1]
NUMBER = int(sys.argv[3]) if len(sys.argv) > 3 else 0


def run(*words, status=0):
    """Returns the JSON object that a call prints."""
    done = subprocess.run([FLMEM, "aggregate", "--json", *words], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode != status:
        raise SystemExit(f"{words}: status {done.returncode}: {done.stdout}{done.stderr}")
    return json.loads(done.stdout)


def content(path):
    with open(path, "rb") as file:
        return file.read()


def write_samples(count, size=1000):
    models = [tensors.sample(seed, size) for seed in range(count)]
    names = []
    for number, model in enumerate(models):
        names.append(f"client-{number}.safetensors")
        tensors.write(names[-1], model, {"format": "pt"})
    return models, names


def expect(path, models, weights):
    """Compares: floating-point tensors are means, the others are unchanged."""
    found, notes = tensors.read(path)
    assert notes == {"format": "pt"}, notes
    assert found.keys() == models[0].keys()
    for name, (kind, array) in models[0].items():
        mean = tensors.mean(models, weights, name) if kind in ("F64", "F32", "F16", "BF16") else array
        assert tensors.same((kind, mean), found[name]), name


def means():
    """Compares with NumPy's means, for any number of inputs and for weights."""
    models, names = write_samples(5)
    for count in (1, 2, 5):
        run("-o", "out.safetensors", *names[:count])
        expect("out.safetensors", models[:count], [1] * count)
    weights = [3, 1, 0.25, 1e3, 17]
    result = run("-o", "out.safetensors", "--weights", ",".join(map(str, weights)), *names)
    expect("out.safetensors", models, weights)
    shares = [one["weight"] for one in result["inputs"]]
    assert numpy.allclose(shares, numpy.array(weights) / sum(weights)), shares
    assert int(result["crc32c"], 16) == digests.crc32c(content("out.safetensors"))
    run("-o", "out.safetensors", "--weights", "0,2,0,3,0", *names)
    expect("out.safetensors", [models[1], models[3]], [2, 3])


def layouts():
    """Inputs whose files have the same tensors in other places."""
    models, names = write_samples(3)
    run("-o", "expected.safetensors", *names)
    for number, model in enumerate(models):
        order = list(model)
        random.Random(number).shuffle(order)
        tensors.write(names[number], {name: model[name] for name in order}, {"format": "pt"},
                      pad=b" " * (number + 1))
    run("-o", "out.safetensors", "--chunk", "64K", *names)
    assert content("out.safetensors") == content("expected.safetensors")
    before, _ = tensors.read("expected.safetensors")
    starts = [name for name in before]
    assert starts.index("layers.1.weight") < starts.index("layers.0.weight") < starts.index("odd")


def write_shards(folder, model, cuts):
    """Writes a folder with an index whose tensors are in so many files, in turn."""
    os.makedirs(folder, exist_ok=True)
    places = {name: f"model-{number % cuts + 1:05}-of-{cuts:05}.safetensors"
              for number, name in enumerate(model)}
    for file in set(places.values()):
        tensors.write(os.path.join(folder, file),
                      {name: model[name] for name in model if places[name] == file},
                      {"format": "pt"})
    index = {"metadata": {"total_size": 1}, "weight_map": places}
    with open(os.path.join(folder, "model.safetensors.index.json"), "w", encoding="ascii") as file:
        json.dump(index, file)
    return index


def shards():
    """Folders with an index, mixed with single files."""
    models, names = write_samples(3)
    run("-o", "expected.safetensors", "--weights", "1,2,3", *names)
    write_shards("a", models[0], 3)
    write_shards("b", models[1], 2)
    for words in (["a", "b", names[2]], [names[0], "b", names[2]], ["a", names[1], names[2]]):
        run("-o", "out.safetensors", "--weights", "1,2,3", "--chunk", "64K", *words)
        assert content("out.safetensors") == content("expected.safetensors"), words

    def refused(change, words):
        index = write_shards("bad", models[0], 3)
        change(index["weight_map"])
        with open("bad/model.safetensors.index.json", "w", encoding="ascii") as file:
            json.dump(index, file)
        message = run("-o", "none", "bad", status=2)["error"]["message"]
        assert words in message, message
    refused(lambda m: m.update(odd="../a/model-00001-of-00003.safetensors"), "outside of its folder")
    refused(lambda m: m.update(odd="model-9.safetensors"), "cannot read 'bad/model-9.safetensors'")
    refused(lambda m: m.update(none=m["odd"]), "tensor 'none' of 'bad'")
    refused(lambda m: m.pop("odd"), "has 9")
    refused(lambda m: m.update(odd=m["phase"]), "tensor 'odd' of 'bad'")
    refused(lambda m: m.update(odd=1), "unexpected character")
    refused(lambda m: m.clear(), "names no shards")


def reference():
    """Checks that the file is the one that the safetensors package writes, byte by byte."""
    from safetensors.numpy import load_file, save_file
    models, names = write_samples(2)
    for model, name in zip(models, names):
        tensors.write(name, {n: t for n, t in model.items() if t[0] not in ("BF16", "C64")},
                      {"format": "pt"})
    run("-o", "out.safetensors", *names)
    save_file(load_file("out.safetensors"), "theirs.safetensors", {"format": "pt"})
    assert content("out.safetensors") == content("theirs.safetensors")
    save_file({n: t[1] for n, t in models[0].items() if t[0] == "F32"}, "a.safetensors")
    run("-o", "b.safetensors", "a.safetensors", "a.safetensors")
    assert content("a.safetensors") == content("b.safetensors")


def same_bits():
    """Checks that the bytes do not depend on chunks and threads."""
    _, names = write_samples(4, 20000)
    run("-o", "expected.safetensors", "--weights", "1,2,3,4.5", *names)
    for number in range(NUMBER or 10):
        words = ["--chunk", str(random.randrange(1, 40) * 65536), "--threads",
                 str(random.randrange(1, 9))]
        run("-o", "out.safetensors", "--weights", "1,2,3,4.5", *words, *names)
        assert content("out.safetensors") == content("expected.safetensors"), words


def special():
    """NaN and infinities in every type."""
    models, names = write_samples(4)
    models[2]["layers.0.bias"][1][5] = numpy.inf
    models[3]["embed.weight"][1][7, 2] = 0xffc1  # a NaN with a sign and other bits
    for model, name in zip(models, names):
        tensors.write(name, model, {"format": "pt"})
    message = run("-o", "out.safetensors", *names, status=2)["error"]["message"]
    assert "client-" in message and "element" in message and "skip-client" in message, message
    assert not os.path.exists("out.safetensors") and not os.path.exists("out.safetensors.part")
    message = run("-o", "out.safetensors", names[0], names[3], status=2)["error"]["message"]
    assert "'client-3.safetensors'" in message and "'embed.weight', element 121" in message, message
    for words in ([], ["--chunk", "64K", "--threads", "4"]):
        result = run("-o", "out.safetensors", "--nan", "skip-client", "--weights", "1,2,3,4",
                     *words, *names)
        expect("out.safetensors", models[:2], [1, 2])
        assert [bool(one["skipped"]) for one in result["inputs"]] == [False, False, True, True]
    run("-o", "out.safetensors", "--nan", "skip-client", names[2], names[3], status=2)
    run("-o", "out.safetensors", "--nan", "propagate", *names)
    found, _ = tensors.read("out.safetensors")
    assert found["embed.weight"][1][7, 2] == 0x7fc0
    assert found["layers.0.bias"][1][5] == numpy.inf
    assert numpy.isfinite(found["layers.0.weight"][1]).all()


def robust():
    """Median and trimmed mean of each element, as NumPy computes them."""
    for count in (1, 2, 3, 4, 5, 7, 12, 33):
        models, names = write_samples(count, 40)
        models[0]["layers.0.weight"][1][0, 0] = 1e30  # one client's value that would ruin the mean
        tensors.write(names[0], models[0], {"format": "pt"})
        run("-o", "out.safetensors", "--algorithm", "median", *names)
        found, _ = tensors.read("out.safetensors")
        trim = 0.3 if count > 3 else 0.4
        dropped = int(trim * count + 1e-9)
        if dropped:
            run("-o", "trimmed.safetensors", "-a", "trimmed-mean", "--trim", str(trim), *names)
            trimmed, _ = tensors.read("trimmed.safetensors")
        for name, (kind, array) in models[0].items():
            if kind not in ("F64", "F32", "F16", "BF16"):
                continue
            stacked = numpy.sort([tensors.to_double(kind, m[name][1]) for m in models], axis=0)
            median = numpy.median(stacked, axis=0)
            assert numpy.array_equal(tensors.from_double(kind, median), found[name][1]), name
            if dropped:
                mean = sum(stacked[dropped:count - dropped]) / (count - 2 * dropped)
                assert numpy.array_equal(tensors.from_double(kind, mean), trimmed[name][1]), name
    three = ["-o", "none.safetensors", "-a", "trimmed-mean", *names[:3]]
    assert "use a --trim of 0.334 or more" in run(*three, status=2)["error"]["message"]
    run(*three, "--trim", "0.334")
    two = run(*three[:-1], "--trim", "0.49", status=2)["error"]["message"]
    assert two == "too few inputs for 'trimmed-mean': 2; it needs 3 or more", two
    for words in (["--algorithm", "median", "--weights", ",".join(["1"] * 33)],
                  ["--algorithm", "median", "--trim", "0.1"],
                  ["--algorithm", "trimmed-mean", "--trim", "0.01"],
                  ["--algorithm", "trimmed-mean", "--trim", "0.5"],
                  ["--algorithm", "average"]):
        run("-o", "none.safetensors", *words, *names, status=2)
    models[1]["layers.0.bias"][1][5] = numpy.nan
    models[2]["layers.0.bias"][1][6] = numpy.inf
    tensors.write(names[1], models[1])
    tensors.write(names[2], models[2])
    for algorithm in ("median", "trimmed-mean"):
        words = ["-o", "out.safetensors", "--algorithm", algorithm]
        run(*words, *names, status=2)
        run(*words, "--nan", "propagate", *names)
        found = tensors.read("out.safetensors")[0]["layers.0.bias"][1]
        assert numpy.isnan(found[5]) and numpy.isfinite(found[6]) and numpy.isfinite(found[4])
        skipped = run(*words, "--nan", "skip-client", *names)["inputs"]
        assert [n for n, one in enumerate(skipped) if one["skipped"]] == [1, 2]


def others():
    """Tests types other than floating point."""
    models, names = write_samples(3)
    models[1]["norm.num_batches_tracked"] = ("I64", numpy.array(6))
    models[1]["odd"] = ("U8", numpy.array([0, 1, 2, 3, 255], "u1"))
    models[1]["norm.mask"][1][0] = 0
    models[2]["norm.mask"][1][0] = 0
    tensors.write(names[1], models[1], {"format": "pt"})
    tensors.write(names[2], models[2], {"format": "pt"})
    message = run("-o", "out.safetensors", *names, status=2)["error"]["message"]
    assert "differs" in message and "client-1" in message and "--non-float" in message, message
    run("-o", "out.safetensors", "--non-float", "first", *names)
    expect("out.safetensors", models, [1, 1, 1])
    run("-o", "out.safetensors", "--non-float", "round", *names)
    found, _ = tensors.read("out.safetensors")
    assert found["norm.num_batches_tracked"][1] == 4
    assert found["odd"][1].tolist() == [0, 1, 2, 3, 88]
    assert found["norm.mask"][1].tolist()[:3] == [0, 0, 1]
    large = 2**62 + 1
    for name, model in zip(names, models):
        tensors.write(name, {"step": ("I64", numpy.array([large]))})
    run("-o", "out.safetensors", "--non-float", "round", *names)
    assert tensors.read("out.safetensors")[0]["step"][1][0] == large
    for number, name in enumerate(names):
        tensors.write(name, {"step": ("I64", numpy.array([large, 1, number]))})
    message = run("-o", "out.safetensors", *names, status=2)["error"]["message"]
    assert "tensor 'step'" in message and "from element 2 on" in message, message


def start(*words):
    return subprocess.Popen([FLMEM, "aggregate", "--quiet", *words], stdout=subprocess.DEVNULL,
                            stderr=subprocess.PIPE, text=True)


def write_large(count, mib):
    names = []
    for number in range(count):
        row = numpy.random.default_rng(number).standard_normal(1 << 18, dtype="f4")
        values = numpy.arange(1, mib + 1, dtype="f4")[:, None] * row
        names.append(f"large-{number}.safetensors")
        tensors.write(names[-1], {"weight": ("F32", values)})
    return names


def kills():
    """Killed at any instant and resumed, it writes the same bytes; an old output stays meanwhile."""
    names = write_large(3, 48)
    words = ["-o", "out.safetensors", "--chunk", "256K", *names]
    began = time.monotonic()
    run(*words)
    took = time.monotonic() - began
    expected = content("out.safetensors")
    old = b"the old output"
    resumed = 0
    for number in range(NUMBER or 25):
        if number % 4 == 0:
            with open("out.safetensors", "wb") as file:
                file.write(old)
        if number % 8 == 7:
            kill_begun("out.safetensors", *words)
        else:
            process = start("--resume", *words)
            time.sleep(random.random() * took * 1.2)
            process.kill()
            process.communicate()
        assert content("out.safetensors") in (old, expected), "a part of the output was seen"
        if number % 4 == 3:
            resumed += run("--resume", *words)["resumed_bytes"]
            assert content("out.safetensors") == expected
            assert not os.path.exists("out.safetensors.part.journal")
    assert run("--resume", *words)["resumed_bytes"] >= 0
    assert content("out.safetensors") == expected
    assert resumed > 0, "nothing was ever resumed"


def stop_midway(words):
    """Returns a process that was stopped while it writes; tries again if it was too fast."""
    for _ in range(20):
        for left in ("out.safetensors.part", "out.safetensors.part.journal"):
            if os.path.exists(left):
                os.unlink(left)
        process = start(*words)
        while process.poll() is None:
            if size_of("out.safetensors.part.journal") > 100:
                process.send_signal(signal.SIGSTOP)
                break
        time.sleep(0.02)
        if process.poll() is None and os.path.exists("out.safetensors.part"):
            return process
        process.send_signal(signal.SIGCONT)
        process.communicate()
    raise SystemExit("it was always too fast")


def damage():
    """Checks that a resumed run compares what is there: damaged chunks, other inputs and other
    options start over."""
    names = write_large(3, 64)
    words = ["-o", "out.safetensors", "--chunk", "64K", *names]
    run(*words)
    expected = content("out.safetensors")
    os.unlink("out.safetensors")

    def leave():
        process = stop_midway(words)
        process.kill()
        process.communicate()
    leave()
    with open("out.safetensors.part", "r+b") as file:
        file.seek(70000)
        file.write(b"damaged!")
    with open("out.safetensors.part.journal", "ab") as file:
        file.write(b"torn")
    run("--resume", *words)
    assert content("out.safetensors") == expected
    leave()
    result = run("--resume", "--weights", "1,2,3", *words)
    assert result["resumed_bytes"] == 0
    assert content("out.safetensors") != expected
    leave()
    os.utime(names[0])
    assert run("--resume", *words)["resumed_bytes"] == 0
    assert content("out.safetensors") == expected


def rewrite(path):
    """Writes the last byte of a file again, and leaves its times as they are except for that of its
    inode."""
    before = os.stat(path)
    with open(path, "r+b") as file:
        file.seek(-1, os.SEEK_END)
        last = file.read(1)
        file.seek(-1, os.SEEK_END)
        file.write(last)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def changes():
    """Inputs that become shorter, or are written, while they are read; a signal; a second writer."""
    names = write_large(4, 48)
    words = ["-o", "out.safetensors", "--chunk", "64K", "--threads", "1", *names]
    size = os.path.getsize(names[1])

    def outcome(process):
        process.send_signal(signal.SIGCONT)
        return process.communicate()[1], process.returncode

    process = stop_midway(words)
    os.truncate(names[1], size // 2)
    text, status = outcome(process)
    assert status == 7 and f"'{names[1]}' was truncated" in text, text
    os.truncate(names[1], size)
    process = stop_midway(words)
    os.utime(names[2])
    text, status = outcome(process)
    assert status == 2 and f"'{names[2]}' changed while" in text, text
    # Some programs set the time of modification back; the kernel's time of change still differs.
    process = stop_midway(words)
    rewrite(names[2])
    text, status = outcome(process)
    assert status == 2 and f"'{names[2]}' changed while" in text, text
    process = stop_midway(words)
    process.kill()
    process.communicate()
    rewrite(names[2])
    assert run("--resume", *words)["resumed_bytes"] == 0
    os.unlink("out.safetensors")
    process = stop_midway(words)
    message = run(*words, status=7)["error"]["message"]
    assert "another aggregation is writing 'out.safetensors'" in message, message
    process.send_signal(signal.SIGTERM)
    text, status = outcome(process)
    if status:  # the run may have been nearly complete
        assert status == 7 and "--resume" in text, text
        assert os.path.exists("out.safetensors.part")


def memory():
    """
    Anonymous memory stays within the limits of docs/guides/aggregate.md, for 1 GiB and for 64 inputs. How
    much of them is used depends on what the page cache still has of the inputs.
    """
    peaks = []
    for count, mib, times, limit in ((4, 16, 1, 64), (4, 256, 1, 64), (1, 32, 64, 256)):
        names = write_large(count, mib) * times
        peaks.append(run("-o", "out.safetensors", *names)["peak_anon_bytes"] / 2**20)
        assert peaks[-1] < limit, peaks
    print("peaks in MiB:", peaks)


def many():
    """100,000 small tensors."""
    model = {f"t.{number}": ("F32", numpy.full(3, number, "f4")) for number in range(100000)}
    tensors.write("a.safetensors", model)
    began = time.monotonic()
    result = run("-o", "out.safetensors", *["a.safetensors"] * 4)
    took = time.monotonic() - began
    assert result["tensors"] == 100000
    found, _ = tensors.read("out.safetensors")
    assert all(tensors.same(model[name], found[name]) for name in model)
    assert took < 60, took
    print(f"{took / 400000 * 1e6:.2f} us per tensor and input")


CHECKS = (means, layouts, shards, reference, same_bits, special, robust, others, kills, damage, changes, memory, many)

if __name__ == "__main__":
    {check.__name__: check for check in CHECKS}[sys.argv[2]]()
