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



# By what the thread of flmem does that borrows: up to its first request to seize, up to the release
# of the thread with its calls ahead, up to the second request, up to the end of that thread. Of the
# search only calls of the threads that work are counted, not those of the one that looks after them.
PHASES = ("search", "first stop", "calls", "second stop")
# What aarch64 has more than x86-64, by phase and call, with the reason.
DIFFERENCES: dict = {}
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


def count_calls(trace):
    """Counts the calls of one trim by phase, of its last attempt; None without both stops."""
    calls = re.findall(r"CALL (\d+) +(\w+)(\(.*?)\r?$", trace, re.M)
    borrower = {thread for thread, name, _ in calls if name == "ptrace"}
    seizes = [number for number, call in enumerate(calls) if "PTRACE_SEIZE" in call[2]]
    if len(seizes) < 2:
        return None
    counts, phase = collections.Counter(), "search"
    for number, (thread, name, text) in enumerate(calls):
        if number in seizes[-2:]:
            phase = "first stop" if number == seizes[-2] else "second stop"
        if phase == "search" and thread == calls[0][0] or phase != "search" and thread not in borrower:
            continue
        if name not in CLOCKS:
            counts[phase, request_of(name, text)] += 1
        if phase == "first stop" and "PTRACE_DETACH" in text:
            phase = "calls"
    return counts


def trims_of(output):
    found = re.findall(r"TRIM status 0: (.*?)\r?$(.*?)TRIM over", output, re.M | re.S)
    return [count for count in (count_calls(trace) for _, trace in found) if count]


def least(counts):
    """Returns the smallest number of each call among the trims: none was made twice."""
    keys = set().union(*counts)
    return {key: min(count[key] for count in counts) for key in keys}


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


def compare(one, other):
    """Prints the phases; returns what differs in another way than DIFFERENCES."""
    problems = []
    for phase in PHASES:
        sums = [sum(count for key, count in counts.items() if key[0] == phase) for counts in (one, other)]
        print(f"{phase:12} {sums[0]:5} {sums[1]:5}")
        for key in sorted(key for key in {**one, **other} if key[0] == phase):
            differs = other.get(key, 0) - one.get(key, 0)
            wanted, reason = DIFFERENCES.get(key, (0, ""))
            if differs:
                print(f"    {key[1]:40} {one.get(key, 0):4} {other.get(key, 0):4}  {reason}")
            if differs != wanted:
                problems.append(f"{phase}: {key[1]}: {differs:+} instead of {wanted:+}")
    return problems


def main():
    directory = os.path.abspath(sys.argv[1])
    booted = [boot_system(directory, name) for name in SYSTEMS]
    for name, (counts, kernel) in zip(SYSTEMS, booted):
        print(f"{name}: kernel {kernel}, {len(counts)} trims made", flush=True)
    if not all(counts for counts, _ in booted) or booted[0][1] != booted[1][1]:
        print("FAILED: no trim in one system, or other kernels")
        sys.exit(1)
    problems = compare(*(least(counts) for counts, _ in booted))
    for problem in problems:
        print("FAILED:", problem)
    sys.exit(bool(problems))


if __name__ == "__main__":
    main()
