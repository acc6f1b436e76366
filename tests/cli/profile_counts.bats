#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2016 # code for other programs
# What a profile lacks or adds up, as the commands report it; and the exit status of leaks.

load helpers
load profile

setup() {
	requires python3
	PROFILE=$BATS_TEST_TMPDIR/p.prof
}

# record CODE: runs it in Python with announce(round) and keep(bytes).
record() {
	"$FLMEM" profile run --force -o "$PROFILE" --limit 4M --interval 64K -- /usr/bin/python3 -I -c "
import ctypes, time
announce = ctypes.CDLL(None).flmem_sampler_round_set
kept = []
def keep(size):
    kept.append(bytearray(size))
$1" 3>&-
}

# count NAME NUMBER: sets a counter, as if so much had been dropped.
count() {
	PYTHONPATH=$FLMEM_TESTS/harness python -c '
import struct, sys
from heap_profile import *
at = sum(struct.calcsize("<" + kind) for _, kind in HEADER) + 8 * DROPS.index(sys.argv[2])
with open(sys.argv[1], "r+b") as file:
    file.seek(at)
    file.write(struct.pack("<Q", int(sys.argv[3])))' "$PROFILE" "$1" "$2"
}

@test "every count of what is missing is reported, in text and in JSON" {
	record 'keep(1 << 20)'
	flmem profile stats "$PROFILE"
	[ -z "$stderr" ]
	count python 3
	count strings_full 4
	count modules_full 5
	count threads_full 1
	count nested 6
	count small_stack 7
	count sites_full 2
	flmem profile stats --stack mixed "$PROFILE"
	assert_status 0
	assert_stderr '3 Python frames could not be read: stacks lack them, or end there'
	assert_stderr '4 names of functions and files did not fit in the file'
	assert_stderr 'modules of 5 code ranges did not fit in the file: native stacks end there'
	assert_stderr '1 thread did not fit in the file'
	assert_stderr '2 samples \(0 B with those that could not be taken\) did not fit in the file'
	assert_stderr '13 samples could not be taken: in signal handlers'
	count unseen 9
	printf '\20' | dd of="$PROFILE" bs=1 seek=20 conv=notrunc status=none # FLMEM_PROFILE_LATE
	flmem profile flamegraph "$PROFILE"
	assert_status 0
	grep -q 'Samples that did not fit in the file: 2[.]' "$PROFILE.html"
	grep -q 'Samples that could not be taken: 13[.]' "$PROFILE.html"
	grep -q 'began after its process' "$PROFILE.html"
	grep -q 'bypassed the sampler when attach ended: 9[.]' "$PROFILE.html"
	count sites_full 0
	flmem profile stats --stack python --json "$PROFILE"
	assert_schema profile-stats
	examine 'import json, sys
p = json.load(sys.stdin)["profile"]
assert (p["unread_frames"], p["lost_names"], p["lost_modules"], p["lost_threads"]) == (3, 4, 5, 1), p
assert (p["lost_samples"], p["failed_samples"]) == (13, 13), p'
	flmem profile stats --stack python "$PROFILE"
	assert_stderr '13 samples \(0 B\) could not be taken'
	[[ $stderr != *'code ranges'* && $stderr != *'did not fit in the file: give'* ]] || fail "$stderr"
}

# The moments of the timeline are at least 100 ms apart.
rounds() {
	record "
for job in range($1):
    for round in range(8):
        announce(round)
        for _ in range(4):
            keep(64 << 10)
            time.sleep(0.06)"
}

@test "rounds of a second job in the same process are said to be added up, and leaks decides nothing" {
	rounds 2
	flmem profile stats "$PROFILE"
	assert_stderr 'the round numbers restarted 1 time, as with a second job: .*the same number'
	flmem profile stats --json "$PROFILE"
	assert_schema profile-stats
	examine 'import json, sys
assert json.load(sys.stdin)["profile"]["restarted_rounds"] == 1'
	flmem profile leaks "$PROFILE"
	assert_status 9
	assert_output '^not enough to conclude: the round numbers restarted'
	rounds 1
	flmem profile stats "$PROFILE"
	[ -z "$stderr" ] || fail "$stderr"
}

