# SPDX-License-Identifier: Apache-2.0
"""The safety victims in an emulated system: victims.py BUILD SET TRIMS [WORD]

Runs there, with the program of the system. BUILD has cli/flmem, tests/victims and tests/killat, as
where they were built. SET is one of SETS; each of its targets is trimmed TRIMS times and checked as
in tests/soak/matrix.py, or flmem is killed so many times while it trims. With WORD only those with
that in their names. One line for each target, in the form of `init`.
"""
import os
import random
import subprocess
import sys
import traceback

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, ".."))
sys.path.insert(0, os.path.join(HERE, "..", "soak"))

import entries  # noqa: E402
import kill  # noqa: E402
import trimming  # noqa: E402
from harness import command, report, victim  # noqa: E402

KILLED = ("waits in read", "waits in ppoll", "waits in nanosleep", "waits in futex",
          "8 threads churn, 3 wait")
# Programs that gave their allocator functions, which no borrowed thread may run.
HOOKS = (("jemalloc", "0"), ("mimalloc", "0"), ("tcmalloc", "0"), ("tcmalloc", "extension"),
         ("jemalloc", "none"), ("mimalloc", "none"), ("tcmalloc", "none"))
# Programs with state that the frame of a borrowed thread cannot save.
EXTENSIONS = (("computes with SVE", "sve", entries.REFUSE),
              ("computes with SVE beside a thread that waits", "sve-beside", entries.TRIM),
              ("waits with the matrix register of SME", "za", entries.REFUSE),
              ("waits with checked memory tags", "mte", entries.REFUSE))
# Calls that a stop ends with EINTR: the kernel for aarch64 cannot make them again.
ENDED_BY_STOP = ("epoll_", "rt_sigtimedwait", "semtimedop", "recv", "readv", "accept")
# Programs in which a computing thread may make such a call next.
COMPUTES = ("computes alone", "8 threads compete", "computes in C")
# Longer sleeps: threads have to sleep until flmem finds them in the slow system.
SLOWER = {"kills": {"WAKE_EVERY_US": "300000", "WAIT_MS": "900"}, "busy": {"WAIT_MS": "300"},
          "allocators": {"WAIT_MS": "300"}}
# Programs in which no thread sleeps for the 10 ms that aarch64 requires.
AWAKE = ("1000 signals a second, 3 threads",)
STOPS = 30  # number of system calls of flmem that are tried as places of a kill


def say(name, problems, said):
    text = " ".join("; ".join([said] + problems).split())
    print(f"STEP {name.replace(' ', '_')} {'FAIL' if problems else 'ok'} {text[:400]}", flush=True)


def trim_target(flmem, entry, trims):
    one = trimming.Running(entry)
    try:
        for _ in range(trims):
            one.trim(flmem)
        if entry.expect == entries.TRIM:
            one.progress()
        one.finish()
    finally:
        one.close()
        one.victim.close()
    tally = one.tally
    said = ", ".join(f"{count} {what}" for what, count in sorted(tally.outcomes.items()))
    say(f"{entry.name}, {entry.allocator}", tally.verdict(),
        f"{said} {next(iter(tally.reasons), '')[:120]}")


def kill_target(flmem, entry, kills, build):
    rng = random.Random(entry.name)
    entry.refill = False  # an emulated processor would do little else
    target = kill.Target(entry)
    try:
        target.calibrate(flmem)
        for number in range(kills):
            if target.problems:
                break
            if number % 2:
                kill.kill_after_delay(flmem, target, rng)
            else:
                kill.kill_at_stop(os.path.join(build, "tests", "killat"), flmem, target,
                                  rng.randint(1, STOPS))
    finally:
        target.victim.close()
    say(f"kills, {entry.name}", target.problems,
        f"{target.counts['killed']} killed, {target.counts['stopped at']} at a system call, "
        f"{target.counts['ended before']} ended before; {report.median([target.wall_s]):.1f} s")


