# SPDX-License-Identifier: Apache-2.0
"""
docs/slurm/flmem-slurm and `flmem start --emit slurm` on a Slurm of one node: jobs of another user are
watched, trimmed while they run and reported at their end. Debian's slurmctld, slurmd and munge run with
files, ports and keys of this test alone, as root on the loopback interface, and are ended by pid.

usage: slurm.py BUILD
"""
import glob
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from harness import command, ports, report, skip  # noqa: E402
import emitted  # noqa: E402

TOP = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
DAEMONS = ("munged", "slurmctld", "slurmd", "sbatch", "squeue", "scancel", "srun")
WAIT_S = 90
NOBODY = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
CONFIGURATION = """
ClusterName=flmem
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
AuthType=auth/munge
AuthInfo=socket={place}/munge.socket
CredType=cred/munge
StateSaveLocation={place}/state
SlurmdSpoolDir={place}/spool
SlurmctldPidFile={place}/slurmctld.pid
SlurmdPidFile={place}/slurmd.pid
SlurmctldLogFile={place}/slurmctld.log
SlurmdLogFile={place}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
KillWait=5
Prolog={script}
TaskProlog={script}
TaskEpilog={script}
Epilog={script}
GresTypes=gpu
NodeName={host} NodeAddr=127.0.0.1 CPUs=2 Gres=gpu:1 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES OverSubscribe=FORCE:4 State=UP
"""
# A job that retains 60 MB between blocks that it keeps, and ends when flmem has released them.
JOB = """
import os, sys, time
def resident():
    return int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGESIZE")
rows = [bytearray(3000) for _ in range(20000)]
rows = rows[::8]
full, end = resident(), time.monotonic() + float(sys.argv[1])
print("arenas", os.environ.get("MALLOC_ARENA_MAX"), flush=True)
while full - resident() < 20 << 20 and time.monotonic() < end:
    time.sleep(0.1)
print("released" if full - resident() >= 20 << 20 else "kept", len(rows), flush=True)
"""
WATCH = "--auto --interval 100ms --cool-down 1s"


def copy_flmem(build, place):
    """Copies the build, which may be below a directory that the job's user cannot enter."""
    target = os.path.join(place, "flmem")
    shutil.copy(os.path.join(build, "cli", "flmem"), target)
    for library in glob.glob(os.path.join(build, "libcore", "libflmem.so*")):
        shutil.copy(library, os.path.join(place, "lib"), follow_symlinks=False)
    return target


def write_script(place, flmem):
    """Returns the example script with this test's paths in place of its own."""
    with open(os.path.join(TOP, "docs", "slurm", "flmem-slurm"), encoding="utf-8") as file:
        text = file.read()
    for line in (f"base={place}/recordings", f"flmem={flmem}"):
        name = line.split("=")[0]
        text, count = re.subn(rf"^{name}=\S+", line, text, flags=re.M)
        assert count == 1, f"flmem-slurm does not set {name} once"
    library = f"\nexport LD_LIBRARY_PATH={place}/lib\n"
    path = os.path.join(place, "flmem-slurm")
    with open(path, "w", encoding="utf-8") as file:
        file.write(text.replace("\nset -u\n", library + "set -u\n"))
    os.chmod(path, 0o755)
    return path


