# SPDX-License-Identifier: Apache-2.0
"""
Compares what README.md and docs/ show with what flmem prints: docs.py FLMEM [--write]

A fenced block whose first word is `console` is a transcript: each line that begins with "$ " is a
command, what follows it is its output, and a line "[...]" stands for any number of lines.

	```console              runs at the root of the source tree; its output must be equal
	```console live=NAME    runs on the process NAME of TARGETS, whatever PID the block has; numbers
	                        and bars may differ, and lines that depend on the machine may be added
	```console needs=FILE   runs where FILE exists
	```console recorded     is not run: it needs NVFlare, an installation or minutes

The options of flmem in every block, run or not, must exist, and so must each file and heading that
a link names. --write replaces outputs that differ, apart from those with "[...]".
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

TOP = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
GENERATED = ("docs/options.md", "docs/rules.md", "docs/metrics.md")
ELIDED = "[...]"
PYTHON = "/usr/bin/python3"

# name: (directory in which it starts, command, text after which it is idle, module that it needs)
TARGETS = {
    "server": ("demo", ["fl_server.py"], "waiting for round", "torch"),
    "worker": ("tests/victims", ["mixed.py"], "ready", None),
    "history": ("tests/victims", ["history.py"], "ready", None),
}
NUMBER = re.compile(r"-?\d[\d,.]*(?: (?:[KMGT]iB|B|us|ms|s|min|h|%)(?![\w]))?")


class Block:
    def __init__(self, name, line, info):
        self.name, self.line, self.info, self.lines = name, line, info, []

    def where(self):
        return f"{self.name}:{self.line}"

    def is_transcript(self):
        return self.info[:1] == ["console"]

    def word(self, key):
        return next((w[len(key):] for w in self.info if w.startswith(key)), None)

    def steps(self):
        """Returns (command, expected lines) in order; a backslash continues a command."""
        found = []
        for line in self.lines:
            if line.startswith("$ "):
                found.append((line[2:], []))
            elif found and found[-1][0].endswith("\\") and not found[-1][1]:
                found[-1] = (found[-1][0][:-1] + line.strip(), [])
            elif found:
                found[-1][1].append(line)
        return found


def read(name):
    with open(os.path.join(TOP, name), encoding="utf-8") as file:
        return file.read()


def documents():
    found = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"]
    for folder, _, names in os.walk(os.path.join(TOP, "docs")):
        found += [os.path.relpath(os.path.join(folder, n), TOP) for n in names if n.endswith(".md")]
    return sorted(found)


def blocks(name):
    found, inside = [], None
    for number, line in enumerate(read(name).split("\n"), 1):
        if line.startswith("```"):
            if inside:
                found.append(inside)
                inside = None
            else:
                inside = Block(name, number, line[3:].split())
        elif inside:
            inside.lines.append(line)
    return found


class Targets:
    """The live processes of a document, each of which is started when a block needs it."""

    def __init__(self):
        self.running = {}

    def pid(self, name):
        if name not in self.running:
            self.running[name] = self.start(*TARGETS[name])
        return self.running[name] and self.running[name].pid

    @staticmethod
    def start(folder, command, ready, module):
        if module and subprocess.run([PYTHON, "-c", f"import {module}"], check=False,
                                     stderr=subprocess.DEVNULL).returncode:
            return None
        process = subprocess.Popen([PYTHON, *command], cwd=os.path.join(TOP, folder), text=True,
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        for line in process.stdout:
            if ready in line:
                time.sleep(1)  # until its threads wait for work again
                return process
        raise SystemExit(f"{command[0]} ended before it printed '{ready}'")

    def end(self):
        for process in filter(None, self.running.values()):
            process.kill()
            process.wait()


def run(command, flmem, folder):
    """Returns an environment with a pid for flmem itself, and with the same Python first in
    PATH."""
    path = os.path.dirname(flmem) + ":/usr/bin:/bin"
    home = {"PATH": path, "LC_ALL": "C.UTF-8", "TZ": "UTC", "HOME": "/nonexistent"}
    sanitizers = {k: v for k, v in os.environ.items() if k.endswith("SAN_OPTIONS")}
    done = subprocess.run(["bash", "-c", command], cwd=folder, env=home | sanitizers, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    return done.stdout.rstrip("\n").split("\n") if done.stdout else []


def masked(lines):
    """Returns lines without figures, bars and breaks, so that two runs can be compared."""
    joined = []
    for line in lines:
        if joined and re.match(r" {8,}(?!- )", line):
            joined[-1] += " " + line.strip()
        else:
            joined.append(line.strip())
    return [" ".join(re.sub("[▁-▏]+", "", NUMBER.sub("#", line)).split()) for line in joined]


def follow(expected, actual):
    """Returns the first line that does not appear in order, or None."""
    rest = iter(actual)
    return next((line for line in expected if line not in rest), None)


def equal(expected, actual):
    """True if the texts are equal except for elided lines."""
    pattern = "".join(r"(?:.*\n)*" if line == ELIDED else re.escape(line) + r"\n"
                      for line in expected)
    return re.fullmatch(pattern, "".join(line + "\n" for line in actual)) is not None


def differs(command, expected, actual, live):
    """Returns what is wrong with the output of one command, or None."""
    if live:
        wrong = follow([line for line in masked(expected) if line != ELIDED], masked(actual))
        if wrong is None and expected:
            return None
        return f"'{command}' does not print: {wrong or 'nothing, and no output is shown'}"
    return None if equal(expected, actual) else f"'{command}' prints\n" + "\n".join(actual)


def check(block, flmem, pid, folder):
    """Runs a block; returns its findings and its present lines."""
    findings, now = [], []
    for command, expected in block.steps():
        if pid and command.startswith("flmem"):
            command = re.sub(r"--pid \d+", f"--pid {pid}", command)
        actual = run(command, flmem, folder)
        wrong = differs(command, expected, actual, bool(pid))
        if wrong:
            findings.append(f"{block.where()}: {wrong}")
        now += ["$ " + command, *(expected if ELIDED in expected else actual)]
    return findings, now


def unknown_options(block, helps, flmem):
    for line in "\n".join(block.lines).replace("\\\n", " ").split("\n"):
        call = re.match(r"(?:\$ |- run: |.*\(|- )?flmem (\w+)((?: [^|#&]*)?)", line)
        if not call or call[1] == "help":
            continue
        name = call[1]
        for verb in (None, *call[2].split()[:1]):
            if verb and f"flmem {name} {verb} [options]" in helps[name]:
                name = f"{name} {verb}"
            if name not in helps:
                helps[name] = " ".join(run(f"flmem {name} --help", flmem, TOP))
        for option in re.findall(r"(?<= )(--[a-z][\w-]*)", call[2].split(" -- ")[0]):
            if not re.search(rf"{option}(?![\w-])", helps[name]):
                yield f"{block.where()}: flmem {name} has no option {option}"


def anchors(name):
    text = re.sub(r"^```.*?^```", "", read(name), flags=re.M | re.S)
    heads = re.findall(r"^#+ (.*)$", text, flags=re.M)
    return {re.sub(r"[^\w\- ]", "", h.lower()).replace(" ", "-") for h in heads}


def broken_links(name):
    text = re.sub(r"^```.*?^```", "", read(name), flags=re.M | re.S)
    for link in re.findall(r"\]\(([^)\s]+)\)|(?<=src=\")([^\"]+)", text):
        link = link[0] or link[1]
        path, _, anchor = link.partition("#")
        if ":" in path:
            continue
        target = os.path.normpath(os.path.join(os.path.dirname(name), path)) if path else name
        if not os.path.exists(os.path.join(TOP, target)):
            yield f"{name}: no file for the link {link}"
        elif anchor and anchor not in anchors(target):
            yield f"{name}: no heading for the link {link}"


def replace(name, changed):
    """Writes changed blocks, the last one first, as their lines are counted from the top."""
    lines = read(name).split("\n")
    for block, now in reversed(changed):
        lines[block.line:block.line + len(block.lines)] = now
    with open(os.path.join(TOP, name), "w", encoding="utf-8") as file:
        file.write("\n".join(lines))


def copy_inputs(folder):
    """Copies the inputs of commands, which may write beside them; the source tree stays
    unchanged."""
    for name in ("tests/fixtures/jobs", "tests/fixtures/oom", "tests/recordings"):
        shutil.copytree(os.path.join(TOP, name), os.path.join(folder, name))
    shutil.copy(os.path.join(TOP, "tests/victims/release.py"), folder)


def check_document(name, flmem, folder, counts):
    """Returns the findings of one document, which has separate processes, and its present
    blocks."""
    findings, changed, targets = [], [], Targets()
    try:
        for block in blocks(name):
            if not block.is_transcript() or "recorded" in block.info:
                continue
            target, needed = block.word("live="), block.word("needs=")
            pid = targets.pid(target) if target else None
            if target and not pid:
                needed = TARGETS[target][3]
            if (target and not pid) or (needed and not os.path.exists(needed)):
                print(f"SKIP: {block.where()}: needs {needed}")
                continue
            counts["live" if pid else "run"] += 1
            wrong, now = check(block, flmem, pid, folder)
            if wrong:
                findings += wrong
                changed.append((block, now))
    finally:
        targets.end()
    return findings, changed


def transcripts(flmem, write):
    findings, counts = [], {"run": 0, "live": 0}
    with tempfile.TemporaryDirectory() as folder:
        copy_inputs(folder)
        for name in documents():
            wrong, changed = check_document(name, flmem, folder, counts)
            findings += wrong
            if write:
                replace(name, changed)
    findings += [f"no transcript is {kind}: where are they?" for kind, n in counts.items() if not n]
    print(f"{counts['run']} transcripts run, {counts['live']} on live processes")
    return findings


def main():
    flmem, helps = os.path.abspath(sys.argv[1]), {}
    findings = transcripts(flmem, "--write" in sys.argv)
    for name in documents():
        findings += broken_links(name)
        if name not in GENERATED:
            for block in blocks(name):
                findings += unknown_options(block, helps, flmem)
    for finding in findings:
        print(finding)
    sys.exit(1 if findings else 0)


main()
