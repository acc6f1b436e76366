#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# flmem trim beside a runtime that stops its threads by signals and waits for their answers.

load helpers

# Its rounds, as struct victim_status of tests/victims/safe_common.h has them.
rounds() {
	od -An -t u8 -N 8 "$BATS_TEST_TMPDIR/status" | tr -d ' '
}

goes_on_from() {
	[ "$(rounds)" -gt "$1" ]
}

@test "a thread that has to answer a signal, or lets the others go on, is not kept in a call" {
	local number before made=0
	requires victim:safe_world
	truncate -s 4096 "$BATS_TEST_TMPDIR/status"
	export VICTIM_STATUS=$BATS_TEST_TMPDIR/status
	start_victim safe_world
	for ((number = 0; number < 60; number++)); do
		before=$(rounds)
		flmem trim --pid "$VICTIM" --no-predict --timeout 5s
		[[ $status == [06] ]] || fail "exit status $status"
		[ "$status" != 0 ] || made=$((made + 1))
		wait_until 60 goes_on_from "$before"
	done
	[ "$made" -gt 0 ] || fail "no trim was made"
	[ "$(status_field "$VICTIM" TracerPid)" = 0 ]
	alive "$VICTIM"
}
