# SPDX-License-Identifier: Apache-2.0
"""
test_recipes.py FLMEM: every recipe of the installed NVFlare, as its modules export it, in scripts with the memory
arguments that it has and lacks; what flmem recommend finds is compared with the constructor's own arguments and
defaults.
"""
import ast
import importlib.util
import json
import os
import subprocess
import sys
import tempfile

SERVER, CLIENT, OWN = "server_memory_gc_rounds", "client_memory_gc_rounds", "memory_gc_rounds"
INTERVALS = (SERVER, CLIENT, OWN)
ARGUMENTS = (*INTERVALS, "cuda_empty_cache", "enable_tensor_disk_offload")
# How a user may give a value that only a run shows, with the lines before the call.
UNKNOWN = {
    "constant": ("GC_ROUNDS = 0\n", "GC_ROUNDS"),
    "argparse": ("import argparse\nparser = argparse.ArgumentParser()\nparser.add_argument('--gc', type=int, default=0)\n"
                 "args = parser.parse_args()\n", "args.gc"),
    "environ": ("import os\n", "int(os.environ.get('GC_ROUNDS', '0'))"),
    "yaml": ("import yaml\nwith open('job.yaml') as file:\n    config = yaml.safe_load(file)\n", "config['memory']['gc']"),
    "dataclass": ("from dataclasses import dataclass\n\n\n@dataclass(frozen=True)\nclass Config:\n    gc: int = 0\n\n\n"
                  "config = Config()\n", "config.gc"),
    "condition": ("import sys\n", "5 if '--long' in sys.argv else 0"),
}


class Recipe:
    """A class of NVFlare's sources, with the modules from which users import it."""

    def __init__(self, module, node):
        arguments = next(n.args for n in node.body if isinstance(n, ast.FunctionDef) and n.name == "__init__")
        names = [a.arg for a in arguments.args[1:]]
        defaults = dict(zip(reversed(names), reversed(arguments.defaults)))
        defaults.update((a.arg, d) for a, d in zip(arguments.kwonlyargs, arguments.kw_defaults) if d)
        self.name, self.modules = node.name, [module]
        self.required = [n for n in names + [a.arg for a in arguments.kwonlyargs] if n not in defaults]
        self.memory = {n: ast.literal_eval(defaults[n]) for n in ARGUMENTS if n in defaults}
        self.has_rounds = "num_rounds" in names + [a.arg for a in arguments.kwonlyargs]

    def call(self, settings):
        """Returns the call with the required arguments, as a formatter writes it."""
        values = {n: "2" if n in ("min_clients", "num_rounds") else f"'{n}'" for n in self.required}
        return f"{self.name}(\n" + "".join(f"    {n}={v},\n" for n, v in {**values, **settings}.items()) + ")"


def sources(top):
    """Yields (module, tree) of the sources that are about recipes."""
    for folder, _, names in os.walk(top):
        for name in names:
            path = os.path.join(folder, name)
            if name.endswith(".py"):
                with open(path, encoding="utf-8") as file:
                    text = file.read()
                if "Recipe" in text:
                    module = os.path.relpath(path, os.path.dirname(top))[:-3].replace(os.sep, ".")
                    yield module.replace(".__init__", ""), ast.parse(text), name == "__init__.py"


def exported(module, tree, is_package):
    """Yields (module, name) of names that a module imports for its users: those of __all__."""
    listed = [ast.literal_eval(n.value) for n in tree.body if isinstance(n, ast.Assign)
              and getattr(n.targets[0], "id", "") == "__all__" and is_package]
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and listed:
            base = module if node.level else ""
            for name in node.names:
                if name.name in listed[0]:
                    yield f"{base}.{node.module}".strip("."), name.name


def recipes():
    """Returns all recipes with their own constructor, except the base of all."""
    top = os.path.dirname(importlib.util.find_spec("nvflare").origin)
    found, exports = {}, []
    for module, tree, is_package in sources(top):
        exports += [(module, *export) for export in exported(module, tree, is_package)]
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and "Recipe" in node.name and node.bases and node.name != "Recipe" \
                    and any("Recipe" in ast.unparse(b) for b in node.bases) \
                    and any(isinstance(n, ast.FunctionDef) and n.name == "__init__" for n in node.body):
                found[module, node.name] = Recipe(module, node)
    for package, module, name in exports:
        if (module, name) in found:
            found[module, name].modules.append(package)
    return list(found.values())


