# SPDX-License-Identifier: Apache-2.0
"""
The memory of NVFlare's parent processes beside those of their jobs: the highest RssAnon of a server
and of two clients of a provisioned kit while they run a FedAvg job of three rounds in NumPy, by
release and by the size of the model, which passes through the parents.

usage: parents.py BUILD [--versions 2.8.1 2.9.0] [--models 0 256]		sizes in MiB
"""
import argparse
import os
import sys
import tempfile
import threading

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", ".."))
sys.path.insert(0, os.path.join(HERE, "..", "..", "soak"))

from harness import command, report  # noqa: E402
import kit  # noqa: E402

EVERY_S = 0.1


def anonymous_mib(pid):
    try:
        with open(f"/proc/{pid}/status", encoding="ascii") as file:
            return next(int(line.split()[1]) for line in file if line.startswith("RssAnon:")) / 1024
    except (OSError, StopIteration):
        return 0


class Parents:
    """Samples the memory of a federation's parent processes in a thread."""

    def __init__(self, federation):
        self.pids = {name: federation.process(name) for name in (kit.SERVER, *kit.CLIENTS)}
        self.peaks = dict.fromkeys(self.pids, 0)
        self.before = {name: anonymous_mib(pid) for name, pid in self.pids.items()}
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self.sample)

    def sample(self):
        while not self.ended.wait(EVERY_S):
            for name, pid in self.pids.items():
                self.peaks[name] = max(self.peaks[name], anonymous_mib(pid))

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.ended.set()
        self.thread.join()


def run_job(federation, mib):
    jobs = os.path.join(federation.directory, f"jobs-{mib}")
    federation.run("python3", os.path.join(HERE, "parents_job.py"), jobs, str(mib))
    with Parents(federation) as parents:
        job = federation.admin("submit", os.path.join(jobs, "parents"))

        def finished():
            status = federation.admin("status", job)
            return status if status and status.startswith("FINISHED") else None

        status = kit.wait_for("the job", finished, kit.JOB_S)
    if status != "FINISHED:COMPLETED":
        raise kit.Trouble(f"the job ended with {status}")
    return parents


def measure(flmem, version, models):
    with tempfile.TemporaryDirectory(prefix="flmem-parents-") as directory:
        federation = kit.Federation(flmem, version, directory)
        try:
            federation.provision()
            for name in (kit.SERVER, *kit.CLIENTS):
                federation.start(name)
            kit.wait_for("the clients", lambda: federation.clients() == list(kit.CLIENTS),
                         kit.READY_S)
            for mib in models:
                parents = run_job(federation, mib)
                clients = [parents.peaks[name] for name in kit.CLIENTS]
                yield (version, mib, round(parents.before[kit.SERVER]),
                       round(parents.peaks[kit.SERVER]), round(parents.before[kit.CLIENTS[0]]),
                       round(max(clients)))
        finally:
            federation.clean_up()


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("build")
    parser.add_argument("--versions", nargs="+", default=["2.8.1", "2.9.0"])
    parser.add_argument("--models", nargs="+", type=int, default=[0, 256])
    options = parser.parse_args()
    flmem = command.Flmem(os.path.realpath(options.build))
    rows = [row for version in options.versions for row in measure(flmem, version, options.models)]
    report.table(("release", "model MiB", "server before", "server peak", "client before",
                  "client peak"), rows)


if __name__ == "__main__":
    main()
