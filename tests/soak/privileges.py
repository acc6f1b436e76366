# SPDX-License-Identifier: Apache-2.0
"""
Who may trim whom: as an unprivileged user, without CAP_SYS_PTRACE, from another user namespace and
under a container's seccomp filter. A refusal has exit status 4, names the gate that refused, and
leaves the target alone.

usage: privileges.py BUILD
"""
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

from harness import command, proc, report, skip, victim  # noqa: E402

NOT_PERMITTED = 4
NOBODY = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all")
NO_PTRACE = ("setpriv", "--inh-caps=-sys_ptrace", "--bounding-set=-sys_ptrace")
ONLY_PTRACE = ("setpriv", "--bounding-set=-all,+sys_ptrace")
IN_NAMESPACE = ("unshare", "--user", "--map-root-user")
PRIVATE = {"VICTIM_PRIVATE": "1"}


@dataclass
class Case:
    name: str
    flmem: tuple  # words that run flmem
    target: tuple  # words that run the target
    status: int
    gate: str = ""  # text that the message must contain
    env: tuple = ()
    steps: tuple = ()


def yama_level():
    try:
        with open("/proc/sys/kernel/yama/ptrace_scope", encoding="utf-8") as file:
            return int(file.read())
    except FileNotFoundError:
        return 0


def cases(deny, seccomp):
    own = Case("nobody on its own process", NOBODY, NOBODY, 0)
    if yama_level():
        own = Case("nobody on its own process", NOBODY, NOBODY, NOT_PERMITTED, "Yama level")
    return [
        Case("root on root's process", (), (), 0),
        Case("root on nobody's process", (), NOBODY, 0),
        own,
        Case("nobody on root's process", NOBODY, (), NOT_PERMITTED, "CAP_SYS_PTRACE"),
        Case("nobody on its own undumpable process", NOBODY, NOBODY, NOT_PERMITTED,
             "not dumpable", tuple(PRIVATE.items())),
        Case("root without CAP_SYS_PTRACE on nobody's", NO_PTRACE, NOBODY, NOT_PERMITTED,
             "CAP_SYS_PTRACE"),
        Case("root without CAP_SYS_PTRACE on root's", NO_PTRACE, (), NOT_PERMITTED,
             "capabilit"),
        Case("root with CAP_SYS_PTRACE alone on nobody's", ONLY_PTRACE, NOBODY, NOT_PERMITTED,
             "CAP_DAC_OVERRIDE"),
        Case("root of another user namespace", IN_NAMESPACE, (), NOT_PERMITTED,
             "user namespace"),
        Case("root under a container's seccomp filter", (deny,), (), NOT_PERMITTED, "seccomp"),
        Case("nobody under a container's seccomp filter", (*NOBODY, deny), NOBODY,
             NOT_PERMITTED, "Yama" if yama_level() else "seccomp"),
        *container_cases(seccomp),
    ]


def container_cases(seccomp):
    """Returns cases of a target in a container, with flmem on the host, in another container, and
    without rights."""
    container = (seccomp, "container", "run")
    other = (seccomp, "error-swapon", "run")
    weak = ("setpriv", "--inh-caps=-sys_admin", "--bounding-set=-sys_admin")
    assume = ("--assume-seccomp",)
    host = Case("root on a container's process", (), container, 0)
    if seccomp_mode():
        host = Case("root on a container's process", (), container, NOT_PERMITTED,
                    "flmem itself runs under a seccomp filter")
    return [
        host,
        Case("root in another container, one filter each", other, container, NOT_PERMITTED,
             "flmem itself runs under a seccomp filter.*--assume-seccomp"),
        Case("root in another container, which vouches", other, container, 0, steps=assume),
        Case("root without CAP_SYS_ADMIN on a container's process", weak, container,
             NOT_PERMITTED, "flmem itself runs under a seccomp filter|CAP_SYS_ADMIN"),
        Case("root without CAP_SYS_ADMIN, which vouches", weak, container, 0, steps=assume),
    ]


def seccomp_mode():
    with open("/proc/self/status", encoding="utf-8") as file:
        return int(re.search(r"^Seccomp:\s*(\d+)", file.read(), re.M).group(1))


def run_case(case, flmem, program):
    """Runs a case; returns (trim, problems)."""
    argv = [program, "read-pipe"]
    with victim.Victim(argv, env=dict(case.env), wrapper=case.target) as target:
        before = proc.Snapshot(target.pid, quiet=True)
        trim = flmem.trim(target.pid, wrapper=case.flmem, steps=case.steps)
        problems = []
        if trim.status != case.status:
            problems.append(f"status {trim.status} instead of {case.status}: {trim.reason}")
        if case.gate and not re.search(case.gate, trim.reason):
            problems.append(f"the reason does not speak of '{case.gate}': {trim.reason}")
        if case.status:  # after a refusal nothing may have changed; otherwise the heap has shrunk
            problems += before.changes()
        if not target.wait_for_rounds():
            problems.append("the target makes no progress any more")
        return trim, problems + target.problems()


def copy_for_everyone(build, to):
    """Copies the build, which may be below a directory that others cannot enter."""
    os.chmod(to, 0o755)
    os.makedirs(os.path.join(to, "cli"))
    shutil.copy(os.path.join(build, "cli", "flmem"), os.path.join(to, "cli", "flmem"))
    for library in glob.glob(os.path.join(build, "libcore", "libflmem.so*")):
        shutil.copy(library, to)
    for program in ("victims/safe_blocked", "victims/safe_seccomp", "deny"):
        shutil.copy(os.path.join(build, "tests", program), to)
    # setpriv keeps the variable; the programs are not set-uid.
    os.environ["LD_LIBRARY_PATH"] = to


def main():
    build = os.path.abspath(sys.argv[1])
    command.Flmem(build).require("trim")
    if os.geteuid() != 0:
        skip("only root can take the part of other users")
    if not shutil.which("setpriv"):
        skip("no setpriv (util-linux)")
    rows, bad = [], 0
    with tempfile.TemporaryDirectory(prefix="flmem-privileges-") as directory:
        copy_for_everyone(build, directory)
        flmem = command.Flmem(directory)
        for case in cases(os.path.join(directory, "deny"), os.path.join(directory, "safe_seccomp")):
            if case.flmem == IN_NAMESPACE and subprocess.run(
                    [*IN_NAMESPACE, "true"], stderr=subprocess.DEVNULL, check=False).returncode:
                print(f"SKIP: {case.name}: this system has no user namespaces to spare")
                continue
            trim, problems = run_case(case, flmem, os.path.join(directory, "safe_blocked"))
            rows.append((case.name, case.status, trim.status, len(problems), trim.reason[:100]))
            for problem in problems:
                print(f"PROBLEM: {case.name}: {problem}")
            bad += len(problems)
    report.table(("who", "expected", "status", "problems", "reason"), rows)
    sys.exit(1 if bad else 0)


main()
