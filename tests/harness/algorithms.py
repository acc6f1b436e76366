#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
The algorithms of `flmem aggregate` against NumPy in float64, in the current directory, which is
empty:

    algorithms.py FLMEM CHECK
"""
import json
import os
import random
import struct
import sys
import tempfile
import time

import numpy

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

from harness import aggregations, tensors  # noqa: E402
from harness.aggregate_calls import kill_begun  # noqa: E402
from harness.file_sizes import size_of  # noqa: E402

run = aggregations.run
REAL = ("F64", "F32", "F16", "BF16")
POLL_S = 0.0005


def refused(words, *names):
    message = run("-o", "none.safetensors", *names, status=2)["error"]["message"]
    assert words in message, message
    assert not os.path.exists("none.safetensors") and not os.path.exists("none.safetensors.part")


def sums():
    """Checks that masks which add up to 0 modulo the size of the type disappear."""
    source = numpy.random.default_rng(1)
    kinds = {"I8": "u1", "U8": "u1", "I16": "u2", "U16": "u2", "I32": "u4", "U32": "u4",
             "I64": "u8", "U64": "u8"}
    models, expected = [{}, {}, {}, {}], {}
    for kind, unsigned in kinds.items():
        bits = 8 * numpy.dtype(unsigned).itemsize
        values = source.integers(0, 2**bits, (4, 3001), dtype=unsigned)
        masks = source.integers(0, 2**bits, (4, 3001), dtype=unsigned)
        masks[3] = -(masks[0] + masks[1] + masks[2])
        for model, array in zip(models, values + masks):
            model[kind] = (kind, array.view(tensors.TYPES[kind]))
        expected[kind] = (kind, values.sum(0, dtype=unsigned).view(tensors.TYPES[kind]))
    names = [f"{number}.safetensors" for number in range(4)]
    for name, model in zip(names, models):
        tensors.write(name, model)
    for words in ([], ["--chunk", "64K", "--threads", "3"]):
        run("-o", "out.safetensors", "-a", "sum", *words, *names)
        found, _ = tensors.read("out.safetensors")
        assert all(tensors.same(found[kind], expected[kind]) for kind in kinds)
    refused("does not use weights", "-a", "sum", "--weights", "1,2,3,4", *names)
    for algorithm in ("median", "trimmed-mean"):
        refused("secure aggregation", "-a", algorithm, "--non-float", "round", *names)
    tensors.write("real.safetensors", {"a": models[0]["I32"], "w": ("F32", numpy.ones(3, "f4"))})
    refused("tensor 'w' of 'real.safetensors' is F32", "-a", "sum", "real.safetensors")


def reals(model):
    return [name for name, (kind, _) in model.items() if kind in REAL]


def flat(model):
    return numpy.concatenate([tensors.to_double(*model[name]).ravel() for name in reals(model)])


def same_reals(path, expected, models):
    """Compares with `expected`, an array of doubles per name. All results except sums of squares
    have the same bits."""
    found, _ = tensors.read(path)
    for name in reals(models[0]):
        kind = models[0][name][0]
        assert tensors.same((kind, tensors.from_double(kind, expected[name])), found[name]), name


def close_reals(path, expected, models):
    """Sums of squares differ in the last bits of a double, which can change a rounding."""
    found, _ = tensors.read(path)
    for name in reals(models[0]):
        kind = models[0][name][0]
        wanted = tensors.from_double(kind, expected[name])
        got = found[name][1]
        assert numpy.allclose(tensors.to_double(kind, got), tensors.to_double(kind, wanted),
                              {"F64": 1e-12, "F32": 3e-7, "F16": 2e-3, "BF16": 2e-2}[kind], 0), name
        assert kind == "F64" or got.size == 0 or (got == wanted).mean() > 0.99, name


def write(models):
    names = [f"client-{number}.safetensors" for number in range(len(models))]
    for name, model in zip(names, models):
        tensors.write(name, model, {"format": "pt"})
    return names


def noisy(count, hostile, size=60):
    """Returns models near each other, and the last ones far away, all in the same direction."""
    models = [tensors.sample(1, size) for _ in range(count)]
    for number, model in enumerate(models):
        source = numpy.random.default_rng(100 + number)
        for name in reals(model):
            kind, array = model[name]
            values = tensors.to_double(kind, array) + source.standard_normal(array.shape) * 0.01
            if number >= count - hostile:
                values = values * -20
            model[name] = (kind, tensors.from_double(kind, values))
    return models


def scores(models, hostile, nearest=None):
    """Computes Krum's scores (Blanchard et al., 2017, section 4)."""
    rows = [flat(model) for model in models]
    squares = numpy.array([[((one - other)**2).sum() for other in rows] for one in rows])
    nearest = nearest or max(1, len(models) - hostile - 2)
    return [numpy.sort(numpy.delete(squares[i], i))[:nearest].sum() for i in range(len(models))]


