#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
The mean of four models of 1 GiB by mergekit and by flmem, from the same files: the smallest time of some
rounds in turn, and the peak RSS. mergekit is 0.0.6, the last release that runs on Debian's PyTorch 1.13,
with as many threads as it takes by itself.

    merging.py BUILD [--rounds 3]
"""
import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "python"))

import frameworks  # noqa: E402

MODELS = 4
HIDDEN, INNER, LAYERS, WORDS = 2048, 5632, 4, 16384
CONFIG = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": HIDDEN,
          "intermediate_size": INNER, "num_hidden_layers": LAYERS, "num_attention_heads": 32,
          "num_key_value_heads": 32, "vocab_size": WORDS, "torch_dtype": "float32",
          "tie_word_embeddings": False}
WRITE = """
import json, sys
import torch
from safetensors.torch import save_file
folder, seed, shapes = sys.argv[1], int(sys.argv[2]), json.loads(sys.argv[3])
torch.manual_seed(seed)
save_file({name: torch.rand(shape) for name, shape in shapes.items()}, folder + "/model.safetensors",
          metadata={"format": "pt"})
"""


def shapes():
    found = {"model.embed_tokens.weight": [WORDS, HIDDEN], "lm_head.weight": [WORDS, HIDDEN],
             "model.norm.weight": [HIDDEN]}
    for number in range(LAYERS):
        layer = f"model.layers.{number}."
        for name in ("q_proj", "k_proj", "v_proj", "o_proj"):
            found[f"{layer}self_attn.{name}.weight"] = [HIDDEN, HIDDEN]
        for name in ("gate_proj", "up_proj"):
            found[f"{layer}mlp.{name}.weight"] = [INNER, HIDDEN]
        found[f"{layer}mlp.down_proj.weight"] = [HIDDEN, INNER]
        for name in ("input_layernorm", "post_attention_layernorm"):
            found[f"{layer}{name}.weight"] = [HIDDEN]
    return found


def write_models(python, folder):
    for number in range(MODELS):
        place = os.path.join(folder, f"model-{number}")
        os.mkdir(place)
        with open(os.path.join(place, "config.json"), "w", encoding="utf-8") as file:
            json.dump(CONFIG, file)
        subprocess.run([python, "-c", WRITE, place, str(number), json.dumps(shapes())], check=True)
        yield place


def measure(words, output):
    """Returns (seconds, bytes of the highest RSS)."""
    started = time.monotonic()
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as job:
        _, status, usage = os.wait4(job.pid, 0)
        job.returncode = os.waitstatus_to_exitcode(status)
    took_s = time.monotonic() - started
    if job.returncode or not os.path.exists(output):
        raise SystemExit(f"{' '.join(words)}: status {job.returncode}")
    return took_s, usage.ru_maxrss << 10


def ways(options, python, folder, places):
    plan = os.path.join(folder, "plan.json")  # JSON is YAML as well
    with open(plan, "w", encoding="utf-8") as file:
        json.dump({"merge_method": "linear", "dtype": "float32",
                   "models": [{"model": place, "parameters": {"weight": 1.0}} for place in places]}, file)
    merged, output = os.path.join(folder, "merged"), os.path.join(folder, "mean.safetensors")
    yield ("mergekit 0.0.6", [os.path.join(os.path.dirname(python), "mergekit-yaml"), plan, merged], merged)
    yield ("flmem aggregate", [os.path.join(options.build, "cli", "flmem"), "aggregate", "-o", output,
                               *(os.path.join(place, "model.safetensors") for place in places)], output)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("build")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    python = os.path.join(frameworks.home("mergekit"), "bin", "python")
    if not os.path.exists(python):
        frameworks.make("mergekit")
    with tempfile.TemporaryDirectory(prefix="flmem-merging-", dir=os.environ.get("FLMEM_BENCH_DIR")) as folder:
        found = {}
        places = list(write_models(python, folder))
        for _ in range(options.rounds):
            for name, words, output in ways(options, python, folder, places):
                found.setdefault(name, []).append(measure(words, output))
                shutil.rmtree(output) if os.path.isdir(output) else os.unlink(output)
        print("| program | time | peak RSS |\n|---|---:|---:|")
        for name, rows in found.items():
            print(f"| {name} | {min(row[0] for row in rows):.2f} s | {max(row[1] for row in rows) >> 20} MiB |")


main()
