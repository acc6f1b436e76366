# SPDX-License-Identifier: Apache-2.0
"""
What the bats tests ask of a process before and after something was done to it, of every thread.

usage: unharmed.py snapshot PID >FILE
       unharmed.py check PID FILE [--code] [--moved]

After it the process lives; no thread is traced, stopped or has other signals blocked; there
are as many mappings and descriptors, and no more threads; and each thread either moves on or is
back in the very wait, at the same place of its stack, that it was in before. --code: Python code
was run in it, whose objects come and go in anonymous memory; and a thread that it was run in leaves
its stack (with the guard below it) to the C library's cache, and the allocator an arena of its own.
--moved: the program has gone on to other waits meanwhile, so that these are not compared.
"""
import json
import os
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

from harness import proc  # noqa: E402

SETTLE_S = float(os.environ.get("UNHARMED_SETTLE_S", "20"))  # a limit, not a measurement
LOOK_S = 0.03
STEADY_TRIES = 40
# Mappings that running code may add: two threads leave a stack with its guard each, and an arena of
# two mappings each; the interpreter adds an arena.
CODE_MAPPINGS = 10


def place(pid, tid):
    """Returns the place of a blocked thread: stack pointer and instruction; None while it runs or
    has ended."""
    try:
        fields = proc.read(f"/proc/{pid}/task/{tid}/syscall").split()
    except (OSError, proc.Gone):
        return None
    return fields[-2:] if len(fields) >= 3 else None


def threads(pid):
    found = {}
    moves = proc.activity(pid)
    for tid, fields in proc.each_status(pid):
        if fields["State"][0] not in "ZX":
            found[str(tid)] = {"blocked": fields["SigBlk"], "place": place(pid, tid),
                               "moves": moves.get(tid)}
    return found


def settled(before, now):
    """True if every thread has stayed at its place, or is one that always moves."""
    return before.keys() == now.keys() and all(
        one["place"] == now[tid]["place"] for tid, one in before.items())


def snapshot(pid):
    """Returns the state of the process once its threads are in their waits; some never are."""
    now = threads(pid)
    for _ in range(STEADY_TRIES):
        time.sleep(LOOK_S)
        before, now = now, threads(pid)
        if settled(before, now):
            break
    return {"threads": now, "named": len(named(pid)), "mappings": len(proc.mappings(pid)),
            "descriptors": len(os.listdir(f"/proc/{pid}/fd"))}


def named(pid):
    return [one for one in proc.mappings(pid) if "x" in one[1] or one[2].startswith("/")]


def compare(pid, before, code):
    """Returns the differences to the snapshot, apart from the progress of the threads."""
    found = [f"thread {tid} is stopped: {state}" for tid, state in proc.held(pid).items()]
    found += [f"traced by {tracer}" for tracer in proc.tracers(pid)]
    now = threads(pid)
    if len(now) > len(before["threads"]):
        found.append(f"{len(before['threads'])} threads became {len(now)}")
    found += [f"thread {tid} had {one['blocked']} blocked, now {now[tid]['blocked']}"
              for tid, one in before["threads"].items()
              if tid in now and one["blocked"] != now[tid]["blocked"]]
    count = len(named(pid))
    if count != before["named"]:
        found.append(f"{before['named']} mappings of files or code became {count}")
    count = len(proc.mappings(pid))
    if count > before["mappings"] + CODE_MAPPINGS or (not code and count != before["mappings"]):
        found.append(f"{before['mappings']} mappings became {count}")
    count = len(os.listdir(f"/proc/{pid}/fd"))
    if count != before["descriptors"]:
        found.append(f"{before['descriptors']} descriptors became {count}")
    return found


def lost(pid, before, start):
    """Returns threads that neither have moved on since `start` nor are at the place where they
    waited before."""
    now = threads(pid)
    return [tid for tid, one in start.items() if tid in now and now[tid]["moves"] == one["moves"]
            and not (tid in before["threads"] and one["place"]
                     and one["place"] == before["threads"][tid]["place"])]


def check(pid, before, allowed):
    start = threads(pid)
    end = time.monotonic() + SETTLE_S
    while True:
        found = compare(pid, before, "--code" in allowed)
        if "--moved" not in allowed:
            found += [f"thread {tid} neither moves on nor waits where it did"
                      for tid in lost(pid, before, start)]
        if not found or time.monotonic() > end:
            return found
        time.sleep(LOOK_S)


def main():
    what, pid = sys.argv[1], int(sys.argv[2])
    try:
        if what == "snapshot":
            json.dump(snapshot(pid), sys.stdout)
            return
        with open(sys.argv[3], encoding="utf-8") as file:
            found = check(pid, json.load(file), sys.argv[4:])
    except (proc.Gone, OSError) as error:
        found = [f"process {pid} can no longer be read: {error!r}"]
    if found:
        raise SystemExit("\n".join(found))


if __name__ == "__main__":
    main()
