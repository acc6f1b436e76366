#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# flmem profile attach and detach: a process that was attached to before, or that another tool changes.

# Every test has its own status.
# shellcheck disable=SC2030,SC2031,SC2153
load helpers
load profile_attach

# The thread is a terabyte away from the next sample of the first one.
@test "a second profile has the samples of its own distance, whatever the first one had" {
	start_attachable
	attach --interval 1TiB
	order round
	detach
	attach --interval 64KiB
	order round
	order round
	detach
	assert_sound
	flmem profile stats --limit 100 "$PROFILE"
	assert_output 'keep_update \(.*/attached\.py:[0-9]+\)'
}

@test "entries are put back also where another tool has made them writable meanwhile" {
	start_attachable
	attach
	order unseal
	[ "$ANSWER" -gt 5 ] || fail "$ANSWER objects"
	detach
	[[ $(got redirected "$VICTIM") = 0* ]] || fail "$(got redirected "$VICTIM")"
	assert_sound
}

@test "a program that its process executes after an attach has a whole profile" {
	start_attachable "$FLMEM" profile run -o "$PROFILE" --
	flmem profile stats "$PROFILE"
	refute_output 'began after'
	detach
	attach
	flmem profile stats "$PROFILE"
	assert_output 'began after its process'
	order exec
	[ "$ANSWER" = ready ]
	flmem profile stats "$PROFILE"
	refute_output 'began after'
	assert_sound
}

@test "a library that only has the names of the sampler gets no order" {
	local library=$BATS_TEST_TMPDIR/libflmem-impostor.so
	requires victim:allocators/impostor.so
	cp "$FLMEM_VICTIMS/allocators/impostor.so" "$library"
	start_attachable
	order load "$library"
	flmem profile attach --pid "$VICTIM" -o "$PROFILE"
	assert_error 5 'a sampler of another version'
	[ ! -e "$PROFILE" ]
	assert_sound
}
