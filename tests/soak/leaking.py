# SPDX-License-Identifier: Apache-2.0
"""
The client of an NVFlare job that nobody prepared, with a leak of one tensor per round: `profile attach`
while it trains, `profile round` as its log names the rounds, `profile detach`, and `profile leaks`
names the line. The job completes. Once for each release.

usage: leaking.py BUILD [--versions 2.9.0]
"""
import argparse
import json
import os
import re
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, ".."))
sys.path.insert(0, HERE)

import kit  # noqa: E402
from harness import command, proc, report  # noqa: E402

VERSIONS = ("2.9.0",)
SITE = "site-1"
ROUNDS, SAMPLED = 24, 8  # rounds of the job; rounds announced while it is sampled
ROUND_S = 180
CLIENT = os.path.join(HERE, "nvflare", "leaking_client.py")


def line_of_leak():
    with open(CLIENT, encoding="utf-8") as file:
        return next(number for number, line in enumerate(file, 1) if "# the leak" in line)


def is_in_line(stack, line):
    """True if the innermost Python frame is that line of the client."""
    frame = next((one for one in stack if one["kind"] == "python"), None)
    return bool(frame) and frame["file"].endswith("leaking_client.py") and frame["line"] == line


class Unprepared(kit.Federation):
    """Kits with the scripts that NVFlare wrote, whose clients run the leaking job."""

    def __init__(self, flmem, version, directory):
        super().__init__(flmem, version, directory)
        self.profile = os.path.join(directory, "client.prof")
        self.job = ""
        self.shown = {}

    def emit(self, name, path):
        pass

    def ask(self, *words):
        """Returns the output of a successful flmem, which is the transcript in
        docs/guides/profile.md."""
        status, out, err, _ = self.flmem.run("profile", *words)
        if "--json" not in words:
            print(f"$ flmem profile {' '.join(words)}\n{out}{err}", end="", flush=True)
        if status:
            raise kit.Trouble(f"flmem profile {words[0]}: status {status}: {err}")
        return out

    def round(self):
        """Returns the last round that the client's log names; None before the first."""
        path = os.path.join(self.kit(SITE), self.job, "log.txt")
        try:
            with open(path, encoding="utf-8", errors="replace") as file:
                found = re.findall(r"current_round=(\d+)", file.read())
        except OSError:
            return None
        return int(found[-1]) if found else None

    def wait_round(self, number):
        """Waits for a round that is not before this one and returns it; never 0, which counts as
        false."""
        return kit.wait_for(f"round {number} of {SITE}",
                            lambda: (self.round() or 0) >= number and self.round(), ROUND_S)

    def trainer(self):
        """Returns the process of the client that runs the job's script."""
        below = os.path.join(self.kit(SITE), "")
        return next((pid for role, _, pid in self.detected()
                     if role == "client-job" and below in proc.read(f"/proc/{pid}/cmdline")), 0)

    def sample(self):
        self.wait_round(2)
        pid = kit.wait_for("the client's job process", self.trainer, kit.READY_S)
        self.expect("the client was prepared",
                    "flmem" not in kit.environment_of(pid).get("LD_PRELOAD", ""))
        self.ask("attach", "--pid", str(pid), "-o", self.profile, "--interval", "64KiB",
                 "--timeout", "60s")
        last = self.round()
        for _ in range(SAMPLED):
            last = self.wait_round(last + 1)
            self.ask("round", self.profile, str(last))
        self.wait_round(last + 1)
        self.ask("detach", "--pid", str(pid), "--timeout", "60s")
        self.wait_round(last + 3)  # the client continues to train

    def check_leaks(self):
        self.ask("stats", self.profile)
        self.ask("leaks", self.profile)
        leaks = json.loads(self.ask("leaks", "--json", self.profile))
        self.shown = leaks
        line = line_of_leak()
        self.expect(f"no leak in line {line}: {json.dumps(leaks['leaks'])[:2000]}",
                    any(is_in_line(leak["stack"], line) for leak in leaks["leaks"]))

    def check(self):
        self.provision()
        for name in (kit.SERVER, *kit.CLIENTS):
            self.start(name)
        kit.wait_for("the clients", lambda: self.clients() == list(kit.CLIENTS), kit.READY_S)
        jobs = os.path.join(self.directory, "jobs")
        self.run("python3", os.path.join(HERE, "nvflare", "leaking_job.py"), jobs, str(ROUNDS))
        self.job = self.admin("submit", os.path.join(jobs, "leaking"))
        self.sample()
        self.check_leaks()
        status = kit.wait_for("the job", self.ended, kit.JOB_S)
        self.expect(f"the job ended with {status}", status == "FINISHED:COMPLETED")

    def ended(self):
        status = self.admin("status", self.job)
        return status if status and status.startswith("FINISHED") else None


def check(flmem, version):
    with tempfile.TemporaryDirectory(prefix="flmem-leaking-") as directory:
        federation = Unprepared(flmem, version, directory)
        try:
            federation.check()
        except kit.Trouble as trouble:
            federation.problems.append(f"{version}: {trouble}")
            kit.print_end(os.path.join(directory, f"{SITE}.log"))
            kit.print_end(os.path.join(federation.kit(SITE), federation.job, "log.txt"))
        finally:
            federation.clean_up()
        return federation


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build")
    parser.add_argument("--versions", nargs="+", default=VERSIONS)
    args = parser.parse_args()
    flmem = command.Flmem(args.build)
    rows = []
    for version in args.versions:
        federation = check(flmem, version)
        for problem in federation.problems:
            print(f"PROBLEM: {problem}")
        rows.append((version, len(federation.shown.get("leaks", ())), len(federation.problems)))
    report.table(("NVFlare", "leaks named", "problems"), rows)
    sys.exit(any(row[2] for row in rows))


if __name__ == "__main__":
    main()
