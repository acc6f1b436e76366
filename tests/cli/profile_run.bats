#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2030,SC2031,SC2016,SC2153 # each test has its own shell; code for other programs
# flmem profile run: the sampler in programs whose allocations are known. The profile is read by
# tests/harness/heap_profile.py, not by flmem.

load helpers
load profile

setup() {
	requires victim:sampled/sampled python3
	PROFILE=$BATS_TEST_TMPDIR/p.prof
	SAMPLED=$FLMEM_VICTIMS/sampled/sampled
	export SAMPLED_ONE=$FLMEM_VICTIMS/sampled/sampled_one.so
	export SAMPLED_TWO=$FLMEM_VICTIMS/sampled/sampled_two.so
}

@test "every function of malloc's family is counted exactly where every byte is a sample point" {
	sample --interval 1 -- functions 3000
	assert_sampled exact
	look 'assert not any(p.dropped.values()), p.dropped
assert p.phase == 2 and p.end_ms >= p.last_ms and not p.lost_bytes'
}

@test "estimates of 20 runs are within 5 %, which is more than 9 standard deviations" {
	local i
	for i in {1..20}; do
		sample --interval 2K -- functions 12500
		assert_sampled 9
	done
}

# The mean of many runs: a bias of 1 % would be eight standard deviations.
@test "estimates have no bias" {
	local i profiles=()
	for i in {1..40}; do
		sample --limit 16MiB --interval 8K -- functions 10000
		mv "$PROFILE" "$PROFILE.$i"
		mv "$SAID" "$SAID.$i"
		profiles+=("$PROFILE.$i")
	done
	PYTHONPATH=$FLMEM_TESTS/harness python - "$SAID" "${profiles[@]}" <<-'END'
		import math, sys
		from check_sampled import *
		sums, runs = {}, len(sys.argv) - 2
		for i, path in enumerate(sys.argv[2:], 1):
		    sites = read_sites(f"{sys.argv[1]}.{i}")
		    found = measured(Profile(path), sites)
		    for _, name, allocated, _, count in sites:
		        row = sums.setdefault(name, [0, allocated, count])
		        row[0] += found[name][0]
		for name, (total, allocated, count) in sums.items():
		    if allocated:
		        spread = deviation(allocated, count, 8192) / math.sqrt(runs)
		        print(name, total / runs / allocated, spread / allocated)
		        assert abs(total / runs - allocated) < 6 * spread, name
	END
}

@test "blocks that change their size and mappings that shrink, grow and are replaced" {
	sample --interval 1 -- changes
	assert_sampled exact
}

@test "functions for mappings that another library defines are called as without the sampler" {
	local said
	[ "$("$FLMEM_VICTIMS/sampled/mapping")" = '0 1 1' ]
	said=$("$FLMEM" profile run --force -o "$PROFILE" --interval 1 -- "$FLMEM_VICTIMS/sampled/mapping")
	[ "$said" = '0 1 1' ] || fail "$said"
	look 'assert sum(s.samples for s in p.sites.values()) >= 3'
}

@test "a program with unmasked floating-point exceptions gets no SIGFPE, and keeps its flags" {
	[ "$("$FLMEM_VICTIMS/sampled/exceptions")" = unchanged ]
	"$FLMEM" profile run --force -o "$PROFILE" -- "$FLMEM_VICTIMS/sampled/exceptions" >"$BATS_TEST_TMPDIR/said"
	[ "$(cat "$BATS_TEST_TMPDIR/said")" = unchanged ]
	look 'assert sum(s.samples for s in p.sites.values()) > 1000'
}

# The mappings of the process are not read for each sample.
@test "code that the program has generated itself does not slow its allocations down" {
	[ "$(uname -m)" = x86_64 ] || skip "the generated code is that of x86-64"
	local direct generated
	read -r direct generated < <("$FLMEM" profile run --force -o "$PROFILE" -- "$FLMEM_VICTIMS/sampled/generated")
	((generated < 5 * direct + 200)) || fail "$direct ms, from generated code $generated ms"
	look 'assert sum(s.samples for s in p.sites.values()) > 1000'
}

