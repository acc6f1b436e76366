#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# The algorithms of flmem aggregate; harness/algorithms.py compares them with NumPy.

load helpers

setup() {
	requires numpy
	mkdir "$BATS_TEST_TMPDIR/work" && cd "$BATS_TEST_TMPDIR/work" || return
}

check() {
	run_command python "$FLMEM_TESTS/harness/algorithms.py" "$FLMEM" "$@"
	assert_status 0
}

@test "sums of integers are modulo the size of their type" {
	check sums
}

@test "krum and multi-krum choose what NumPy computes" {
	check krum
}

@test "bulyan is what NumPy computes" {
	check bulyan
}

@test "updates are scaled to a norm" {
	check clipped
}

@test "norms and distances that are zero or infinite" {
	check extremes
}

@test "measures do not depend on chunks and threads" {
	check same_bits
}

# bats test_tags=unsanitised
@test "memory of algorithms with two passes does not grow with the model" {
	! sanitized || skip "AddressSanitizer has memory of its own"
	check memory
}

@test "algorithms with a state are those of the papers" {
	check adaptive
}

@test "states of others, damaged ones and rounds that are complete" {
	check states
}

# bats test_tags=unsanitised
@test "killed at any instant and resumed, output and state are the same" {
	! sanitized || skip "AddressSanitizer finds nothing in what is killed, and takes most of the time"
	check state_kills
}