class Cluster:
    """A Slurm of one node; `place` holds all that it writes."""

    def __init__(self, place, script):
        self.place, self.daemons = place, []
        host = subprocess.run(["hostname", "-s"], check=True, stdout=subprocess.PIPE,
                              text=True).stdout.strip()
        self.configuration = os.path.join(place, "slurm.conf")
        with open(self.configuration, "w", encoding="utf-8") as file:
            file.write(CONFIGURATION.format(place=place, script=script, host=host,
                                            ports=ports.free(2)))
        with open(os.path.join(place, "gres.conf"), "w", encoding="utf-8") as file:
            # jobs that request one are accepted
            file.write(f"NodeName={host} Name=gpu File=/dev/null\n")
        os.environ["SLURM_CONF"] = self.configuration
        for name in ("state", "spool"):
            os.mkdir(os.path.join(place, name))
        with open(os.open(os.path.join(place, "key"), os.O_WRONLY | os.O_CREAT, 0o600), "wb") as file:
            file.write(os.urandom(1024))

    def start(self, *words):
        with open(os.path.join(self.place, words[0] + ".out"), "wb") as log:
            self.daemons.append(subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log,
                                                 stderr=log))

    def __enter__(self):
        names = {"socket": "munge.socket", "key-file": "key", "pid-file": "munge.pid",
                 "log-file": "munge.log", "seed-file": "seed"}
        self.start("munged", "--foreground", "--num-threads=2",
                   *(f"--{option}={self.place}/{name}" for option, name in names.items()))
        wait_for(lambda: os.path.exists(f"{self.place}/munge.socket"), "munged's socket")
        self.start("slurmctld", "-D", "-f", self.configuration)
        self.start("slurmd", "-D", "-f", self.configuration)
        wait_for(lambda: "idle" in output("sinfo", "-h", "-o", "%T"), "an idle node")
        return self

    def __exit__(self, *unused):
        for daemon in reversed(self.daemons):
            daemon.terminate()
            try:
                daemon.wait(30)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()

    def logs(self):
        text = ""
        for path in sorted(glob.glob(os.path.join(self.place, "*.log"))):
            with open(path, encoding="utf-8", errors="replace") as file:
                text += f"{path}:\n{file.read()[-2000:]}\n"
        return text


def output(*words):
    return subprocess.run(words, check=False, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                          text=True).stdout


def wait_for(condition, what):
    end = time.monotonic() + WAIT_S
    while not condition():
        if time.monotonic() > end:
            raise AssertionError(f"waited {WAIT_S} s for {what}")
        time.sleep(0.2)