@test "leaks: where numbers of rounds have no sample, growth is said to be per round with samples" {
	record '
for round in range(0, 60, 5):
    announce(round)
    keep(1 << 20)'
	flmem profile leaks "$PROFILE"
	assert_status 0
	assert_output '\(12 rounds\)'
	assert_output 'grows by 1 MiB per round with samples, confidence'
	assert_output '  by their numbers 56 rounds have passed: 205 KiB per round'
	flmem profile leaks --json "$PROFILE"
	assert_schema profile-leaks
	examine 'import json, sys
found = json.load(sys.stdin)
assert (found["periods"], found["round_span"]) == (12, 56), found'
	flmem watch --pid $$ --interval 50ms --duration 100ms --quiet --profile "$PROFILE" \
		--report "$BATS_TEST_TMPDIR/page.html"
	assert_status 0
	grep -qF ' per round with samples, confidence' "$BATS_TEST_TMPDIR/page.html"
	record '
for round in range(12):
    announce(round)
    keep(1 << 20)'
	flmem profile leaks "$PROFILE"
	assert_output 'grows by 1 MiB per round, confidence'
	[[ $output != *'by their numbers'* ]] || fail "$output"
}

@test "leaks --fail-on: the status is 1 where something grows, and 0 where nothing does" {
	record '
for round in range(10):
    announce(round)
    keep(1 << 20)'
	flmem profile leaks "$PROFILE"
	assert_status 0
	assert_output '^1 stack whose live bytes grow with the rounds'
	flmem profile leaks --fail-on grows "$PROFILE"
	assert_status 1
	assert_output '^1 stack whose live bytes grow with the rounds'
	flmem profile leaks --fail-on may-grow --json "$PROFILE"
	assert_status 1
	assert_schema profile-leaks
	flmem profile leaks --fail-on nothing "$PROFILE"
	assert_error 2 'grows, may-grow'
	record '
for round in range(10):
    announce(round)
    held = bytearray(1 << 20)'
	flmem profile leaks --fail-on may-grow "$PROFILE"
	assert_status 0
	record 'keep(1 << 20)'
	flmem profile leaks --fail-on grows "$PROFILE"
	assert_status 9
}

@test "amounts that were cut off are unknown, not 0" {
	local cut=$BATS_TEST_TMPDIR/runs/cut.prof verb
	record 'keep(1 << 20)'
	mkdir "$BATS_TEST_TMPDIR/runs"
	head -c 5000 "$PROFILE" >"$cut"
	flmem profile stats "$cut"
	assert_status 0
	assert_output $'\nbytes( +-){4}\n' $'\nallocations( +-){4}\nstacks: -\n' \
		$'\n\nlargest by peak: unknown: the file was truncated before its amounts'
	flmem profile table "$cut"
	assert_status 0
	assert_output $'\n( +-){5}  total'
	flmem profile stats --json "$cut"
	assert_schema profile-stats
	examine 'import json, sys
d = json.load(sys.stdin)
t = d["total"]
assert d["sites"] is None, d
names = [m + "_bytes" for m in ("live", "peak", "allocated", "freed")]
assert [t[name] for name in names] == [None] * 4, t
assert all("truncated before its amounts" in t["unknown"][name] for name in names), t'
	for verb in 'stats --by live' tree summary flamegraph "diff $PROFILE"; do
		# shellcheck disable=SC2086 # words
		flmem profile $verb "$cut"
		assert_error 2 'cannot be answered: the file was truncated before its amounts'
	done
	mv "$PROFILE" "$BATS_TEST_TMPDIR/runs"
	flmem profile analyze "$BATS_TEST_TMPDIR/runs"
	assert_status 0
	assert_stderr 'left out: .*cut.prof.: the file was truncated before its amounts'
}

@test "a copy that lacks what is behind its amounts has them whole, and is not called damaged" {
	local cut=$BATS_TEST_TMPDIR/cut.prof end
	record 'keep(1 << 20)' --native
	end=$(look 'print(p.section[9][0])')
	head -c "$end" "$PROFILE" >"$cut"
	flmem profile stats --stack native "$cut"
	assert_status 0
	assert_stderr 'truncated: its amounts are whole; it lacks all or some of: the files of native code; copy it again'
	[[ $stderr != *"inconsistent"* ]] || fail "$stderr"
	assert_output $'\nlargest by peak:\n +[0-9]'
	flmem profile stats --json "$cut"
	assert_schema profile-stats
	examine 'import json, sys
p = json.load(sys.stdin)["profile"]
assert p["missing"] == ["modules"] and p["truncated"] and not p["skipped_records"], p'
	flmem profile flamegraph --stack native -o "$BATS_TEST_TMPDIR/page.html" "$cut"
	grep -q 'truncated: its amounts are whole' "$BATS_TEST_TMPDIR/page.html"
}

# recommended STATUS OPTIONS...: checks the exit status of recommend.
recommended() {
	flmem recommend "${@:2}"
	assert_status "$1"
}

