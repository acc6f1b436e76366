#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# flmem trim of programs with threads that their C library did not make: glibc takes no locks then.

load helpers

refuse_shared_heap() {
	requires victim:safe_bare
	start_victim safe_bare "$1"
	flmem trim --pid "$VICTIM" --timeout 300ms
	assert_error 6 "threads that its C library did not make"
	flmem trim --pid "$VICTIM" --dry-run
	assert_error 6 "threads that its C library did not make"
	assert_victim_unharmed
}

@test "a heap that a thread made by clone() uses without locks is not touched" {
	refuse_shared_heap clone
}

@test "neither is one that another process in the same memory uses" {
	refuse_shared_heap process
	refuse_shared_heap orphan
}

@test "a thread of the kernel in the process is no reason to refuse it" {
	requires victim:safe_bare
	run_command timeout 1 "$FLMEM_VICTIMS/safe_bare" io_uring
	[ "$status" != 77 ] || skip "io_uring is not permitted here"
	start_victim safe_bare io_uring
	flmem trim --pid "$VICTIM"
	assert_status 0
	assert_victim_unharmed
}

@test "neither is a thread of the C library that has ended" {
	requires victim:safe_bare
	start_victim safe_bare ended
	flmem trim --pid "$VICTIM"
	assert_status 0
	assert_victim_unharmed
}
