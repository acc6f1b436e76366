# SPDX-License-Identifier: Apache-2.0
"""The system calls of a trim on aarch64 and on x86-64, counted by phase: counts.py DIRECTORY

Both systems have the same Debian release, kernel version and program (reader.c), and the builds of
the wheels below DIRECTORY. strace -f records each trim there. Fails if a count differs by anything
else than DIFFERENCES. Prints a table.
"""
import collections
import dataclasses
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import run  # noqa: E402

SYSTEMS = ("amd64-bookworm", "arm64-bookworm")
PACKAGES = ("strace", "libunwind8", "liblzma5", "libgcc-s1")
TRIMS = 10  # under strace most of them come too late on a busy machine
INIT = """#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin:/usr/bin LC_ALL=C
mkdir -p /proc /sys /tmp
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t tmpfs tmpfs /tmp
mount -t devtmpfs devtmpfs /dev 2>/dev/null
mkfifo /tmp/bytes
sleep 100000 >/tmp/bytes &
reader </tmp/bytes >/tmp/answers &
reader=$!
until grep -q ready /tmp/answers; do sleep 1; done
sleep 2
echo "SYSTEM $(uname -r | sed 's/-[a-z0-9]*$//')"
for trim in $(seq {trims}); do
	strace -f -qq -o /tmp/trace flmem trim --pid $reader >/tmp/said 2>&1
	echo "TRIM status $?: $(head -n 1 /tmp/said)"
	sed -n 's/^\\([0-9]* *[a-z0-9_]*(.\\{0,60\\}\\).*/CALL \\1/p' /tmp/trace
	echo "TRIM over"
done
echo END
sync
poweroff -f
"""



# The thread that borrows: from its first request to seize up to the release of the thread with its
# calls ahead, and from its second request up to the end. Searching and waiting take as many calls as
# the time allows; they are only printed.
PHASES = ("first stop", "second stop")
ONE_OF_MANY = "kernel: a register set of its own, in XSTATE on x86-64 or not there"
LAST_LOOK = "kernel: it decides before the stop about the call, so the thread is checked once more"
ENTRY = "kernel: it does not make a moved thread's call again, so the thread runs to the entry of the call"
FILTERED = "kernel: it makes the call again after the release, which the thread's filters must allow"
# What aarch64 has more than x86-64 in a phase, with the reason.
DIFFERENCES = {
    PHASES[0]: {
        "pread64": (3, LAST_LOOK + " (2); libc: the thread pointer leads to the vector of blocks (1)"),
        "process_vm_readv": (1, "libc: the thread pointer leads to the vector of blocks"),
        "ptrace GETREGSET NT_ARM_TLS": (1, "kernel: with the general registers on x86-64"),
        "ptrace PEEKTEXT": (1, "kernel: the registers do not show whether the thread is in a call"),
        "ptrace GETREGSET NT_FPREGSET": (1, "kernel: the name of the vector state"),
        "ptrace GETREGSET NT_X86_XSTATE": (-1, "kernel: the name of the vector state"),
        "ptrace PEEKUSER": (-1, "kernel: breakpoints"),
        "ptrace GETREGSET NT_ARM_HW_BREAK": (1, "kernel: breakpoints"),
        "ptrace GETREGSET NT_ARM_HW_WATCH": (1, "kernel: breakpoints"),
        **{f"ptrace GETREGSET {name}": (1, ONE_OF_MANY)
           for name in ("NT_ARM_SVE", "NT_ARM_SSVE", "NT_ARM_ZA", "NT_ARM_TAGGED_ADDR_CTRL", "0x40f", "0x410")},
    },
    PHASES[1]: {
        "ptrace GETREGSET NT_ARM_TLS": (1, "kernel: with the general registers on x86-64"),
        "ptrace PEEKTEXT": (1, "kernel: the registers do not show whether the thread is in a call"),
        "ptrace SETREGSET NT_FPREGSET": (1, "kernel: the name of the vector state"),
        "ptrace SETREGSET NT_X86_XSTATE": (-1, "kernel: the name of the vector state"),
        **{key: (1, ENTRY) for key in ("ptrace SYSCALL", "waitid", "wait4", "ptrace CONT")},
        "ptrace DETACH": (-1, ENTRY),
        **{key: (-1, FILTERED) for key in ("ptrace GETREGSET NT_PRSTATUS", "ptrace SECCOMP_GET_FILTER")},
    },
}
# Read without a system call where the kernel trusts the clock, which no emulated one is.
CLOCKS = ("clock_gettime", "clock_nanosleep")


