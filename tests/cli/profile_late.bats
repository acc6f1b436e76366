#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Libraries that come after `flmem profile attach`.

# Every test has its own status.
# shellcheck disable=SC2031,SC2153
load helpers
load profile_attach

# assert_allocated FILE SIZES: checks, in MiB, what code of that library has allocated.
assert_allocated() {
	local found
	flmem profile table "$PROFILE" --stack native --by allocated --json
	assert_status 0
	found=$(field "sorted(s['amounts']['allocated_bytes'] >> 20 for s in r['sites'] if '/$1' in str(s['stack'][0]))")
	[ "$found" = "$2" ] || fail "code of $1 has allocated $found"
}

redirected() {
	got redirected "$VICTIM" | grep -q "$1"
}

@test "a library that is only opened is redirected before its constructors" {
	start_attachable
	got snapshot "$VICTIM" >"$BATS_TEST_TMPDIR/got"
	attach --interval 1 --native
	order load "$FLMEM_VICTIMS/sampled/registered.so"
	redirected registered.so
	order registered
	[ "$ANSWER" = 0 ]
	detach
	got check "$VICTIM" "$BATS_TEST_TMPDIR/got"
	assert_sound
	assert_allocated registered.so '[3, 5]'
}

@test "one without the start files of the C library is redirected when the linker is called again" {
	start_attachable
	attach --interval 1 --native
	order load "$FLMEM_VICTIMS/sampled/orphan.so"
	run -1 redirected orphan.so
	order load "$FLMEM_VICTIMS/sampled/orphan.so"
	redirected orphan.so
	order registered
	detach
	assert_sound
	assert_allocated orphan.so '[3]'
	[ "$(field "r['profile']['unseen_calls']")" = 0 ]
}

@test "one that was not redirected at the end is reported" {
	start_attachable
	attach --interval 1
	order load "$FLMEM_VICTIMS/sampled/orphan.so"
	order registered
	detach
	assert_sound
	flmem profile stats "$PROFILE"
	assert_stderr '1 call of the allocator bypassed the sampler'
	flmem profile stats --json "$PROFILE"
	assert_schema profile-stats
	[ "$(field "r['profile']['unseen_calls']")" = 1 ]
}

@test "one that is opened while another thread forks does not wait for that" {
	local go=$BATS_TEST_TMPDIR/go threads=$FLMEM_VICTIMS/sampled/threads.so
	start_attachable
	order call "$threads" open_in_thread "$threads"
	attach
	order call "$threads" fork_until "$go"
	wait_until 60 test -e "$go.waits"
	order load "$FLMEM_VICTIMS/sampled/registered.so"
	run -1 redirected registered.so
	: >"$go"
	order load "$FLMEM_VICTIMS/sampled/registered.so"
	redirected registered.so
	detach
	assert_sound
}

@test "a fork in the handler of a signal that interrupts a fork: no fork is thought to go on" {
	local threads=$FLMEM_VICTIMS/sampled/threads.so
	start_attachable
	order call "$threads" find_in_threads
	attach
	order call "$threads" fork_in_fork
	[ "$ANSWER" = 0 ]
	order load "$FLMEM_VICTIMS/sampled/registered.so"
	redirected registered.so
	detach
	assert_sound
}
