#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# flmem trim of programs that handle the page faults of memory that they map.

load helpers

@test "a heap whose program handles its page faults is not touched" {
	requires victim:safe_userfault
	run_command timeout 1 "$FLMEM_VICTIMS/safe_userfault"
	[ "$status" != 77 ] || skip "userfaultfd is not permitted here"
	start_victim safe_userfault
	flmem trim --pid "$VICTIM" --timeout 300ms
	assert_error 6 "handles page faults of its own memory \(userfaultfd\)"
	flmem trim --pid "$VICTIM" --dry-run
	assert_error 6 "handles page faults of its own memory"
	assert_victim_unharmed
}