@test "where samples would take much time there are fewer, unless an interval is given" {
	sample -- storm 30000
	assert_sampled 7
	look 'assert 1 <= p.paced <= 4 and p.interval_now_bytes == p.interval_bytes == 512 << 10, p.paced
assert sum(s.samples for s in p.sites.values()) > 1000'
	run_command "$FLMEM" profile stats "$PROFILE"
	grep -Ex 'samples: [0-9]+, one per 512 KiB on average, at times one per [0-9]+ MiB' <<<"$output"
	"$FLMEM" profile flamegraph -o "$BATS_TEST_TMPDIR/p.html" "$PROFILE"
	grep -E 'samples, one per 512 KiB on average, at times one per [0-9]+ MiB' "$BATS_TEST_TMPDIR/p.html"
	sample --interval 512K -- storm 30000
	assert_sampled 7
	look 'assert not p.paced'
	# A calm program, or one with few large blocks.
	sample -- functions 100
	look 'assert not p.paced'
}

@test "when a program is calm again, samples are as many as before" {
	sample -- calm 30000
	assert_sampled 7
	# Of 100 MB there are more than 12 samples, which one per 8 MiB would be, and fewer than 200 on a
	# busy machine.
	look 'assert p.paced, p.paced
assert sorted(s.samples for s in p.sites.values())[-2] > 30, [s.samples for s in p.sites.values()]'
}

@test "10,000 threads come and go" {
	sample --interval 16K -- threads 10000
	assert_sampled 7
	look 'assert 100 < len(p.threads) <= 10001
assert not p.dropped["threads_full"]'
}

@test "memory that one thread allocates and another one frees" {
	sample --interval 1 -- crossing 20000
	assert_sampled exact
}

@test "a signal handler that allocates inside the sampler is counted as dropped" {
	local handled
	sample --interval 1 -- inside 10
	handled=$(sed -n 's/^handled //p' "$SAID")
	((handled >= 10))
	look "p.check()
assert p.dropped['nested'] == $handled and p.lost_bytes >= $handled * 4096, p.dropped"
}

@test "a signal handler that allocates at any moment" {
	sample --interval 1 -- signals 1000
	grep -qx 'handled 1000' "$SAID"
	look 'p.check()
assert sum(s.samples for s in p.sites.values()) + p.dropped["nested"] >= 1000, p.dropped'
}

@test "a child samples nothing, and does not change the profile of its parent" {
	sample --interval 1 -- fork 100
	assert_sampled exact
	# The block of 200 bytes is freed in the child alone.
	look 'assert p.phase == 2
assert [row.size for row in p.live.values()].count(200) == 1
assert [s.samples for s in p.sites.values()].count(100) == 1'
	[ "$(find "$BATS_TEST_TMPDIR" -name 'p.prof*' | wc -l)" -eq 1 ]
}

@test "a profile without samples names --follow-children" {
	"$FLMEM" profile run -o "$PROFILE" -- /bin/true
	flmem profile stats "$PROFILE"
	assert_output 'no samples: .*--follow-children'
}

@test "--follow-children: a child has its own file" {
	sample --interval 1 --follow-children -- fork 100
	assert_sampled exact
	local child
	child=$(sed -n 's/^child //p' "$SAID")
	look 'p.check()
assert p.pid == int(sys.argv[2]) and p.phase == 2 and p.round == NONE
assert p.allocated_bytes == 100 * 4000 and not p.freed_bytes, p.allocated_bytes' \
		"$PROFILE.$child" "$child"
	flmem profile stats "$PROFILE.$child"
	assert_output 'program: [^ ]*/sampled'
	assert_output 'began after its process' # the memory of its parent is not in it
}

@test "--follow-children: a child that executes a program has its own file, too" {
	"$FLMEM" profile run -o "$PROFILE" --interval 1 --follow-children -- \
		/bin/sh -c '"$0" functions 100 >"$1"; echo done' "$SAMPLED" "$BATS_TEST_TMPDIR/said" 3>&-
	SAID=$BATS_TEST_TMPDIR/said
	local own found=0
	for own in "$PROFILE".*; do
		look 'sys.exit(not p.program.endswith("/sampled"))' "$own" || continue
		PROFILE=$own
		assert_sampled exact
		look 'assert not p.flags & 16'
		found=1
		break
	done
	[ "$found" = 1 ]
}