@test "recommend: what a profile could not show has not passed" {
	local cut=$BATS_TEST_TMPDIR/cut.prof lost=$BATS_TEST_TMPDIR/lost.prof end
	record 'keep(1 << 20)'
	end=$(look 'print(p.section[5][0])')
	head -c "$end" "$PROFILE" >"$cut"
	head -c 5000 "$PROFILE" >"$lost"
	recommended 0 "$PROFILE"
	recommended 0 --fail-on error "$PROFILE"
	recommended 9 --fail-on warning "$PROFILE"
	assert_stderr 'warning: .*growth was not checked: less than 10 s'
	recommended 8 "$cut"
	assert_stderr 'truncated, and growth was not checked: its amounts are whole; it lacks'
	recommended 8 --fail-on error "$cut"
	recommended 8 --fail-on warning "$PROFILE" "$cut"
	recommended 2 --fail-on warning "$lost"
	assert_stderr 'the file was truncated before its amounts'
	recommended 8 --fail-on warning "$PROFILE" "$lost"
}

@test "no heading stands above nothing" {
	local verb folder=$BATS_TEST_TMPDIR/runs
	mkdir "$folder"
	"$FLMEM" profile run -o "$PROFILE" --limit 1M -- /bin/true
	flmem profile stats "$PROFILE"
	refute_output 'largest by'
	flmem profile summary "$PROFILE"
	assert_output '^no function has any \(by peak\)'
	cp "$PROFILE" "$folder/1.prof"
	cp "$PROFILE" "$folder/2.prof"
	flmem profile analyze "$folder"
	assert_output $'\n2.prof\n  growth: not enough'
	record 'a = bytearray(1 << 20)
b = bytearray(1 << 20)
c = bytearray(1 << 20)
for round in range(8):
    announce(round)
    d = bytearray(1 << 20)'
	cp "$PROFILE" "$folder/1.prof"
	cp "$PROFILE" "$folder/2.prof"
	flmem profile analyze "$folder"
	assert_output $'\n2.prof\n  nothing conspicuous$'
}

@test "a program with a malloc() of its own: the profile names that, and has no block" {
	local program=$FLMEM_VICTIMS/allocators/jemalloc-built-in
	requires victim:allocators/jemalloc-built-in
	"$FLMEM" profile run -o "$PROFILE" --limit 1M --interval 1 -- "$program" </dev/null >/dev/null 3>&-
	look 'assert p.allocator == sys.argv[2], p.allocator
assert {s.kind for s in p.sites.values()} <= {1}, p.sites' "$PROFILE" "$program"
}

# bats test_tags=unsanitised
@test "all stacks as JSON: each has all of its frames, and the memory is that of the text" {
	! sanitized || skip "AddressSanitizer keeps memory that was freed"
	cd "$BATS_TEST_TMPDIR"
	"$FLMEM" profile run -o "$PROFILE" --limit 8MiB --interval 1 -- python -c '
def call(depth):
    kept = [bytearray(600), bytearray(600)]
    return call(depth - 1) if depth else kept

call(240)'
	# The peak of a child begins at the memory of its parent, so the parent imports little.
	run_command /usr/bin/python3 -I -c '
import json, resource, subprocess, sys
out = open("stacks.json", "w")
subprocess.run(sys.argv[1:], stdout=out, check=True)
taken = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss << 10
size = out.seek(0, 2)
sites = json.load(open("stacks.json"))["sites"]
deepest = max(len(site["stack"]) for site in sites)
assert deepest > 240 and size > 4 << 20, (deepest, size)
assert taken < size + (10 << 20), (taken, size)' "$FLMEM" profile export --format json "$PROFILE"
	assert_status 0
}

# The profile has an update that was begun and not completed.
@test "a running program that changes the file while it is read is noted" {
	requires victim:sampled/sampled
	start_victim "$FLMEM" profile run -o "$PROFILE" --limit 1MiB -- "$FLMEM_VICTIMS/sampled/sampled" functions 1 wait
	flmem profile stats "$PROFILE"
	assert_stderr 'the program is running$'
	look 'at = struct.calcsize("<" + "".join(kind for _, kind in HEADER[:[n for n, _ in HEADER].index("update_begin")]))
with open(sys.argv[1], "r+b") as file:
    file.seek(at)
    file.write(struct.pack("<Q", p.update_begin + 1))'
	flmem profile stats "$PROFILE"
	assert_stderr 'running and changed the file meanwhile: sums may differ'
}