def mean(models, weights=None):
    weights = weights or [1] * len(models)
    return {name: sum(tensors.to_double(*model[name]) * weight
                      for model, weight in zip(models, weights)) / sum(weights)
            for name in reals(models[0])}


def chosen(result):
    return [number for number, one in enumerate(result["inputs"]) if not one["skipped"]]


def krum():
    """Krum and multi-Krum, with the default and other numbers of hostile inputs."""
    for count, hostile in ((5, 1), (9, 3), (9, 2), (20, 4)):
        models = noisy(count, hostile)
        names = write(models)
        order = numpy.argsort(scores(models, hostile), kind="stable")
        words = [] if hostile == (count - 3) // 2 else ["--hostile", str(hostile)]
        result = run("-o", "out.safetensors", "-a", "krum", *words, *names)
        assert chosen(result) == [order[0]], (chosen(result), order)
        same_reals("out.safetensors", mean([models[order[0]]]), models)
        weights = [number + 1 for number in range(count)]
        for keep in (count - hostile - 2, 3):
            more = [] if keep == count - hostile - 2 else ["--keep", str(keep)]
            result = run("-o", "out.safetensors", "-a", "multi-krum", *words, *more, "--weights",
                         ",".join(map(str, weights)), *names)
            best = sorted(order[:keep])
            assert chosen(result) == best, (chosen(result), best)
            same_reals("out.safetensors", mean([models[i] for i in best],
                                               [weights[i] for i in best]), models)
    refused("too few", "-a", "krum", *names[:4])
    refused("too few", "-a", "krum", "--hostile", "2", *names[:6])
    refused("cannot keep 7 (--keep) of 6", "-a", "multi-krum", "--keep", "7", *names[:6])
    refused("does not use weights", "-a", "krum", "--weights", "1,1,1,1,1", *names[:5])
    refused("does not use the number of hostile", "-a", "median", "--hostile", "1", *names[:5])
    refused("--nan skip-client", "-a", "krum", "--nan", "propagate", *names[:5])
    models[2]["layers.0.bias"][1][5] = numpy.nan
    write(models)
    refused("'client-2.safetensors' has a NaN", "-a", "krum", *names)
    left = models[:2] + models[3:]
    result = run("-o", "out.safetensors", "-a", "multi-krum", "--hostile", "4", "--keep", "4", "--nan",
                 "skip-client", *names)
    best = numpy.argsort(scores(left, 4), kind="stable")[:4]
    assert chosen(result) == sorted(number + (number >= 2) for number in best)
    assert "NaN" in result["inputs"][2]["skipped"]
    # The defaults depend on the inputs that are left.
    models[0]["layers.0.bias"][1][0] = numpy.inf
    write(models)
    left = models[1:2] + models[3:]
    result = run("-o", "out.safetensors", "-a", "multi-krum", "--nan", "skip-client", *names)
    best = numpy.argsort(scores(left, 7), kind="stable")[:9]
    assert chosen(result) == sorted(number + 1 + (number >= 1) for number in best)


