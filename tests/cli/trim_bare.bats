#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# flmem trim of programs with threads that their C library did not make: glibc takes no locks then.
# shellcheck disable=SC2030,SC2031 # each test is a shell of its own

load helpers

LIBRARIES=/usr/lib/x86_64-linux-gnu

refuse_shared_heap() {
	requires victim:safe_bare
	start_victim safe_bare "$1"
	flmem trim --pid "$VICTIM" --timeout 300ms
	assert_error 6 "threads that its C library did not create"
	flmem trim --pid "$VICTIM" --dry-run
	assert_error 6 "threads that its C library did not create"
	assert_victim_unharmed
}

@test "a heap that a thread made by clone() uses without locks is not touched" {
	refuse_shared_heap clone
}

@test "nor one that a thread of a second C library (dlmopen) uses without locks" {
	requires victim:safe_bare
	run_command timeout 1 "$FLMEM_VICTIMS/safe_bare" namespace
	[ "$status" != 77 ] || skip "no second C library with threads here"
	refuse_shared_heap namespace
}

# The thread uses the thread-local data of another one, in which these allocators keep theirs.
refuse_shared_data() {
	requires "$1" victim:safe_bare
	LD_PRELOAD=$1 start_victim safe_bare "$2"
	flmem trim --pid "$VICTIM" --timeout 300ms
	assert_error 6 "threads that its C library did not create"
	flmem detect --pid "$VICTIM" --ask-runtime
	[[ $output == *"could not be queried now"* ]] || fail "$output"
	assert_victim_unharmed
}

@test "nor the data of a thread that one made by clone() uses, in jemalloc" {
	refuse_shared_data "$LIBRARIES/libjemalloc.so.2" clone
	refuse_shared_data "$LIBRARIES/libjemalloc.so.2" process
}

@test "nor in mimalloc" {
	refuse_shared_data "$LIBRARIES/libmimalloc.so.2" clone
	refuse_shared_data "$LIBRARIES/libmimalloc.so.2" process
}

# The C library knows threads here.
@test "nor the thread whose data a process in the same memory uses" {
	local library
	requires "$LIBRARIES/libjemalloc.so.2" "$LIBRARIES/libmimalloc.so.2" victim:safe_bare
	for library in libjemalloc.so.2 libmimalloc.so.2; do
		LD_PRELOAD=$LIBRARIES/$library start_victim safe_bare known
		flmem trim --pid "$VICTIM" --timeout 300ms
		assert_error 6 'shares its thread-local data with a process that it has started'
		assert_victim_unharmed
		stop_victims
	done
}

@test "neither is one that another process in the same memory uses" {
	refuse_shared_heap process
	refuse_shared_heap orphan
}

@test "a thread of the kernel in the process does not cause a refusal" {
	requires victim:safe_bare
	local kind
	for kind in io_uring sqpoll; do
		run_command timeout 1 "$FLMEM_VICTIMS/safe_bare" "$kind"
		[ "$status" != 77 ] || skip "io_uring is not permitted here"
		start_victim safe_bare "$kind"
		flmem trim --pid "$VICTIM"
		assert_status 0
		assert_victim_unharmed
		stop_victims
	done
}

@test "neither is a thread of the C library that has ended" {
	requires victim:safe_bare
	start_victim safe_bare ended
	flmem trim --pid "$VICTIM"
	assert_status 0
	assert_victim_unharmed
}
