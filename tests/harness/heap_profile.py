# SPDX-License-Identifier: Apache-2.0
"""
Reads a sampled heap profile by itself, as libcore/preload/profile_format.h describes it, so that the
tests of the sampler do not depend on flmem's own reader. As a program it prints a summary.
"""
import struct
import sys
from collections import namedtuple

HEADER = [("magic", "8s"), *((n, "I") for n in ("version", "header_size", "order", "flags", "phase",
          "sections")), *((n, "Q") for n in ("file_size", "interval_bytes", "interval_now_bytes")),
          ("pid", "I"), ("parent_pid", "I"), *((n, "Q") for n in (
              "start_time_ticks", "start_realtime_ms", "start_boottime_ms", "end_ms", "last_ms",
              "update_begin", "update_end")), ("exec_count", "I"), ("python_state", "I"),
          ("python_version", "I"), ("cells_full_round", "I"),
          *((n, "Q") for n in ("allocated_bytes", "allocated_count", "freed_bytes", "freed_count",
                               "samples", "peak_bytes", "peak_ms", "peak_epoch", "lost_bytes",
                               "timeline_period_ms")), ("round", "I"), ("paced", "I")]
SAMPLES = [name for name, _ in HEADER].index("samples")
NONE, READY, UNIT = 0xffffffff, 1, 1024
PHASES = ("prepared", "running", "ended", "refused")
DROPS = ("nested", "scratch", "sites_full", "live_full", "strings_full", "frames_full", "nodes_full",
         "cells_full", "rounds_full", "threads_full", "modules_full", "deep", "python",
         "mappings_full", "unmixed", "children", "small_stack", "unseen")
RECORDS = (  # (name, format, fields)
    ("strings", "IHH24s", "state length blocks bytes"),
    ("frames", "IIIIIIQII", "state kind function file line first_line address module reserved"),
    ("nodes", "IIII", "state parent frame depth"),
    ("sites", "IIIIQQQQQQQQQQ", "state node kind reserved allocated_bytes allocated_count freed_bytes"
     " freed_count samples peak_bytes peak_epoch live_at_peak first_ms last_ms"),
    ("cells", "IIIIQQQQQ", "state site round reserved allocated_bytes allocated_count freed_bytes"
     " freed_count peak_bytes"),
    ("live", "IIQQQQQII", "state site address_hash size weight_bytes weight_count time_ms thread round"),
    ("rounds", "IIQQQQQQQ", "state round start_ms allocated_bytes allocated_count freed_bytes"
     " freed_count peak_bytes peak_ms"),
    ("timeline", "IIQQQQ", "state round time_ms rss_bytes live_bytes allocated_bytes"),
    ("threads", "IIQ16s", "state tid first_ms name"),
    ("modules", "IIQQQQI36s", "state path start end bias first_ms build_id_size build_id"))


def count_samples(path):
    """Reads the profile of a process that may be writing it."""
    with open(path, "rb") as file:
        at = struct.calcsize("<" + "".join(kind for _, kind in HEADER[:SAMPLES]))
        return struct.unpack_from("<Q", file.read(at + 8), at)[0]