def bulyan():
    """Bulyan: repeated Krum, then the mean of the values nearest to the median."""
    for count, hostile in ((7, 1), (12, 2), (23, 5)):
        models = noisy(count, hostile)
        names = write(models)
        result = run("-o", "out.safetensors", "-a", "bulyan", *names)
        left, best = list(range(count)), []
        for _ in range(count - 2 * hostile):
            values = scores([models[i] for i in left], hostile)
            best.append(left.pop(int(numpy.argmin(values))))
        assert chosen(result) == sorted(best)
        expected = {}
        for name in reals(models[0]):
            values = numpy.sort([tensors.to_double(*models[i][name]) for i in best], axis=0)
            near = numpy.argsort(numpy.abs(values - numpy.median(values, axis=0)), axis=0,
                                 kind="stable")[:len(best) - 2 * hostile]
            near = numpy.sort(numpy.take_along_axis(values, near, 0), axis=0)
            expected[name] = sum(near) / len(near)
        same_reals("out.safetensors", expected, models)
    refused("needs 7 or more", "-a", "bulyan", *names[:6])


def clipped():
    """Updates of the base, or inputs that are updates, scaled to a norm."""
    models = noisy(6, 1)
    base = tensors.sample(1, 60)
    names = write(models)
    tensors.write("base.safetensors", base)
    weights = [3, 1, 2, 5, 4, 1]
    for words, zero in (([], True), (["--base", "base.safetensors"], False)):
        start = {name: tensors.to_double(*base[name]) * (not zero) for name in reals(base)}
        origin = numpy.concatenate([start[name].ravel() for name in reals(base)])
        norms = [numpy.sqrt(((flat(model) - origin)**2).sum()) for model in models]
        for most in (None, float(numpy.sort(norms)[1]), 1e9):
            largest = most or numpy.median(norms)
            expected = {name: start[name] + sum(
                (tensors.to_double(*model[name]) - start[name]) * weight * min(1, largest / norm)
                for model, weight, norm in zip(models, weights, norms)) / sum(weights)
                for name in reals(base)}
            run("-o", "out.safetensors", "-a", "norm-clipped-mean", "--weights",
                ",".join(map(str, weights)), *words,
                *(["--clip-norm", repr(most)] if most else []), *names)
            close_reals("out.safetensors", expected, models)
    refused("does not use a base", "--base", "base.safetensors", *names)
    refused("clips nothing", "--clip-norm", "1", *names)
    refused("cannot read 'none'", "-a", "norm-clipped-mean", "--base", "none", *names)
    base["layers.0.bias"][1][5] = numpy.inf
    tensors.write("base.safetensors", base)
    for words in ([], ["--nan", "skip-client"]):
        refused("'base.safetensors'", "-a", "norm-clipped-mean", "--base", "base.safetensors", *words,
                *names)


def same_bits():
    """Neither chunks nor threads change what is measured."""
    models = [tensors.sample(number, 20000) for number in range(7)]
    names = write(models)
    for algorithm in ("norm-clipped-mean", "multi-krum", "bulyan"):
        run("-o", "expected.safetensors", "-a", algorithm, *names)
        for chunk, threads in (("64K", 3), ("192K", 1), ("1M", 8)):
            run("-o", "out.safetensors", "-a", algorithm, "--chunk", chunk, "--threads", str(threads),
                *names)
            assert aggregations.content("out.safetensors") == \
                aggregations.content("expected.safetensors"), (algorithm, chunk, threads)


def memory():
    """Memory stays within the limits of docs/guides/aggregate.md, for models of 448 MiB together."""
    names = aggregations.write_large(7, 64)
    for algorithm in ("norm-clipped-mean", "krum", "bulyan"):
        peak = run("-o", "out.safetensors", "-a", algorithm, *names)["peak_anon_bytes"]
        assert peak < 96 << 20, (algorithm, peak)