@test "--follow-children: children without room on the disk are counted, and reported with the reason" {
	requires root unshare
	cd "$BATS_TEST_TMPDIR"
	export SAMPLED
	# shellcheck disable=SC2016
	run_command unshare -m bash -c '
		mkdir disk && mount -t tmpfs -o size=3M tmpfs disk || exit 77
		"$FLMEM" profile run --limit 2M --interval 1 --follow-children -o disk/p -- \
			/bin/sh -c "\"\$SAMPLED\" fork 100; \"\$SAMPLED\" functions 1; exit 5" >said
		status=$?
		cp disk/p .
		ls disk >left
		exit $status' --
	[ "$status" != 77 ] || skip "needs to mount a tmpfs"
	assert_status 5
	[ "$(cat left)" = p ]
	look 'assert p.dropped["children"] >= 2, p.dropped' p
	flmem profile stats p
	assert_stderr '[0-9]+ child processes could not be recorded.*: No space left on device'
	flmem profile flamegraph -o page p
	grep -E 'Child processes that could not be recorded: [0-9]+ \(No space left' page
	flmem profile stats --json p
	assert_schema profile-stats
	examine 'import json, sys
p = json.load(sys.stdin)["profile"]
assert p["unrecorded_children"] >= 2, p
assert p["unrecorded_children_reason"].startswith("No space left on device (a tenth"), p'
}

@test "a process that executes another program begins its profile again" {
	"$FLMEM" profile run -o "$PROFILE" --interval 1 -- env A=b "$SAMPLED" functions 100 \
		>"$BATS_TEST_TMPDIR/said" 3>&-
	SAID=$BATS_TEST_TMPDIR/said
	assert_sampled exact
	look 'assert p.exec_count == 1 and p.program.endswith("/sampled"), p.exec_count'
}

@test "a program that is calm has nothing of the pace of the one that executed it" {
	sample -- storm 30000 again
	look 'assert p.exec_count == 1 and not p.paced, (p.exec_count, p.paced)'
}

@test "thousands of dlopen and dlclose" {
	sample --interval 1 -- dlopen 3000
	look 'p.check()
names = {}
for site in p.sites.values():
    where = p.stack(site.node)[0][1] or ""
    if "/sampled_" in where:
        name = where.split("/")[-1]
        names[name] = names.get(name, 0) + site.allocated_count // UNIT
print(names)
assert names == {"sampled_one.so": 3000, "sampled_two.so": 3000} # with those of its destructor
assert all(m.build_id_size == 20 for m in p.modules.values() if "/sampled_" in p.string(m.path))'
}

# assert_stacks: checks the innermost frames, in this order.
assert_stacks() {
	sample --interval 1 -- stack 50
	look 'from check_sampled import *
sites = read_sites(sys.argv[2])
stacks = [[name_of(sites, f[0]) for f in p.stack(s.node)] for s in p.sites.values()
          if s.allocated_bytes == 50 * 4000]
assert [s[:3] for s in stacks] == [["inner", "middle", "outer"]], stacks
assert all(len(s) > 4 for s in stacks), "main() and what called it"
assert all(p.stack(s.node)[0][1].startswith(sys.argv[3]) for s in p.sites.values()
           if s.allocated_bytes == 50 * 4000)' "$PROFILE" "$SAID" "$SAMPLED"
}

@test "native stacks where frame pointers are kept" {
	assert_stacks
}

@test "native stacks by the unwind tables of code without frame pointers" {
	[ "$(uname -m)" = x86_64 ] || skip "the tables are read on x86-64"
	requires victim:sampled/frameless
	SAMPLED=$FLMEM_VICTIMS/sampled/frameless
	assert_stacks
}

