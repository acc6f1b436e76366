#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# flmem aggregate: the same bits for any order, chunk size and number of threads.

load helpers

# same_bits CASES: compares the outputs of so many random cases.
same_bits() {
	requires numpy
	mkdir "$BATS_TEST_TMPDIR/work" && cd "$BATS_TEST_TMPDIR/work" || return
	run_command python "$FLMEM_TESTS/harness/bit_identity.py" "$FLMEM" "$1" 20261123
	assert_status 0
	assert_output "$1 cases of 8 kinds have the same bits"
}

@test "random orders, formats, chunk sizes and thread counts give the same bits" {
	same_bits 24
}

# bats test_tags=unsanitised
@test "100 random orders, formats, chunk sizes and thread counts give the same bits" {
	! sanitized || skip "a sanitised build tries 24"
	same_bits 100
}