def extremes():
    """Norms and distances that are 0, or more than a double can hold."""
    values = {"base": (1, 2), "near": (1, 3), "far": (4, 2), "huge": (1e300, 1e300), "large": (-1e300, 1e300)}
    for name, model in values.items():
        tensors.write(name, {"w": ("F64", numpy.array(model, "f8"))})
    mean, clipped = ["-o", "out", "-a", "norm-clipped-mean"], ["--base", "base"]

    def result():
        return tensors.read("out")[0]["w"][1].tolist()
    skipped = [one["skipped"] for one in run(*mean, *clipped, "base", "base", "far")["inputs"]]
    assert skipped == [None, None, "its update is scaled to 0"] and result() == [1, 2], skipped
    # The norm of half of the inputs is infinite, and so is the median; such inputs must still be
    # left out.
    for names, left in ((("near", "huge"), [1, 3]), (("huge", "base", "near", "large"), [1, 2.5])):
        skipped = {one["skipped"] for one in run(*mean, *clipped, *names)["inputs"]}
        assert skipped == {None, "the norm of its update is infinite"} and result() == left, (skipped, result())
    refused("each is skipped, 'huge' because the norm", "-a", "norm-clipped-mean", "huge", "large")
    for algorithm in ("krum", "multi-krum"):
        refused("the distances between them are infinite", "-a", algorithm, "huge", "large", "huge", "large", "near")
    run("-o", "out", "-a", "krum", "huge", "base", "near", "far", "large", "near", "base")
    assert result() in ([1, 2], [1, 3])


def state_type(kind):
    return "f8" if kind == "F64" else "f4"


class Server:
    """Algorithm 2 of Reddi et al., 2021, and FedAvgM of Hsu et al., 2019, in float64."""

    def __init__(self, algorithm, base, rate, beta1, beta2, tau):
        self.algorithm, self.rate, self.beta1, self.beta2 = algorithm, rate, beta1, beta2
        self.tau, self.base = tau, base
        self.model = {name: tensors.to_double(*base[name]) for name in reals(base)}
        self.momentum = {name: 0 * value for name, value in self.model.items()}
        self.variance = {name: 0 * value + tau * tau for name, value in self.model.items()}

    def keep(self, values, name, value):
        values[name] = value.astype(state_type(self.base[name][0])).astype("f8")

    def step(self, average):
        """Returns the new model. The kept state is rounded to its types."""
        result = {}
        for name, value in average.items():
            step = value - self.model[name]
            square, old = step * step, self.variance[name]
            if self.algorithm == "fedavgm":
                momentum = self.beta1 * self.momentum[name] + step
                result[name] = self.model[name] + self.rate * momentum
            else:
                momentum = self.beta1 * self.momentum[name] + (1 - self.beta1) * step
                variance = {
                    "fedadam": self.beta2 * old + (1 - self.beta2) * square,
                    "fedyogi": old - (1 - self.beta2) * square * numpy.sign(old - square),
                    "fedadagrad": old + square}[self.algorithm]
                result[name] = self.model[name] + self.rate * momentum / (
                    numpy.sqrt(variance) + self.tau)
                self.keep(self.variance, name, variance)
            self.keep(self.momentum, name, momentum)
            self.keep(self.model, name, result[name])
        return result


ADAPTIVE = {"fedavgm": ([], (1, 0.9, 0, 1)), "fedadam": ([], (0.1, 0.9, 0.99, 1e-3)),
            "fedyogi": (["--server-rate", "0.02", "--beta1", "0.5", "--beta2", "0.9", "--tau", "0.01"],
                        (0.02, 0.5, 0.9, 0.01)),
            "fedadagrad": ([], (0.1, 0, 0, 1e-3))}


