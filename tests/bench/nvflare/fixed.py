#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
Exports a job as NVFlare writes it, lets `flmem recommend --fix` correct it, and runs the corrected job
in NVFlare's simulator: it has to load, to finish, and to clean up as configured now. Exit status 1
where one of these fails.

    fixed.py FLMEM
"""
import json
import os
import re
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.dont_write_bytecode = True
sys.path.insert(0, HERE)

import release  # noqa: E402

ROUNDS = 3
CLIENTS = 2


def recommend(flmem, job, *words):
    """Runs flmem recommend; returns (status, findings)."""
    done = subprocess.run([flmem, "recommend", job, "--framework-version", release.VERSION, *words],
                          stdout=subprocess.PIPE, text=True, check=False)
    return done


def rules(flmem, job):
    done = recommend(flmem, job, "--format", "json", "--fail-on", "warning")
    found = json.loads(done.stdout)["findings"]
    return done.returncode, sorted(f["rule"] for f in found if f["severity"] != "info")


def simulate(job, workspace):
    """Runs the job; returns the logs of server and clients."""
    done = subprocess.run(
        [release.PYTHON, "-m", "nvflare.cli", "simulator", job, "-w", workspace,
         "-n", str(CLIENTS), "-t", str(CLIENTS)],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        timeout=600, check=False)
    return done.returncode, done.stdout


def check(what, good, detail=""):
    print(f"{'ok' if good else 'FAILED'}: {what}{': ' + str(detail) if detail else ''}", flush=True)
    return not good


def main():
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    flmem, failures = os.path.abspath(sys.argv[1]), 0
    release.install()
    with tempfile.TemporaryDirectory(prefix="flmem-fixed-") as directory:
        subprocess.run([release.PYTHON, os.path.join(HERE, "job.py"), directory, str(ROUNDS), "0",
                        "--export", "--export-dir", directory], check=True, stdout=subprocess.DEVNULL)
        job = os.path.join(directory, "growing")
        status, found = rules(flmem, job)
        failures += check("the job as exported has findings", status == 1, ", ".join(found))
        fixed = recommend(flmem, job, "--fix")
        failures += check("--fix corrects it", fixed.returncode == 0)
        status, found = rules(flmem, job)
        failures += check("nothing is left that --fail-on warning counts", status == 0,
                          ", ".join(found))
        again = recommend(flmem, job, "--diff")
        failures += check("a second --fix would change nothing", not again.stdout.strip())
        status, log = simulate(job, os.path.join(directory, "workspace"))
        failures += check("NVFlare runs the corrected job to its end",
                          status == 0 and "Finished FedAvg" in log,
                          "" if status == 0 else log[-1500:])
        cleanups = re.findall(r"[^\n]*[Mm]emory (?:cleanup|management)[^\n]*", log)
        failures += check("its log reports memory management", cleanups, cleanups[:1])
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
