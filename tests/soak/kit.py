# SPDX-License-Identifier: Apache-2.0
"""
Kits that NVFlare's own provisioning made, started by the script of `flmem start --emit sub_start`:
a server and two clients run a job, restart, and stop by NVFlare's own means. Once for each release.

usage: kit.py BUILD [--versions 2.8.1 2.9.0]
"""
import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, ".."))

from harness import command, nvflare, ports, proc, report  # noqa: E402

VERSIONS = ("2.8.1", "2.9.0")
READY_S, JOB_S, STOP_S = 180, 300, 120
SERVER, CLIENTS, ADMIN, ORG = "localhost", ("site-1", "site-2"), "admin@flmem.test", "flmem"
ARENAS = {"server": "4", "server-job": "4", "client": "2", "client-job": "2", "trainer": "2"}
PROJECT = """
api_version: 3
name: fl
participants:
  - {{name: {server}, type: server, org: {org}, fed_learn_port: {port}, admin_port: {admin_port}}}
  - {{name: site-1, type: client, org: {org}}}
  - {{name: site-2, type: client, org: {org}}}
  - {{name: {admin}, type: admin, org: {org}, role: project_admin}}
builders:
  - path: nvflare.lighter.impl.workspace.WorkspaceBuilder
  - path: nvflare.lighter.impl.static_file.StaticFileBuilder
    args: {{config_folder: config, scheme: grpc}}
  - path: nvflare.lighter.impl.cert.CertBuilder
  - path: nvflare.lighter.impl.signature.SignatureBuilder
"""
SIGN = """
import json, sys
from nvflare.lighter.utils import load_private_key, sign_folders
state = json.load(open(sys.argv[2]))
sign_folders(sys.argv[1], load_private_key(state["root_pri_key"]), signature_file="signature.json")
"""


class Trouble(Exception):
    """Raised with the problem."""


def wait_for(what, check, limit_s):
    """Returns the first true value of check()."""
    deadline = time.monotonic() + limit_s
    while time.monotonic() < deadline:
        value = check()
        if value:
            return value
        time.sleep(0.5)
    raise Trouble(f"{what}: not within {limit_s} s")


def read_number(path):
    try:
        with open(path, encoding="ascii") as file:
            return int(file.read())
    except (OSError, ValueError):
        return 0


def print_end(path, length=3000):
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            print(f"-- {path}\n{file.read()[-length:]}")
    except OSError as error:
        print(f"-- {error}")


def environment_of(pid):
    with open(f"/proc/{pid}/environ", "rb") as file:
        words = file.read().split(b"\0")
    return dict(word.decode(errors="replace").split("=", 1) for word in words if b"=" in word)