# The file has room for 192 mappings; the others' changes are not in these, and the kernel's list is
# searched once for each.
@test "mappings that are too many to see their ends are lost, and not live forever" {
	sample --interval 1 -- mappings 9000
	look 'assert all(p.live_bytes(s) == 0 for s in p.sites.values() if s.kind == 1)
assert 700 < p.dropped["mappings_full"] < 900, p.dropped
assert p.lost_bytes == p.dropped["mappings_full"] * 4096, p.lost_bytes
p.check()'
	flmem profile stats "$PROFILE"
	assert_stderr '8[0-9][0-9] samples \([0-9.]+ MiB\) did not fit'
}

# Milliseconds exceed 32 bits.
@test "after fifty days times are still times, and the file says how long it was sampled" {
	"$FLMEM" profile run -o "$PROFILE" --interval 1 -- "$FLMEM_VICTIMS/sampled/later"
	look 'days = 24 * 3600 * 1000
times = sorted(l.time_ms for l in p.live.values() if l.size == 100000)
assert len(times) == 2 and times[0] < days and times[1] > 49 * days, times
assert p.last_ms > 49 * days and p.end_ms > 49 * days
assert max(m.time_ms for m in p.timeline.values()) > 49 * days'
}

# Of the child's memory the grandchild has what another thread left in an intermediate state.
@test "a child that forks while its own file is created: both have one" {
	"$FLMEM" profile run -o "$PROFILE" --interval 1TiB --limit 1M --follow-children -- \
		"$FLMEM_VICTIMS/sampled/busy_child"
	[ "$(find "$BATS_TEST_TMPDIR" -name 'p.prof.*' | wc -l)" = 2 ]
	look 'assert not p.dropped["children"]'
}

@test "a child that calls vfork before its file is created: the file is not that of the other child" {
	"$FLMEM" profile run -o "$PROFILE" --interval 1 --limit 1M --follow-children -- \
		"$FLMEM_VICTIMS/sampled/vforked" /usr/bin/true
	[ "$(find "$BATS_TEST_TMPDIR" -name 'p.prof.*' | wc -l)" = 2 ]
	local own
	for own in "$PROFILE".*; do
		look 'sizes = [l.size for l in p.live.values()]
assert sys.argv[1].endswith(f".{p.pid}") and not p.exec_count, (sys.argv[1], p.pid, p.exec_count)
assert sizes.count(4 << 20) == (3 if p.program.endswith("/vforked") else 0), (p.program, sizes)' "$own"
	done
}

@test "live bytes at the peak of the process are kept, although all of it was freed" {
	sample --interval 1 -- peak
	assert_sampled exact
	look 'peaks = sorted(p.at_peak(s) for s in p.sites.values() if s.allocated_bytes >= 200000)
assert peaks == [0, 400000], peaks
assert p.peak_bytes >= 400000 and p.allocated_bytes - p.freed_bytes < 400000
assert sum(p.at_peak(s) for s in p.sites.values()) == p.peak_bytes'
}

@test "the file is valid while the process runs and after kill -9" {
	start_victim "$FLMEM" profile run -o "$PROFILE" --interval 1 -- "$SAMPLED" functions 500 wait
	SAID=$VICTIM_LOG
	look 'assert p.phase == 1 and p.pid == int(sys.argv[2]) and p.command.endswith("500 wait")' \
		"$PROFILE" "$VICTIM"
	assert_sampled exact
	cp "$PROFILE" "$PROFILE.before"
	kill -KILL "$VICTIM"
	wait "$VICTIM" || true
	look 'assert p.phase == 1'
	assert_sampled exact
	cmp "$PROFILE" "$PROFILE.before"
}

@test "killed at any moment, a profile can be read and is at most one update off" {
	local i
	for i in {1..20}; do
		"$FLMEM" profile run --force -o "$PROFILE" --interval 64 --limit 4M -- \
			"$SAMPLED" crossing 100000000 >/dev/null 3>&- &
		VICTIMS+=($!)
		wait_until 60 has_samples $((i * 500))
		kill -KILL $!
		wait $! || true
		look 'live = sum(r.weight_bytes for r in p.live.values())
off = abs(live - (p.allocated_bytes - p.freed_bytes))
print(p.samples, off, p.update_begin - p.update_end)
assert p.update_begin - p.update_end <= 2 and off <= 3 * 4100
for s in p.sites.values():
    p.stack(s.node)'
	done
}

