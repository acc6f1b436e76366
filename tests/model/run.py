# SPDX-License-Identifier: Apache-2.0
"""
Checks the model of borrowing a thread (libcore/remote/borrow.pml) with spin, and that each fault
planted in it is found.

usage: run.py [--faults-only]
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
MODEL = os.path.join(HERE, "..", "..", "libcore", "remote", "borrow.pml")
sys.path.insert(0, os.path.join(HERE, ".."))

from harness import report, skip  # noqa: E402

# Without partial order reduction every order of steps is tried.
ASSERTIONS = ("assertions", ["-DSAFETY", "-DNOCLAIM"], [])
# Weak fairness: a process that can always continue does so eventually.
FORMULA = ("comes_back", ["-DNFAIR=4"], ["-a", "-f"])
DEPTH = "1000000"
LIMIT_S = 1800

# (macro of a fault, the check that must find it, further macros)
FAULTS = (
    ("FAULT_ARMED_FIRST", ASSERTIONS),
    ("FAULT_NOT_PEEKED", ASSERTIONS),
    ("FAULT_RESTORED_ANYWHERE", ASSERTIONS),
    ("FAULT_STAYS_TRACER", ASSERTIONS),
    ("FAULT_MASK_FIRST", ASSERTIONS),
    ("FAULT_WRITES_BY_PID", ASSERTIONS),
    ("FAULT_NOT_COMPARED", ASSERTIONS),
    ("FAULT_NOT_REPEATED", ASSERTIONS),
    ("FAULT_REPORTS_ONLY", FORMULA),
    ("FAULT_ENDLESS_PARK", FORMULA),
    ("FAULT_NOT_ENTERED", ASSERTIONS, "AARCH64"),
    ("FAULT_ASKED_MASK_FIRST", ASSERTIONS, "AARCH64"),
)
WHOLE = ((ASSERTIONS,), (FORMULA,), (FORMULA, "LIBRARY"), (ASSERTIONS, "AARCH64"),
         (FORMULA, "AARCH64"))


class Broken(Exception):
    """Raised if the model could not be checked."""


def run(words, directory):
    done = subprocess.run(words, cwd=directory, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, check=False, timeout=LIMIT_S)
    return done.returncode, done.stdout.decode(errors="replace")


def verify(macros, way, directory):
    """Returns (errors found, states, output of spin)."""
    _, flags, options = way
    define = [f"-D{macro}" for macro in macros]
    for words in (["spin", *define, "-a", os.path.abspath(MODEL)],
                  ["cc", "-O2", "-w", "-DNOREDUCE", *flags, "-o", "pan", "pan.c"]):
        status, text = run(words, directory)
        if status:
            raise Broken(text)
    # -E ignores invalid end states: a killed flmem ends in the middle of its work, which is not an
    # error.
    _, text = run(["./pan", "-E", "-m" + DEPTH, *options], directory)
    errors = re.search(r"errors: (\d+)", text)
    states = re.search(r"(\d+) states, stored", text)
    cut = "max search depth too small" in text or "out of memory" in text
    if not errors or not states or (cut and errors.group(1) == "0"):
        raise Broken(text)
    said = re.search(r"^pan:1: (.*?)(?: \(at depth \d+\))?$", text, re.M)
    return int(errors.group(1)), int(states.group(1)), said.group(1) if said else "", text


def check_unreached(text):
    """Returns the steps of flmem that no run reaches, and that are therefore not checked."""
    part = re.search(r"unreached in proctype flmem\n(.*?)\n(?:unreached|\n)", text, re.S)
    lines = part.group(1).splitlines() if part else []
    return [line.strip() for line in lines if "states)" not in line]


def check_model(rows, directory):
    problems = []
    for way, *macros in WHOLE:
        errors, states, said, text = verify(macros, way, directory)
        rows.append((" ".join(macros) or "the model", way[0], states, said or "holds"))
        if errors:
            problems.append(f"{way[0]}: {said}")
        if way is ASSERTIONS and check_unreached(text):
            problems.append(f"never reached: {check_unreached(text)}")
    return problems


def check_faults(rows, directory):
    problems = []
    with open(MODEL, encoding="utf-8") as file:
        planted = set(re.findall(r"\bFAULT_\w+", file.read()))
    if planted != {macro for macro, *_ in FAULTS}:
        problems.append("the faults of the model and of this list differ")
    for macro, way, *more in FAULTS:
        errors, states, said, _ = verify([macro, *more], way, directory)
        rows.append((macro, way[0], states, said or "SURVIVED"))
        if not errors:
            problems.append(f"{macro} is not found")
    return problems


def main():
    if not shutil.which("spin") or not shutil.which("cc"):
        skip("spin or a compiler is not installed")
    rows, problems = [], []
    with tempfile.TemporaryDirectory(prefix="flmem-model-") as directory:
        try:
            problems += check_faults(rows, directory)
            if "--faults-only" not in sys.argv[1:]:
                problems += check_model(rows, directory)
        except Broken as error:
            problems.append(str(error))
    report.table(("model", "checked by", "states", "result"), rows)
    for problem in problems:
        print(problem)
    print(f"{len(rows)} checks, {len(problems)} problems")
    sys.exit(bool(problems))


if __name__ == "__main__":
    main()