def trim_hooked(flmem, build, allocator, where, trims):
    """tests/victims/allocators/hooked.c: waits for a byte with the lock that its function takes."""
    environment = dict(os.environ, LD_PRELOAD=victim.allocator_library(allocator))
    wanted, problems, answer = (0 if where == "none" else 5), [], b""
    with subprocess.Popen([os.path.join(build, "tests", "victims", "hooked"), where], env=environment,
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            process.stdout.readline()
            for _ in range(trims):
                trim = flmem.trim(process.pid, "10s")
                if trim.status != wanted:
                    problems.append(f"status {trim.status}: {trim.reason}")
            process.stdin.write(b".")
            process.stdin.flush()
            answer = process.stdout.readline()
        finally:
            process.kill()
    if answer != b"go on\n":
        problems.append(f"it does not go on, but says {answer!r}")
    say(f"hook {where}, {allocator}", problems, f"{trims} {'refused' if wanted else 'trimmed'}")


def hook_targets(flmem, build, trims):
    for allocator, where in HOOKS:
        try:
            trim_hooked(flmem, build, allocator, where, trims)
        except Exception as problem:  # pylint: disable=broad-except
            say(f"hook {where}, {allocator}", [repr(problem)], "")


def extensions(victims):
    program, found = os.path.join(victims, "safe_vectors_aarch64"), []
    for name, mode, expect in EXTENSIONS:
        lacks = subprocess.run([program, mode, "check"], check=False).returncode
        found.append(entries.Entry(name, [program, mode], expect=expect, statuses=(4, 5, 6),
                                   missing="this processor or kernel has none" if lacks else ""))
    return found


def lacks_guards(entry):
    """Returns whether the kernel has MADV_GUARD_INSTALL, for -g of safe_threads."""
    release = tuple(int(number) for number in os.uname().release.split(".")[:2])
    return "-g" in entry.argv and release < (6, 13)


def blocked(victims, allocators):
    found = entries.blocked(victims, allocators)
    for entry in found:
        if entry.name.removeprefix("waits in ").startswith(ENDED_BY_STOP):
            entry.expect = entries.REFUSE
    return found


def code():
    found = entries.code()
    for entry in found:
        if entry.name.endswith(COMPUTES):
            entry.code = entries.EITHER  # it may wait for the lock of the interpreter
    return found


def busy(victims, allocators):
    found = entries.busy(victims, allocators)
    for entry in found:
        if entry.name in AWAKE:
            entry.expect = entries.EITHER
    return found


def choose(name, victims):
    own = [allocator for allocator in entries.ALLOCATORS if not entries.available(allocator)]
    sets = {
        "waits": lambda: blocked(victims, own[:1]),
        "allocators": lambda: [one for one in blocked(victims, own) if
                               one.allocator != own[0]] + entries.linked(victims),
        "busy": lambda: busy(victims, own[:1]),
        "traps": lambda: entries.traps(victims, own[:1]),
        "code": code,
        "extensions": lambda: extensions(victims),
        "kills": lambda: [one for one in kill.targets(victims, own[:1]) if one.name in KILLED],
    }
    return sets[name]()


def main():
    build, name, trims = os.path.abspath(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    flmem = command.Flmem(build)
    victim.end_at_signals()
    wanted = sys.argv[4] if len(sys.argv) > 4 else ""
    if name == "hooks":
        hook_targets(flmem, build, trims)
        return
    os.environ.update(SLOWER.get(name, {}))
    for entry in choose(name, os.path.join(build, "tests", "victims")):
        if wanted not in entry.name:
            continue
        if lacks_guards(entry):
            entry.missing = "this kernel has no guard pages that mappings do not show"
        if entry.missing or not os.path.exists(entry.argv[0]):
            print(f"STEP {entry.name.replace(' ', '_')} SKIP {entry.missing or 'not built'}")
            continue
        try:
            if name == "kills":
                kill_target(flmem, entry, trims, build)
            else:
                trim_target(flmem, entry, trims)
        except Exception as problem:  # pylint: disable=broad-except
            say(entry.name, [f"{problem!r} {traceback.format_exc()[-200:]}"], "")


if __name__ == "__main__":
    main()