def expect_off(recipe, settings):
    """Returns the rules about sides that do not clean up, by the constructor's defaults."""
    off = set()
    for name, rule in ((SERVER, "NVF-SRV-GC-OFF"), (CLIENT, "NVF-CLI-GC-OFF"), (OWN, "NVF-CLI-GC-OFF")):
        if name in recipe.memory and str(settings.get(name, recipe.memory[name])) == "0":
            off.add(rule)
    return off


def cases(recipe):
    """Yields (name, script, the rules that must be found, the argument that a finding names)."""
    def script(settings, before="", module=recipe.modules[0]):
        return f"{before}from {module} import {recipe.name}\n\nrecipe = {recipe.call(settings)}\nrecipe.export('out')\n"

    rounds = {"num_rounds": "50"} if recipe.has_rounds else {}
    good = {**rounds, **{n: "1" for n in INTERVALS if n in recipe.memory}}
    for module in recipe.modules:
        yield f"default of {module}", script({}, module=module), expect_off(recipe, {}), None
    yield "good", script(good), set(), None
    for name in ARGUMENTS:
        if name not in recipe.memory:
            yield f"lacks {name}", script({**good, name: "1"}), {"NVF-KEY-UNKNOWN"}, name
            continue
        for what, (before, value) in UNKNOWN.items():
            yield f"{name} {what}", script({**good, name: value}, before), {"NVF-CANNOT-TELL"}, name
        others = {k: v for k, v in good.items() if k != name}
        yield f"{name} in **", script({**others, "**config": ""}).replace("**config=", "**config"), \
            {"NVF-CANNOT-TELL"}, name
        wrong = name[:-1]
        yield f"{name} misspelt", script({**others, wrong: "1"}), \
            {"NVF-KEY-UNKNOWN"}, wrong
    for name in (n for n in INTERVALS if n in recipe.memory):
        yield f"{name} 0", script({**good, name: "0"}), expect_off(recipe, {**good, name: "0"}), name
        yield f"{name} -1", script({**good, name: "-1"}), {"NVF-GC-INVALID"}, name
        if recipe.has_rounds:
            yield f"{name} 100", script({**good, name: "100"}), {"NVF-GC-NEVER-FIRES"}, name


def find(flmem, path):
    """Returns the findings in a file or folder."""
    done = subprocess.run([flmem, "recommend", "--json", path], stdout=subprocess.PIPE, check=False)
    return json.loads(done.stdout)["findings"] if done.stdout else []


def check_scripts(flmem, folder, recipe):
    """Checks all scripts of a recipe in one call; returns the defects."""
    wrong, wanted = [], {}
    for number, (name, script, rules, argument) in enumerate(cases(recipe)):
        path = os.path.join(folder, f"{recipe.modules[0]}.{recipe.name}", str(number), "job.py")
        os.makedirs(os.path.dirname(path))
        with open(path, "w", encoding="utf-8") as file:
            file.write(script)
        wanted[path] = name, rules, argument
    found = find(flmem, os.path.join(folder, f"{recipe.modules[0]}.{recipe.name}"))
    for path, (name, rules, argument) in wanted.items():
        own = [f for f in found if os.path.samefile(f["file"], path)]
        missing = [r for r in rules if not any(
            f["rule"] == r and (not argument or argument in f"{f['path']} {f['message']}") for f in own)]
        # A recipe without an argument for its memory has a finding in every case.
        silent = not recipe.memory and not own
        if missing or silent or any("does not know" in f["message"] for f in own):
            wrong.append(f"{recipe.modules[0]} {recipe.name}, {name}: not {missing} but {[f['rule'] for f in own]}")
    return wrong, len(wanted)


def main():
    flmem, wrong, count = sys.argv[1], [], 0
    found = recipes()
    assert len(found) > 30, f"only {[r.name for r in found]}"
    with tempfile.TemporaryDirectory() as folder:
        for recipe in found:
            more, scripts = check_scripts(flmem, folder, recipe)
            wrong += more
            count += scripts
    print(*wrong, sep="\n")
    print(f"{len(found)} recipes, {count} scripts, {len(wrong)} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
