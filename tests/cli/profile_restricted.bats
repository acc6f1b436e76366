#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2016,SC2153 # code for other programs; FLMEM and its like are in the environment
# Programs that restrict their system calls while they are sampled: nothing kills them that they have
# not done themselves.

load helpers
load profile
load profile_attach

setup() {
	requires victim:sampled/restricted python3
	PROFILE=$BATS_TEST_TMPDIR/p.prof
	RESTRICTED=$FLMEM_VICTIMS/sampled/restricted
}

# restrict HOW [CALL...]: runs the victim under the sampler, which sees each of its allocations.
restrict() {
	"$FLMEM" profile run --force -o "$PROFILE" --interval 1 --limit 4M --follow-children -- \
		"$RESTRICTED" "$@" 3>&-
}

# Checks that the sampler has seen the blocks before the restriction, of 400.
assert_ended_early() {
	look 'p.check()
assert p.phase == 2 and p.flags & 64 and p.end_ms >= p.last_ms, (p.phase, p.flags)
assert p.update_begin == p.update_end and 200 <= p.samples, p.samples'
	flmem profile stats "$PROFILE"
	assert_status 0
	assert_stderr 'the profile ends where the program restricted its system calls'
	"$FLMEM" profile stats --json "$PROFILE" | jq -e '.. | .restricted? // empty' >/dev/null
}

@test "a filter that kills, strict mode, a clock that must not be read: the profile ends before it" {
	local how
	for how in strict prctl call prctl-call clock; do
		restrict "$how"
		assert_ended_early
		look 'assert p.samples == 200, p.samples'
	done
}

@test "a filter for all threads waits for their samples" {
	restrict threads
	assert_ended_early
}

@test "one that the kernel refuses, and that of a child alone, leave the program sampled" {
	local how
	for how in failing fork vfork; do
		restrict "$how"
		look 'p.check()
assert p.phase == 1 and not p.flags & 64 and p.samples == 401, (p.phase, p.flags, p.samples)'
	done
	# The child of fork() had not allocated before.
	[ "$(find "$BATS_TEST_TMPDIR" -name 'p.prof.*' | wc -l)" = 0 ]
}

@test "one that is not sampled is asked nothing any more" {
	"$FLMEM" profile run -o "$PROFILE" -- "$RESTRICTED" dormant 3>&-
}

# The calls are those that the sampler would make first: getpid, rt_sigprocmask, readlinkat.
@test "a program that is executed below a filter that came since: it runs, and nothing is sampled" {
	local call
	for call in 39 14 267; do
		restrict exec "$call" "$RESTRICTED" none
		assert_ended_early
		"$FLMEM" profile run --force -o "$PROFILE" -- "$RESTRICTED" exec "$call" "$RESTRICTED" none 3>&-
	done
}

@test "the filters of flmem itself: one that kills for a call of the sampler is named, others are fine" {
	flmem_below() {
		run --separate-stderr "$RESTRICTED" exec "$1" "$FLMEM" profile run --force -o "$PROFILE" \
			--interval 1 --limit 4M -- "$RESTRICTED" none 3>&-
	}
	flmem_below 27
	assert_error 5 'would kill the program for mincore\(\.\.\.\), which the sampler makes'
	[ ! -e "$PROFILE" ]
	flmem_below 999
	assert_status 0
	look 'assert p.phase == 1 and p.samples == 401, (p.phase, p.samples)'
}

@test "one that is prepared, and executed below a filter, makes no call that it could be killed for" {
	local call
	for call in 39 186 202; do
		"$FLMEM" start --role client --profile-ready -- "$RESTRICTED" exec "$call" "$RESTRICTED" none 3>&-
		"$FLMEM" start --role client --profile-socket -- "$RESTRICTED" exec "$call" "$RESTRICTED" none 3>&-
	done
}

# A library that was loaded later, and a function that Python has looked up.
@test "a thread of one that is attached to confines itself: the profile ends, and can be detached" {
	local way
	for way in "call $FLMEM_VICTIMS/sampled/threads.so start_filtered" confine; do
		start_attachable
		attach --interval 1
		order "$way"
		[ "$ANSWER" != -1 ]
		assert_sound
		look 'assert p.phase == 2 and p.flags & 64, (p.phase, p.flags)'
		detach
		assert_sound
		stop_victims
	done
}