def adaptive():
    """Three rounds; the state is that of the reference, too."""
    base = tensors.sample(77, 60)
    tensors.write("base.safetensors", base)
    for algorithm, (words, numbers) in ADAPTIVE.items():
        server, state = Server(algorithm, base, *numbers), f"{algorithm}.safetensors"
        for number in range(3):
            models = [tensors.sample(10 * number + one, 60) for one in range(3)]
            names = write(models)
            run("-o", "out.safetensors", "-a", algorithm, "--state", state, "--base",
                "base.safetensors", "--weights", "1,2,4", *words, *names)
            same_reals("out.safetensors", server.step(mean(models, [1, 2, 4])), models)
        kept, notes = tensors.read(state)
        assert notes["flmem.algorithm"] == algorithm and notes["flmem.round"] == "3", notes
        slots = {"model": server.model, "momentum": server.momentum}
        slots.update({"variance": server.variance} if algorithm != "fedavgm" else {})
        for slot, values in slots.items():
            for name, value in values.items():
                kind, found = kept.pop(f"{slot}.{name}")
                assert kind == ("F64" if base[name][0] == "F64" else "F32")
                assert numpy.array_equal(found, value), (algorithm, slot, name)
        assert not kept


def states():
    """States of other algorithms and models, damaged ones, and rounds that are complete."""
    models = [tensors.sample(number, 20) for number in range(3)]
    names = write(models)
    tensors.write("base.safetensors", tensors.sample(9, 20))
    adam = ["-a", "fedadam", "--state", "state.safetensors"]
    refused("name its file with --state", "-a", "fedadam", *names)
    refused("does not keep a state; --state is for fedavgm", "--state", "state.safetensors", *names)
    refused("does not use a rate or beta1", "--server-rate", "1", *names)
    refused("does not use tau", "--tau", "1", *names)
    momentum = ["-a", "fedavgm", "--state", "state.safetensors", "--base", "base.safetensors"]
    refused("does not use tau", *momentum, "--tau", "1", *names)
    refused("does not use beta2", *momentum, "--beta2", "0.5", *names)
    grad = ["-a", "fedadagrad", *momentum[2:]]
    refused("does not use beta2", *grad, "--beta2", "0.5", *names)
    refused("is both state and output", *adam, "--base", "base.safetensors", "-o", "state.safetensors", *names)
    refused("name the model that the clients started from with --base", *adam, *names)
    refused("--nan skip-client", *adam, "--nan", "propagate", *names)
    for words in (["--beta1", "1"], ["--tau", "0"], ["--server-rate", "-1"]):
        refused("invalid number", *adam, *words, *names)
    message = run("-o", "base.safetensors", *adam, "--base", "base.safetensors", *names,
                  status=2)["error"]["message"]
    assert "both base and output" in message, message
    assert not os.path.exists("state.safetensors")
    first = ["-o", "out.safetensors", *adam, "--base", "base.safetensors", *names]
    run("--resume", *first)
    message = run("--resume", *first, status=2)["error"]["message"]
    assert "round 1 is complete" in message, message
    good = aggregations.content("state.safetensors")
    tensors.write("other.safetensors", {"w": ("F32", numpy.ones(3, "f4"))})
    refused("'state.safetensors' is not the state of this model: 'other.safetensors' has no tensor 'model.embed.weight', "
            "which 'state.safetensors' has", *adam, "other.safetensors")
    refused("is not a state of 'fedyogi'", "-a", "fedyogi", "--state", "state.safetensors", *names)
    refused("is not a state of 'fedadam'", "-a", "fedadam", "--state", "base.safetensors", *names)
    tensors.write("other.safetensors", {"w": ("F32", numpy.ones(3, "f4"))})
    refused("has no tensor", *adam, "other.safetensors")
    for damaged in (good[:-8], good[:100], good.replace(b'round":"1"', b'round":"x"')):
        with open("state.safetensors", "wb") as file:
            file.write(damaged)
        refused("state.safetensors", *adam, *names)
        assert aggregations.content("state.safetensors") == damaged
    tensors.write("long.safetensors", {"w" * 4090: ("F32", numpy.ones(3, "f4"))})
    refused("too long for a state", "-a", "fedadam", "--state", "none", "--base", "long.safetensors",
            "long.safetensors")
    refuse_huge()
    with open("state.safetensors", "wb") as file:
        file.write(good)
    models[1]["layers.0.bias"][1][5] = numpy.inf
    tensors.write(names[1], models[1])
    refused("'client-1.safetensors' has a NaN", *adam, *names)
    assert aggregations.content("state.safetensors") == good
    run("-o", "out.safetensors", *adam, "--nan", "skip-client", *names)
    skipped = aggregations.content("out.safetensors"), tensors.read("state.safetensors")[0]
    with open("state.safetensors", "wb") as file:
        file.write(good)
    run("-o", "out.safetensors", *adam, names[0], names[2])
    assert aggregations.content("out.safetensors") == skipped[0]
    again = tensors.read("state.safetensors")[0]
    assert all(tensors.same(again[name], skipped[1][name]) for name in again)


