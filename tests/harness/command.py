# SPDX-License-Identifier: Apache-2.0
"""The flmem command under test."""
import json
import os
import subprocess
import time

from . import skip

OUTCOMES_OK = ("released", "nothing-to-release", "unmeasured")
PARTLY = 8  # some steps were refused, the others were done
HANG_S = 120  # flmem has its own timeouts; after this one it counts as hanging
# A sanitised flmem that is traced itself cannot search for leaks.
ENVIRONMENT = {"ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0"}


class Trim:
    """The result of one `flmem trim` of one process."""

    def __init__(self, status, stdout, stderr, wall_s):
        self.status = status
        self.stderr = stderr.strip()
        self.wall_s = wall_s
        self.stdout = stdout
        self.result = {}
        try:
            results = json.loads(stdout).get("results") or [{}]
            self.result = results[0]
        except (json.JSONDecodeError, AttributeError):
            pass

    @property
    def outcome(self):
        return self.result.get("outcome") or f"status {self.status}"

    @property
    def reason(self):
        return self.result.get("reason") or self.stderr

    @property
    def released(self):
        """True if it released memory, at once or left to the kernel."""
        return (self.outcome == "released"
                or "was released with MADV_FREE" in (self.result.get("note") or ""))

    @property
    def touched(self):
        """True if calls were made in the target."""
        return self.status in (0, PARTLY) and self.outcome in OUTCOMES_OK

    def broken(self):
        """Returns defects of the result itself, independent of the target."""
        found = []
        if self.status < 0 or self.status > 8:
            found.append(f"flmem ended with status {self.status}: {self.stderr[:2000]}")
        elif self.status == 7:
            found.append(f"flmem failed: {self.reason}")
        elif self.status != 0 and not self.reason:
            found.append(f"status {self.status} without a reason")
        elif not self.result and self.status in (0, 6):
            found.append(f"no result in its output: {self.stdout[:200]!r}")
        return found


class Flmem:
    def __init__(self, build):
        self.path = os.path.join(os.path.abspath(build), "cli", "flmem")
        if not os.access(self.path, os.X_OK):
            raise SystemExit(f"no flmem in {build}: build it first")
        self.wrapper = ()  # words in front of each call, for example of starved.py

    def run(self, *words, wrapper=()):
        """Runs flmem; returns (exit status, stdout, stderr, seconds)."""
        started = time.monotonic()
        done = subprocess.run(
            [*self.wrapper, *wrapper, self.path, *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, timeout=HANG_S, check=False, env=dict(os.environ, **ENVIRONMENT))
        return (done.returncode, done.stdout.decode(errors="replace"),
                done.stderr.decode(errors="replace"), time.monotonic() - started)

    def require(self, command):
        """Ends the test as skipped when this flmem does not have the command."""
        if self.run(command, "--help")[0] != 0:
            skip(f"this flmem has no '{command}' yet")

    def trim_words(self, pid, timeout="5s", steps=()):
        return [self.path, "trim", "--pid", str(pid), "--timeout", timeout, "--json", *steps]

    def trim(self, pid, timeout="5s", wrapper=(), steps=()):
        return Trim(*self.run(*self.trim_words(pid, timeout, steps)[1:], wrapper=wrapper))