class Profile:
    def __init__(self, path):
        with open(path, "rb") as file:
            self.data = file.read()
        at = 0
        for name, kind in HEADER:
            setattr(self, name, struct.unpack_from("<" + kind, self.data, at)[0])
            at += struct.calcsize("<" + kind)
        assert self.magic == b"FLMEMHP\0" and self.version == 1 and self.order == 0x01020304
        assert self.file_size == len(self.data), (self.file_size, len(self.data))
        self.dropped = dict(zip(DROPS, struct.unpack_from("<32Q", self.data, at)))
        at += 256
        self.section = []
        for _ in range(16):
            self.section.append(struct.unpack_from("<QIIII", self.data, at))
            at += 24
        self.texts = []
        for size in (256, 1024, 256, 64, 256):
            self.texts.append(self.data[at:at + size].split(b"\0")[0].decode())
            at += size
        self.program, self.command, self.allocator, self.build, self.refusal = self.texts
        for i, (name, kind, fields) in enumerate(RECORDS):
            setattr(self, name, self.records(i, kind, namedtuple(name, fields)))

    def records(self, index, kind, make):
        offset, size, capacity, used, _ = self.section[index]
        assert size == struct.calcsize("<" + kind), (index, size)
        assert offset % 8 == 0 and offset + size * capacity <= self.file_size
        found = {}
        for i in range(min(used, capacity)):
            row = make(*struct.unpack_from("<" + kind, self.data, offset + i * size))
            if row.state == READY:
                found[i] = row
        return found

    def string(self, record):
        block = self.strings.get(record)
        start = self.section[0][0] + record * 32 + 8
        return self.data[start:start + block.length].decode(errors="replace") if block else None

    def stack(self, node):
        """Returns frames from the innermost on: (function, file, line), or (address, path of the
        module)."""
        found = []
        while node:
            row = self.nodes[node]
            frame = self.frames[row.frame]
            if frame.kind == 1:
                found.append((self.string(frame.function), self.string(frame.file), frame.line))
            else:
                module = self.modules.get(frame.module)
                found.append((frame.address, self.string(module.path) if module else None))
            assert row.parent < node, "the tree has a cycle"
            node = row.parent
        return found

    def live_bytes(self, site):
        return site.allocated_bytes - site.freed_bytes

    def at_peak(self, site):
        return site.live_at_peak if site.peak_epoch == self.peak_epoch else self.live_bytes(site)

    def python_sites(self):
        """Returns (function, file, line) of the innermost Python frame -> allocated, freed,
        live."""
        found = {}
        for site in self.sites.values():
            frames = [f for f in self.stack(site.node) if len(f) == 3]
            old = found.get(frames[0] if frames else None, (0, 0, 0))
            found[frames[0] if frames else None] = (
                old[0] + site.allocated_bytes, old[1] + site.freed_bytes,
                old[2] + self.live_bytes(site))
        return found

    def check(self):
        """Checks what holds in every profile that nobody is writing."""
        assert self.update_begin == self.update_end, (self.update_begin, self.update_end)
        for name in ("allocated_bytes", "allocated_count", "freed_bytes", "freed_count", "samples"):
            total = sum(getattr(s, name) for s in self.sites.values())
            assert total == getattr(self, name), (name, total, getattr(self, name))
        for name in () if self.dropped["rounds_full"] else ("allocated_bytes", "freed_bytes"):
            total = sum(getattr(s, name) for s in self.rounds.values())
            assert total == getattr(self, name), ("rounds", name, total, getattr(self, name))
            if not self.dropped["cells_full"]:
                total = sum(getattr(s, name) for s in self.cells.values())
                assert total == getattr(self, name), ("cells", name, total, getattr(self, name))
        live = sum(row.weight_bytes for row in self.live.values())
        assert live == self.allocated_bytes - self.freed_bytes, (
            live, self.allocated_bytes - self.freed_bytes)
        for row in self.live.values():
            assert row.size <= row.weight_bytes + 1, (row.size, row.weight_bytes)
            assert row.site in self.sites and (row.thread in self.threads or row.thread == NONE)
        for site in self.sites.values():
            self.stack(site.node)
            assert self.live_bytes(site) <= site.peak_bytes <= site.allocated_bytes


def main():
    profile = Profile(sys.argv[1])
    print(PHASES[profile.phase], "pid", profile.pid, profile.program, "|", profile.command)
    print("allocator", profile.allocator, "python", profile.python_state, hex(profile.python_version))
    for name, _ in HEADER[7:]:
        print(" ", name, getattr(profile, name))
    print({k: v for k, v in profile.dropped.items() if v}, profile.refusal)
    print({name: len(getattr(profile, name)) for name, _, _ in RECORDS})
    for site in sorted(profile.sites.values(), key=lambda s: -s.allocated_bytes)[:10]:
        print(f"{site.allocated_bytes / 1e6:9.1f} MB, live {profile.live_bytes(site) / 1e6:9.1f} MB, "
              f"at peak {profile.at_peak(site) / 1e6:9.1f}, kind {site.kind}, {site.samples} samples")
        for frame in profile.stack(site.node)[:12]:
            print("     ", *(hex(f) if isinstance(f, int) and f > 1 << 32 else f for f in frame))
    profile.check()


if __name__ == "__main__":
    main()