class Federation:
    """A project of one server and two clients, in a separate directory."""

    def __init__(self, flmem, version, directory):
        self.flmem, self.version, self.directory = flmem, version, directory
        self.programs = nvflare.environment(version)
        self.env = {name: value for name, value in os.environ.items()
                    if not name.startswith(("MALLOC_", "NVFL", "PYTHON", "LD_"))}
        self.env.update(PATH=f"{self.programs}:{self.env['PATH']}", HOME=directory)
        self.scripts = []
        self.problems = []
        self.roles = set()

    def expect(self, what, is_so):
        if not is_so:
            self.problems.append(f"{self.version}: {what}")

    def run(self, *words, limit_s=READY_S):
        done = subprocess.run(words, env=self.env, cwd=self.directory, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=limit_s, check=False)
        if done.returncode:
            raise Trouble(f"{' '.join(words[:3])}: {(done.stderr or done.stdout)[-600:]}")
        return done.stdout

    def kit(self, name):
        return os.path.join(self.directory, "made", "fl", "prod_00", name)

    def provision(self):
        port, admin_port = ports.free(2)
        with open(os.path.join(self.directory, "project.yml"), "w", encoding="utf-8") as file:
            file.write(PROJECT.format(server=SERVER, org=ORG, admin=ADMIN, port=port,
                                      admin_port=admin_port))
        self.run("nvflare", "provision", "-p", "project.yml", "-w", "made", "--force")
        for name in (SERVER, *CLIENTS):
            self.emit(name, os.path.join(self.kit(name), "startup", "sub_start.sh"))

    def emit(self, name, path):
        role = "server" if name == SERVER else "client"
        status, _, err, _ = self.flmem.run("start", "--role", role, "--no-gpu", "--emit", "sub_start",
                                           "--output", path, "--force")
        if status:
            raise Trouble(f"flmem start --emit: {err}")

    def check_signed(self):
        """Checks a signed kit with the script outside of it: it is verified, and refused once a
        file was changed."""
        kit = os.path.join(self.directory, "signed", "site-1")
        outside = os.path.join(self.directory, "outside.sh")
        shutil.copytree(self.kit("site-1"), kit)
        self.run("python3", "-c", SIGN, kit,
                 os.path.join(self.directory, "made", "fl", "state", "cert.json"))
        self.emit("site-1", outside)
        words = ["sh", outside, "--verify", "--once", "--kit", kit]
        env = dict(self.env, NVFL_WORKSPACE=os.path.join(self.directory, "elsewhere"))
        with subprocess.Popen(words, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True) as script:
            try:
                wait_for("a client with a verified kit", lambda: self.is_client(script.pid), READY_S)
            finally:
                script.kill()
            output = script.stdout.read()
        self.expect(f"verification of a signed kit: {output[-300:]}", "failed" not in output)
        with open(os.path.join(kit, "startup", "fed_client.json"), "a", encoding="utf-8") as file:
            file.write("\n")
        done = subprocess.run(words, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=READY_S, check=False)
        self.expect(f"a changed kit: status {done.returncode}, {done.stderr[-200:]}",
                    done.returncode == 1 and "verification of" in done.stderr)

    @staticmethod
    def is_client(pid):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                return b"client_train" in file.read()
        except OSError:
            return False

    def start(self, name):
        """Starts a site by NVFlare's own start.sh, which runs the script in the background."""
        log = open(os.path.join(self.directory, f"{name}.log"), "ab")  # pylint: disable=R1732
        with log:
            subprocess.run(["bash", os.path.join(self.kit(name), "startup", "start.sh")], env=self.env,
                           stdin=subprocess.DEVNULL, stdout=log, stderr=log, check=True)
        self.scripts.append(wait_for(f"daemon_pid.fl of {name}", lambda: self.supervisor(name), READY_S))

    def supervisor(self, name):
        return read_number(os.path.join(self.kit(name), "daemon_pid.fl"))

    def process(self, name):
        pid = read_number(os.path.join(self.kit(name), "pid.fl"))
        return pid if pid and proc.is_alive(pid) else 0

    def admin(self, *words):
        return json.loads(self.run("python3", os.path.join(HERE, "nvflare", "admin.py"),
                                   self.kit(ADMIN), *words).splitlines()[-1])

    def clients(self):
        """Returns the names of the connected clients; none while the server starts."""
        try:
            return sorted(self.admin("clients"))
        except Trouble:
            return []

    def detected(self):
        """Returns (role, settings, pid) of the processes below the supervisors."""
        found = []
        for pid in filter(proc.is_alive, self.scripts):
            _, out, _, _ = self.flmem.run("detect", "--json", "--tree", str(pid))
            found += [(p["role"], p["settings"] or {}, p["pid"])
                      for p in json.loads(out).get("processes", ()) if p["role"]]
        return found

    def look(self):
        """Checks the roles and the effective settings of the running processes."""
        for role, settings, pid in self.detected():
            arenas = settings.get("MALLOC_ARENA_MAX", {}).get("value")
            self.roles.add(role)
            self.expect(f"{role} {pid} has {arenas} arenas", arenas == ARENAS[role])
            self.expect(f"{role} {pid} has an interval in its environment",
                        "NVFLARE_CLIENT_MEMORY_GC_ROUNDS" not in settings)

    def check_parents(self):
        for name in (SERVER, *CLIENTS):
            pid = self.process(name)
            self.expect(f"pid.fl of {name} names a process", pid)
            if not pid:
                continue
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                words = file.read().split(b"\0")
            self.expect(f"organisation of {name}: {words}", f"org={ORG}".encode() in words)
            self.expect(f"site of {name}: {words}",
                        name == SERVER or f"uid={name}".encode() in words)
            self.expect(f"PYTHONPATH of {name}",
                        environment_of(pid)["PYTHONPATH"].startswith("/local/custom"))
            self.expect(f"transfer of {name}", os.path.isdir(os.path.join(self.kit(name), "transfer")))

    def run_job(self):
        jobs = os.path.join(self.directory, "jobs")
        self.run("python3", os.path.join(HERE, "nvflare", "job.py"), jobs)
        job = self.admin("submit", os.path.join(jobs, "kit"))

        def finished():
            self.look()
            status = self.admin("status", job)
            return status if status and status.startswith("FINISHED") else None

        status = wait_for("the job", finished, JOB_S)
        self.expect(f"the job ended with {status}", status == "FINISHED:COMPLETED")
        if status != "FINISHED:COMPLETED":
            print_end(os.path.join(self.kit("site-1"), job, "log.txt"), 20000)
        self.check_interval(job)

    def check_interval(self, job):
        """Checks the job's interval, which external trainers read here up to 2.8, unless the
        environment has one."""
        if not self.version.startswith("2.8"):
            return
        path = os.path.join(self.kit("site-1"), job, "app_site-1", "config", "client_api_config.json")
        with open(path, encoding="utf-8") as file:
            rounds = json.load(file)["TASK_EXCHANGE"]["memory_gc_rounds"]
        self.expect(f"the trainer reads an interval of {rounds}", rounds == 2)

    def check_second_start(self):
        done = subprocess.run(["sh", os.path.join(self.kit("site-1"), "startup", "sub_start.sh")],
                              env=self.env, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=READY_S, check=False)
        self.expect(f"a second start: status {done.returncode}, {done.stderr}",
                    done.returncode == 1 and "supervises" in done.stderr)

    def restart_client(self):
        before = self.process("site-2")
        self.admin("restart", "site-2")
        wait_for("a restarted client", lambda: self.process("site-2") not in (0, before), STOP_S)
        wait_for("its connection", lambda: self.clients() == list(CLIENTS), READY_S)

    def is_ended(self, name):
        left = [f for f in os.listdir(self.kit(name)) if f.endswith(".fl")]
        return not self.process(name) and not left

    def stop(self):
        """Stops all sites by the administrator, the server last, which refuses while it has
        clients."""
        for name in CLIENTS:
            self.admin("shutdown", "client", name)
            wait_for(f"the end of {name}", lambda: self.is_ended(name), STOP_S)
        self.admin("shutdown", "server")
        wait_for("the end of the server", lambda: self.is_ended(SERVER), STOP_S)
        self.stop_alone()
        wait_for("the end of the scripts", lambda: not any(map(proc.is_alive, self.scripts)), STOP_S)

    def stop_alone(self):
        """Stops a client by stop_fl.sh, NVFlare's last resort, which only creates shutdown.fl. A
        client that starts removes earlier requests, so a second one may be needed."""
        kit = self.kit("site-1")
        self.start("site-1")
        wait_for("a client on its own", lambda: self.process("site-1"), READY_S)

        def asked():
            if self.is_ended("site-1"):
                return True
            if not os.path.exists(os.path.join(kit, "shutdown.fl")):
                subprocess.run(["bash", os.path.join(kit, "startup", "stop_fl.sh")], input="y",
                               env=self.env, capture_output=True, text=True, timeout=READY_S,
                               check=True)
            return False

        wait_for("the end by stop_fl.sh", asked, STOP_S)

    def check(self):
        self.provision()
        self.check_signed()
        for name in (SERVER, *CLIENTS):
            self.start(name)
        wait_for("the clients", lambda: self.clients() == list(CLIENTS), READY_S)
        self.check_parents()
        self.check_second_start()
        self.run_job()
        self.expect(f"roles seen: {sorted(self.roles)}", self.roles == set(ARENAS))
        self.restart_client()
        self.stop()

    def clean_up(self):
        """Kills the processes left after a failure; their command lines contain this directory."""
        for entry in os.listdir("/proc"):
            try:
                with open(f"/proc/{entry}/cmdline", "rb") as file:
                    if entry.isdigit() and self.directory.encode() in file.read():
                        os.kill(int(entry), signal.SIGKILL)
            except (OSError, ProcessLookupError):
                pass


def check(flmem, version):
    with tempfile.TemporaryDirectory(prefix="flmem-kit-") as directory:
        federation = Federation(flmem, version, directory)
        try:
            federation.check()
        except Trouble as trouble:
            federation.problems.append(f"{version}: {trouble}")
            for name in (SERVER, *CLIENTS):
                print_end(os.path.join(directory, f"{name}.log"))
        finally:
            federation.clean_up()
        return federation


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build")
    parser.add_argument("--versions", nargs="+", default=VERSIONS)
    args = parser.parse_args()
    flmem = command.Flmem(args.build)
    rows, failed = [], False
    for version in args.versions:
        started = time.monotonic()
        federation = check(flmem, version)
        for problem in federation.problems:
            print(f"PROBLEM: {problem}")
        failed |= bool(federation.problems)
        rows.append((version, ", ".join(sorted(federation.roles)), len(federation.problems),
                     round(time.monotonic() - started)))
    report.table(("NVFlare", "roles seen", "problems", "seconds"), rows)
    sys.exit(failed)


if __name__ == "__main__":
    main()