def pack(directory, system):
    """Returns the folder of the system's kernel, and its disk."""
    place = run.unpack_system(directory, system)
    packages = os.path.join(place, "strace")
    if not os.path.isdir(packages):
        os.makedirs(packages + ".part", exist_ok=True)
        run.download(packages + ".part", system, PACKAGES)
        for package in glob.glob(os.path.join(packages + ".part", "*.deb")):
            subprocess.run(["dpkg-deb", "-x", package, os.path.join(packages + ".part", "root")], check=True)
        os.rename(packages + ".part", packages)
    with tempfile.TemporaryDirectory() as tree:
        run.make_root(directory, place, system, tree, python=False)
        for name in ("lib", "usr/lib"):
            if os.path.isdir(os.path.join(packages, "root", name)):
                shutil.copytree(os.path.join(packages, "root", name), os.path.join(tree, name), symlinks=True,
                                dirs_exist_ok=True)
        shutil.copy(os.path.join(packages, "root", "usr", "bin", "strace"), os.path.join(tree, "bin"))
        with open(os.path.join(tree, "init"), "w", encoding="ascii") as file:
            file.write(INIT.replace("{trims}", str(TRIMS)))
        return place, run.pack_tree(tree)


def request_of(name, text):
    """Returns the call, with the request of ptrace and what it reads or writes."""
    if name != "ptrace":
        return name
    found = re.match(r"\(PTRACE_(\w+), \d+(?:, (NT_\w+|0x4\w\w)\b)?|\((0x\w+)", text)
    return " ".join(part for part in ("ptrace", *found.groups()) if part)


def count_calls(trace, stops):
    """Counts the calls of one trim by phase, of its last attempt, which had so many stops."""
    calls = re.findall(r"CALL (\d+) +(\w+)(\(.*?)\r?$", trace, re.M)
    borrower = {thread for thread, name, _ in calls if name == "ptrace"}
    seizes = [number for number, call in enumerate(calls) if "PTRACE_SEIZE" in call[2]]
    counts, phase = {phase: collections.Counter() for phase in PHASES}, ""
    for number, (thread, name, text) in enumerate(calls):
        if number in seizes[-stops:]:
            phase = PHASES[0] if number == seizes[-stops] else PHASES[1]
        if not phase or thread not in borrower or name in CLOCKS:
            continue
        counts[phase][request_of(name, text)] += 1
        if phase == PHASES[0] and "PTRACE_DETACH" in text:
            phase = ""
    return counts


def trims_of(output):
    """Returns the counts of each trim that came to its calls by phase, of trims in time in both."""
    found = {phase: [] for phase in PHASES}
    for status, trace in re.findall(r"TRIM status ([07]):(.*?)TRIM over", output, re.S):
        # too late (7): on aarch64 the thread was not stopped again
        stops = 2 if status == "0" or trace.count("PTRACE_SEIZE") % 2 == 0 else 1
        counts = count_calls(trace, stops)
        found[PHASES[0]].append(counts[PHASES[0]])
        if status == "0":
            found[PHASES[1]].append(counts[PHASES[1]])
    return found


def least(counts):
    """Returns the smallest number of each call among the trims: no request was made twice."""
    return {key: min(count[key] for count in counts) for count in counts for key in count}


def boot_system(directory, name):
    """Returns the counts of a system's trims and its kernel."""
    system = dataclasses.replace(run.SYSTEMS[name], options=(*run.SYSTEMS[name].options, "-smp", "2"))
    place, content = pack(directory, system)
    with tempfile.TemporaryDirectory() as folder:
        disk = os.path.join(folder, "disk")
        with open(disk, "wb") as file:
            file.write(content)
        output = run.boot(place, system, disk)
    with open(os.path.join(directory, "counts-" + name), "w", encoding="utf-8") as file:
        file.write(output)
    kernel = re.search(r"SYSTEM (.*?)\r?$", output, re.M)
    return trims_of(output), kernel and kernel.group(1)


def compare(phase, one, other):
    """Prints a phase; returns what differs in another way than DIFFERENCES."""
    print(f"{phase}: {sum(one.values())} and {sum(other.values())} system calls")
    problems, known = [], DIFFERENCES[phase]
    for key in sorted({**one, **other, **known}):
        differs = other.get(key, 0) - one.get(key, 0)
        wanted, reason = known.get(key, (0, ""))
        if differs:
            print(f"    {key:40} {one.get(key, 0):4} {other.get(key, 0):4}  {reason}")
        if differs != wanted:
            problems.append(f"{phase}: {key}: {differs:+} instead of {wanted:+}")
    return problems


def main():
    directory = os.path.abspath(sys.argv[1])
    booted, problems = [boot_system(directory, name) for name in SYSTEMS], []
    (one, kernel), (other, other_kernel) = booted
    print(f"kernels {kernel} and {other_kernel}")
    if not kernel or kernel != other_kernel:
        problems.append("not the same kernel")
    for phase in PHASES:
        print(f"{phase}: {len(one[phase])} and {len(other[phase])} trims")
        if one[phase] and other[phase]:
            problems += compare(phase, least(one[phase]), least(other[phase]))
        elif phase == PHASES[0]:
            problems.append("no thread was stopped")
        else:
            print("SKIP: no trim was in time under strace: this machine is busy")
    for problem in problems:
        print("FAILED:", problem)
    sys.exit(bool(problems))


if __name__ == "__main__":
    main()
