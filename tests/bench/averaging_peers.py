# SPDX-License-Identifier: Apache-2.0
"""
The mean of safetensors files as Python programs compute it: averaging_peers.py WAY OUTPUT INPUT...

numpy, torch      tensor by tensor from mapped files, in float32, written as they are made
appfl, nvflare    whole models in memory: all loaded, then summed; added to a running sum one by one
                  (the arithmetic of those servers, not their code)
"""
import json
import os
import struct
import sys

import numpy


def places(path):
    with open(path, "rb") as file:
        length = struct.unpack("<Q", file.read(8))[0]
        text = file.read(length)
    header = json.loads(text)
    header.pop("__metadata__", None)
    return [(8 + length + v["data_offsets"][0], v["data_offsets"][1] - v["data_offsets"][0])
            for v in header.values()], struct.pack("<Q", length) + text


def mapped(path):
    return numpy.memmap(path, "u1", "r")


def arrays(path, spans):
    whole = mapped(path)
    return [whole[at:at + size].view("f4") for at, size in spans]


def with_numpy(models):
    for parts in zip(*models):
        total = parts[0] + parts[1]
        for part in parts[2:]:
            total += part
        total /= len(parts)
        yield total


def with_torch(models):
    import warnings

    import torch
    warnings.simplefilter("ignore")  # mapped files are read-only
    for parts in zip(*models):
        total = torch.from_numpy(parts[0]) + torch.from_numpy(parts[1])
        for part in parts[2:]:
            total += torch.from_numpy(part)
        total /= len(parts)
        yield total.numpy()


def appfl(models):
    loaded = [[part.copy() for part in model] for model in models]
    yield from with_numpy(loaded)


def nvflare(models):
    total = None
    for model in models:
        loaded = [part.copy() for part in model]
        if total is None:
            total = loaded
        else:
            for index, part in enumerate(loaded):
                total[index] = total[index] + part
    for part in total:
        yield part / len(models)


def main():
    way, output, *names = sys.argv[1:]
    spans, head = places(names[0])
    models = [arrays(name, spans) for name in names]
    run = {"numpy": with_numpy, "torch": with_torch, "appfl": appfl, "nvflare": nvflare}[way]
    with open(output, "wb") as file:
        file.write(head)
        for array in run(models):
            array.tofile(file)
        os.fdatasync(file.fileno())


main()