def refuse_huge():
    """Tests a sparse file whose state would have more bytes than 64 bits count."""
    with tempfile.NamedTemporaryFile(dir="/dev/shm") as file:
        size = 1 << 60
        text = json.dumps({"w": {"dtype": "F8_E4M3", "shape": [size],
                                 "data_offsets": [0, size]}}).encode()
        file.write(struct.pack("<Q", len(text)) + text)
        file.flush()
        try:
            os.truncate(file.name, 8 + len(text) + size)
        except OSError:
            return  # the file system cannot have such files
        refused("is too large", "-a", "fedadam", "--state", "none", "--base", file.name, file.name)


def kill_at(process, least_bytes):
    """Kills it once its journal has that size, unless it ends before."""
    while process.poll() is None and size_of("out.safetensors.part.journal") < least_bytes:
        time.sleep(POLL_S)
    process.kill()
    process.communicate()


def state_kills():
    """Checks that a run killed at any instant and resumed gives output and state of an undisturbed
    run."""
    *names, base = aggregations.write_large(4, 24)
    words = ["-o", "out.safetensors", "-a", "fedadam", "--chunk", "256K", "--state",
             "state.safetensors"]
    run(*words, "--base", base, *reversed(names))
    before = aggregations.content("state.safetensors")
    began = time.monotonic()
    run(*words, *names)
    took = time.monotonic() - began
    expected = [aggregations.content(f"{name}.safetensors") for name in ("out", "state")]
    resumed = 0

    def put_back():
        with open("state.safetensors", "wb") as file:
            file.write(before)

    for number in range(8):
        put_back()
        for _ in range(3):
            process = aggregations.start("--resume", *words, *names)
            if number % 2:
                kill_at(process, random.randrange(1000))
            else:
                time.sleep(random.random() * took)
                kill_at(process, 0)
            assert aggregations.content("state.safetensors") in (before, expected[1])
        if number == 1:
            kill_begun("out.safetensors", *words, *names, prepare=put_back)
        if aggregations.content("state.safetensors") == before:
            resumed += run("--resume", *words, *names)["resumed_bytes"]
        if number == 0:  # the output was renamed, but not the state
            put_back()
            run("--resume", *words, *names)
        found = [aggregations.content(f"{name}.safetensors") for name in ("out", "state")]
        # The state has a fingerprint of the inputs, whose times and paths are unchanged.
        assert found == expected, number
        left = [name for name in os.listdir(".") if ".part" in name]
        assert not left, left
    assert resumed > 0, "nothing was ever resumed"


CHECKS = (sums, adaptive, states, state_kills, krum, bulyan, clipped, extremes, same_bits, memory)

if __name__ == "__main__":
    {check.__name__: check for check in CHECKS}[sys.argv[2]]()
