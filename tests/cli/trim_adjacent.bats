#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# flmem trim of programs that put stacks next to other data, without a guard page between them.

load helpers

# refuses OPTION WHY: checks the refusal. 4000 bytes are left of the stack, and the victim checks
# the data below. The thread may also have moved meanwhile.
refuses() {
	local seen=0
	requires victim:safe_coroutine
	start_victim safe_coroutine "$1" 4000
	for _ in 1 2 3 4 5 6; do
		flmem trim --pid "$VICTIM" --timeout 300ms
		assert_error 6 "can be borrowed now"
		[[ $stderr != *"$2"* ]] || seen=$((seen + 1))
	done
	[ "$seen" -gt 0 ] || fail "never: $2"
	assert_victim_unharmed
}

@test "a thread whose stack ends right above other data" {
	refuses -o "has too little space left on its stack"
}

@test "a coroutine right below the stack of its own thread" {
	refuses -b "runs on a stack that the program allocated itself"
}

@test "a stack that the program provides is used as far as it reaches" {
	requires victim:safe_coroutine
	start_victim safe_coroutine -o 56000
	flmem trim --pid "$VICTIM"
	assert_status 0
	assert_victim_unharmed
}