class Job:
    """A batch script, submitted by another user in a separate directory."""

    def __init__(self, place, name, script, **environment):
        self.directory = os.path.join(place, name)
        os.mkdir(self.directory)
        os.chown(self.directory, 65534, 65534)
        path = os.path.join(self.directory, "job.sh")
        with open(path, "w", encoding="utf-8") as file:
            file.write(script)
        done = subprocess.run([*NOBODY, "sbatch", "--parsable", path], cwd=self.directory, text=True,
                              env={**os.environ, "HOME": "/", "FLMEM_WATCH": WATCH, **environment},
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        assert done.returncode == 0, f"sbatch: {done.stdout}"
        self.number = done.stdout.strip()

    def says(self):
        path = os.path.join(self.directory, f"slurm-{self.number}.out")
        if not os.path.exists(path):
            return ""
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()

    def wait(self):
        """Waits until the job and its epilog have ended."""
        wait_for(lambda: not output("squeue", "-h", "-j", self.number), f"the end of job {self.number}")
        recordings = os.path.join(os.path.dirname(self.directory), "recordings", self.number)
        wait_for(lambda: not os.path.exists(recordings), "the epilog to remove the recordings")

    def reports(self, kind):
        """Returns the text of the reports by their names without the number."""
        found = {}
        for path in glob.glob(os.path.join(self.directory, f"flmem-{self.number}.*.{kind}")):
            with open(path, encoding="utf-8", errors="replace") as file:
                found[os.path.basename(path).split(".", 1)[1]] = file.read()
        return found


def emit(flmem, *words):
    status, text, err, _ = flmem.run("start", "--role", "client", "--no-gpu", "--emit", "slurm", "--",
                                     *words)
    assert status == 0, err
    return text


def assert_reported(job, flmem, names):
    """Checks that each task has a page, a recording that can be replayed, and the output of the
    watch."""
    assert sorted(job.reports("html")) == [f"{name}.html" for name in names], os.listdir(job.directory)
    for name, page in job.reports("html").items():
        assert "job.py" in page and page.rstrip().endswith("</html>"), f"{name}: {page[-300:]}"
    for name in names:
        path = os.path.join(job.directory, f"flmem-{job.number}.{name}.rec")
        status, text, err, _ = flmem.run("watch", "--replay", path, "--json", "--quiet")
        assert "job.py" in text, f"{name}: status {status}: {text}{err}"


def check_emitted(place, flmem, job_file):
    """Runs a job as emitted: its role's arenas are those of TaskProlog, and it ends after a
    trim."""
    job = Job(place, "emitted", emit(flmem, "/usr/bin/python3", job_file, str(WAIT_S)),
              FLMEM_ROLE="server", PYTHONMALLOC="malloc")
    job.wait()
    assert "arenas 4\n" in job.says(), f"not the settings of TaskProlog: {job.says()}"
    assert "released 2500\n" in job.says(), f"not trimmed: {job.says()}{job.reports('txt')}"
    assert_reported(job, flmem, ["batch.0"])
    said = job.reports("txt")["batch.0.txt"]
    assert re.search(r"released|trim", said), f"the report names no trim: {said}"
    return "trimmed while it ran, reported"


def check_tasks(place, flmem, job_file):
    """Checks that two tasks of a step are watched separately."""
    script = emit(flmem, "srun", "--ntasks=2", "--overcommit", "/usr/bin/python3", job_file,
                  str(WAIT_S))
    job = Job(place, "tasks", script, PYTHONMALLOC="malloc")
    job.wait()
    assert job.says().count("released 2500\n") == 2, f"{job.says()}{job.reports('txt')}"
    assert_reported(job, flmem, ["0.0", "0.1", "batch.0"])
    return "two tasks, each trimmed and reported"


def check_cancelled(place, flmem, job_file):
    """Kills the watch of a job, which does not trim so that the job cannot end: the recording is
    left."""
    job = Job(place, "cancelled", emit(flmem, "/usr/bin/python3", job_file, str(WAIT_S)),
              FLMEM_WATCH="--interval 100ms")
    wait_for(lambda: "arenas 2\n" in job.says(), "the job to begin")
    task = os.path.join(place, "recordings", job.number, "batch.0")
    wait_for(lambda: os.path.exists(task + ".rec") and os.path.getsize(task + ".rec") > 1024,
             "a recording")
    with open(task + ".pid", encoding="ascii") as file:
        os.kill(int(file.read()), signal.SIGKILL)
    subprocess.run([*NOBODY, "scancel", job.number], check=True)
    job.wait()
    assert_reported(job, flmem, ["batch.0"])
    return "reported from its recording"


def check_unwatched(place, flmem, job_file):
    """Checks that FLMEM_WATCH=no leaves only the settings."""
    del flmem
    job = Job(place, "unwatched", f"#!/bin/sh\nexec /usr/bin/python3 {job_file} 0\n",
              FLMEM_WATCH="no")
    job.wait()
    assert "kept 2500\n" in job.says() and "arenas 2\n" in job.says(), job.says()
    assert not job.reports("html"), os.listdir(job.directory)
    return "settings alone"


def check_written(place, flmem, _job_file):
    """Submits the scripts of every role, allocator and command."""
    def read(path):
        done = subprocess.run(["sbatch", "--test-only", path], stdin=subprocess.DEVNULL, check=False,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        return [done.stdout] if done.returncode else []

    with tempfile.TemporaryDirectory(dir=place) as directory:
        count, problems = emitted.check(flmem, "slurm", ".sh", read, directory)
    assert count and not problems, f"of {count}: {problems[:3]}"
    return f"{count} taken"


CHECKS = (("scripts of --emit slurm, --test-only", check_written), ("a job of --emit slurm", check_emitted), ("a step of two tasks", check_tasks),
          ("a cancelled job", check_cancelled), ("FLMEM_WATCH=no", check_unwatched))


def run_checks(build, place):
    flmem = command.Flmem(build)
    os.mkdir(os.path.join(place, "lib"))
    script = write_script(place, copy_flmem(os.path.abspath(build), place))
    job_file = os.path.join(place, "job.py")
    with open(job_file, "w", encoding="utf-8") as file:
        file.write(JOB)
    rows = []
    with Cluster(place, script) as cluster:
        for name, check in CHECKS:
            try:
                rows.append((name, "passed", check(place, flmem, job_file)))
            except AssertionError as problem:
                rows.append((name, "FAILED", str(problem)[:400]))
                print(problem, cluster.logs(), sep="\n", file=sys.stderr)
    return rows


def end_orderly(*unused):
    sys.exit(1)


def main():
    signal.signal(signal.SIGTERM, end_orderly)  # so that the daemons are ended
    absent = [name for name in DAEMONS if not shutil.which(name)]
    if absent:
        skip(f"not installed: {', '.join(absent)} (Debian: slurmctld, slurmd, slurm-client, munge)")
    if os.geteuid() != 0:
        skip("only root can run jobs as another user")
    with tempfile.TemporaryDirectory(prefix="flmem-slurm-") as place:
        os.chmod(place, 0o755)
        rows = run_checks(sys.argv[1], place)
    report.table(("job", "result", "found"), rows)
    sys.exit(any(row[1] == "FAILED" for row in rows))


main()