has_samples() {
	look 'sys.exit(p.phase != 1 or p.samples < int(sys.argv[2]))' "$PROFILE" "$1" 2>/dev/null
}

@test "exit status and signals are those of the command" {
	flmem profile run -o "$PROFILE" -- /bin/sh -c 'exit 7'
	assert_status 7
	flmem profile run -f -o "$PROFILE" -- sh -c 'kill -TERM $$'
	assert_status 143
	flmem profile run -o "$PROFILE.new" -- /nonexistent/command
	assert_error 127
	[ ! -e "$PROFILE.new" ]
}

@test "an existing file is kept without --force" {
	echo precious >"$PROFILE"
	flmem profile run -o "$PROFILE" -- true
	assert_error 2 'exists; use --force'
	[ "$(cat "$PROFILE")" = precious ]
	flmem profile run -f -o "$PROFILE" -- true
	assert_status 0
	look ''
}

@test "what cannot be is refused with its reason" {
	flmem profile run -- true
	assert_error 2 '--output'
	flmem profile run -o "$PROFILE"
	assert_error 2 'no command'
	flmem profile run -o "$PROFILE" --limit 1K -- true
	assert_error 2 '--limit accepts 1 MiB'
	flmem profile run -o "$PROFILE" --interval 2T -- true
	assert_error 2 'at most 1 TiB'
	flmem profile run -o /nonexistent/p -- true
	assert_error 2 "cannot write '/nonexistent/p'"
	[ ! -e "$PROFILE" ]
}

@test "a full disk is refused before the command starts" {
	requires root unshare
	cd "$BATS_TEST_TMPDIR"
	run_command unshare -m bash -c '
		mkdir disk && mount -t tmpfs -o size=8M tmpfs disk || exit 77
		"$FLMEM" profile run -o disk/p -- touch started
		status=$?
		[ ! -e disk/p ] || echo left
		exit $status' --
	[ "$status" != 77 ] || skip "needs to mount a tmpfs"
	assert_error 7 'cannot allocate 64 MiB .*--limit'
	[ ! -e started ]
}

@test "a limit of file sizes is named" {
	cd "$BATS_TEST_TMPDIR"
	run_command bash -c 'ulimit -f 2048 && exec "$FLMEM" profile run -o p -- touch started' -
	assert_error 7 'cannot allocate 64 MiB .*: files of this process may have 2 MiB \(ulimit -f\); raise that'
	[ ! -e started ]
	[ ! -e p ]
	run_command bash -c 'ulimit -f 2048 && exec "$FLMEM" profile run -o p --limit 2MiB -- touch started' -
	assert_status 0
	[ -e started ]
}

@test "secrets of the command line are not in the profile" {
	flmem profile run -o "$PROFILE" -- "$SAMPLED" functions 1 --token hunter2-very-secret
	run ! grep -q hunter2-very-secret "$PROFILE"
	look 'assert "redacted" in p.command, p.command'
	[ "$(stat -c %a "$PROFILE")" = 600 ]
}

@test "--limit: a small file fills without harm, and says what is missing" {
	sample --interval 1 --limit 1M -- functions 2000
	look 'assert p.file_size == 1 << 20
assert p.interval_now_bytes > p.interval_bytes
p.check()'
	flmem profile stats "$PROFILE"
	assert_output 'one per 1 B on average, later one per [0-9.]+ [A-Za-z]+ because the file filled'
	flmem profile stats --json "$PROFILE"
	assert_schema profile-stats
	examine 'import json, sys
p = json.load(sys.stdin)["profile"]
assert p["interval_full_bytes"] == p["interval_now_bytes"] > p["interval_bytes"], p'
}

# Each way through the functions has a separate stack: fifty times as many samples as the file can
# hold.
@test "--limit: a heap that grows and grows is sampled to its end" {
	"$FLMEM" profile run --limit 1MiB --interval 1KiB -o "$PROFILE" -- /usr/bin/python3 -c '
import os
first = [bytearray(2000) for _ in range(20000)]
last = [bytearray(2000) for _ in range(40000)]
os._exit(0)' 3>&-
	look 'live = sum(l.weight_bytes for l in p.live.values())
assert 80e6 < live < 160e6, live
assert p.interval_now_bytes <= 32 << 20, p.interval_now_bytes
assert len({l.time_ms for l in p.live.values()}) > 1'
}

