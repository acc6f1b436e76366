# SPDX-License-Identifier: Apache-2.0
"""
What the symbols of the objects show: links.py ROOT BUILD

- No object of libcore/ uses a symbol that a directory above it defines. layers.py reads includes; a
  declaration that is repeated by hand would escape it.
- A function or table with external linkage is used by another object, tests included; else it is
  static or dead. One that only tests use is dead as well.
"""
import os
import re
import subprocess
import sys

import tree
from directories import DIRECTORIES, PRINTERS, directory_of

OBJECTS = "libcore/CMakeFiles/flmem_objects.dir"
COMMAND = "cli/CMakeFiles/flmem_cli_objects.dir"
# The generator is not part of the library or the command: nothing else may use its symbols.
GENERATOR = "cli/CMakeFiles/flmem_gen.dir"
SAMPLER = "libcore/CMakeFiles/flmem_sampler.dir"

# (symbol that nothing in libcore/ or cli/ uses, reason to keep it)
ALLOWED = (
    ("flmem_cleanup_memory_with", "the public interface for a program's own process"),
    ("flmem_crc32c_portable", "the tests compare the kernels of all instruction sets"),
    ("flmem_exchange_crc32c", "the client in Python"),
    ("flmem_exchange_crc32c_join", "the client in Python"),
    ("flmem_kernels_at", "the tests compare the kernels of all instruction sets"),
)


def objects(top):
    for directory, _, names in os.walk(top):
        for name in names:
            if name.endswith(".o"):
                path = os.path.join(directory, name)
                yield path, os.path.relpath(path, top)[:-len(".o")]


def symbols(paths):
    """Returns for each object (the symbols that it defines, those that it uses)."""
    found = {path: (set(), set()) for path in paths}
    if not found:
        return found
    listed = subprocess.run(["nm", "-A", "-P", *found], stdout=subprocess.PIPE, check=True, text=True)
    for line in listed.stdout.splitlines():
        path, name, kind = line.rsplit(": ", 1)[0], *line.rsplit(": ", 1)[1].split()[:2]
        if kind == "U":
            found[path][1].add(name)
        # skip AddressSanitizer's own symbols
        elif kind.isupper() and not name.startswith("__odr_asan."):
            found[path][0].add(name)
    return found


def tables(top, build, folder, directory):
    """Returns a dict of names of sources in `folder` to the symbols of their objects in
    `directory`."""
    names = {path: f"{folder}/{name}" for path, name in objects(os.path.join(build, directory))}
    # Skip an object whose source was deleted.
    names = {path: name for path, name in names.items() if os.path.exists(os.path.join(top, name))}
    return {names[path]: found for path, found in symbols(names).items()}


def is_used_within(text, symbol):
    code = re.sub(r'/\*.*?\*/|"(?:\\.|[^"\\\n])*"', "", text, flags=re.S)
    return len(re.findall(rf"\b{symbol}\b", code)) > 1


def used_by(paths):
    return set().union(*(used for _, used in symbols(paths).values()))


def exported(build):
    """Returns the symbols that the preloaded libraries export to other programs."""
    folder = os.path.join(build, "libcore", "flmem")
    paths = [os.path.join(folder, n) for n in (os.listdir(folder) if os.path.isdir(folder) else ()) if n.endswith(".so")]
    listed = subprocess.run(["nm", "-D", "-P", *paths], stdout=subprocess.PIPE, check=True, text=True).stdout if paths else ""
    return {line.split()[0] for line in listed.splitlines() if len(line.split()) > 2}


def is_in_assembler(symbol, words):
    """Detects a use that the compiler does not show. A macro may append the end of a name: "jmp
    sampler_watch_" #name."""
    return symbol in words or any(symbol.startswith(w) for w in words if w.endswith("_") and w.count("_") > 1)


def words_of_texts(top, own):
    return {word for name in own for text in re.findall(r'"(?:\\.|[^"\\\n])*"', tree.text(top, name))
            for word in re.findall(r"\w+", re.sub(r"\\.", " ", text))}


def unused(top, build, own):
    """Returns the symbols of the sources `own` that should be static, or deleted."""
    paths = [path for path, _ in objects(build)]
    in_tests = os.path.join(build, "tests") + os.sep
    ours = used_by([p for p in paths if not p.startswith(in_tests)])
    tests = used_by([p for p in paths if p.startswith(in_tests)])
    allowed = {symbol for symbol, _ in ALLOWED}
    words = words_of_texts(top, [n for n in own if n.startswith("libcore/preload/")])
    outside = {s for defined, _ in own.values() for s in defined if is_in_assembler(s, words)} | exported(build) | {"main"}
    for name, (defined, _) in sorted(own.items()):
        for symbol in sorted(defined - ours - outside):
            within = is_used_within(tree.text(top, name), symbol)
            if symbol not in tests and within:
                yield f"{name}: no other file uses {symbol}: make it static"
            elif not within and symbol not in allowed:
                yield f"{name}: nothing uses {symbol}" + (" but tests" if symbol in tests else "")


def finding(user, owner, symbol):
    user, owner = user[len("libcore/"):], owner[len("libcore/"):]
    below, above = directory_of(user), directory_of(owner)
    if below == above or below in PRINTERS or above in DIRECTORIES.get(below, ()):
        return None
    return f"libcore/{user}: uses {symbol} of {owner}: {below}/ may not depend on {above}/"


def main():
    top, build = tree.root(), sys.argv[2]
    library, command = (tables(top, build, *where)
                        for where in (("libcore", OBJECTS), ("cli", COMMAND)))
    if not library:
        print(f"links: no objects below {build}/{OBJECTS}: this checks nothing")
        sys.exit(1)
    owners = {symbol: name for name, (defined, _) in library.items() for symbol in defined}
    findings = [finding(user, owners[symbol], symbol)
                for user, (_, used) in sorted(library.items())
                for symbol in sorted(used) if symbol in owners]
    apart = {**tables(top, build, "libcore", SAMPLER), **tables(top, build, "cli", GENERATOR)}
    findings += unused(top, build, {**library, **command, **apart})
    tree.finish([f for f in findings if f], len(library) + len(command) + len(apart))


main()