@test "stacks whose inner frames did not fit: what they allocated is attributed to their callers" {
	"$FLMEM" profile run -o "$PROFILE" --interval 1K --limit 1M -- /usr/bin/python3 -c '
import random
random.seed(1)
kept = []
for i in range(20):
    exec(f"def f{i}(way):\n    return f[way[1]](way[1:]) if len(way) > 1 else kept.append(bytearray(4096))")
f = [globals()[f"f{i}"] for i in range(20)]
for _ in range(1000):
    way = [random.randrange(20) for _ in range(20)]
    f[way[0]](way)' 3>&-
	look 'assert p.dropped["nodes_full"] and not p.dropped["deep"] and not p.dropped["sites_full"], p.dropped'
	flmem profile stats "$PROFILE"
	assert_stderr '[0-9]+ stacks without inner frames, which did not fit in the file: .* larger --limit'
	[[ $stderr != *'outer frames'* ]] || fail "$stderr"
	flmem profile stats --json "$PROFILE"
	assert_schema profile-stats
	examine 'import json, sys
p = json.load(sys.stdin)["profile"]
assert p["full_stacks"] and not p["cut_stacks"], p'
	flmem profile flamegraph "$PROFILE"
	assert_status 0
	grep -q 'Inner frames of [0-9]* stacks did not fit in the file' "$PROFILE.html"
}

each_allocator() {
	local library
	for library in libjemalloc.so.2 libtcmalloc.so.4 libtcmalloc_minimal.so.4 libmimalloc.so.2; do
		library=$(echo /usr/lib/*/"$library")
		if [ ! -e "$library" ]; then
			skip_part "$BATS_TEST_DESCRIPTION: no $library"
			continue
		fi
		echo "with $library"
		LD_PRELOAD=$library "$@" "$library"
	done
}

under_allocator() {
	SAMPLED_WITHOUT=pvalloc sample --interval 1 -- functions 2000
	local -x LD_PRELOAD=
	assert_sampled exact
	look 'assert p.allocator == sys.argv[2], p.allocator
# Mappings of the allocator itself are not counted.
mappings = sum(s.allocated_bytes for s in p.sites.values() if s.kind == 1)
assert mappings == 2000 * 4096, mappings' "$PROFILE" "$1"
}

# bats test_tags=unsanitised
@test "calls are passed on to a preloaded jemalloc, tcmalloc or mimalloc" {
	! sanitized || skip "a preloaded allocator and AddressSanitizer do not go together"
	each_allocator under_allocator
}

@test "on btrfs, which writes to new blocks, a profile is refused: a full disk would kill the program" {
	command -v mkfs.btrfs >/dev/null || skip "needs mkfs.btrfs"
	[ "$(id -u)" = 0 ] && grep -q btrfs /proc/filesystems || skip "needs root and btrfs in the kernel"
	truncate -s 128M "$BATS_TEST_TMPDIR/disk"
	mkfs.btrfs -q "$BATS_TEST_TMPDIR/disk"
	mkdir "$BATS_TEST_TMPDIR/mounted"
	run_command unshare -m bash -c 'mount -o loop "$1/disk" "$1/mounted" || exit 77
		"$FLMEM" profile run -o "$1/mounted/p.prof" --limit 1MiB -- true
		code=$?
		[ -z "$(ls -A "$1/mounted")" ] || exit 78
		exit "$code"' - "$BATS_TEST_TMPDIR"
	[ "$status" -ne 77 ] || skip "a loop device cannot be mounted"
	assert_error 2 'a full disk would kill the program'
}

@test "the command has the dispositions of signals that flmem was started with" {
	local plain
	plain=$(grep SigIgn /proc/self/status)
	run_command "$FLMEM" profile run -o "$BATS_TEST_TMPDIR/p.prof" --limit 1MiB -- grep SigIgn /proc/self/status
	assert_status 0
	[ "$output" = "$plain" ]
}
