#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# flmem aggregate convert; harness/convert_checks.py compares it with NumPy.

load helpers

setup() {
	requires numpy
	mkdir "$BATS_TEST_TMPDIR/work" && cd "$BATS_TEST_TMPDIR/work" || return
}

check() {
	run_command python "$FLMEM_TESTS/harness/convert_checks.py" "$FLMEM" "$@"
	assert_status 0
}

@test "every type to every other, rounded as NumPy does" {
	check types
}

@test "from each format to each other one that can hold it" {
	check formats
}

@test "numbers that do not fit, and what cannot be" {
	check refusals
}

# bats test_tags=unsanitised
@test "memory does not grow with the model" {
	! sanitized || skip "AddressSanitizer has memory of its own"
	check memory
}

@test "after Ctrl-C the old output stays, and --resume can continue" {
	check stopped
}

# bats test_tags=unsanitised
@test "killed at any instant and resumed, it writes the same bytes" {
	! sanitized || skip "AddressSanitizer finds nothing in what is killed, and takes most of the time"
	check kills
}

@test "a resumed run trusts nothing that it has not checked" {
	check damage
}

@test "each chunk begins to go to the disk when it is complete, not at the last flush" {
	requires strace
	flmem aggregate generate -q --shape resnet18 -o a
	run_command env "ASAN_OPTIONS=${ASAN_OPTIONS:-}:detect_leaks=0" \
		strace -f -o trace -e trace=sync_file_range,renameat "$FLMEM" aggregate convert -q -o b a
	assert_status 0
	local chunks=$((($(stat -c %s a) + (4 << 20) - 1) / (4 << 20)))
	[ "$(sed '/renameat/,$d' trace | grep -c 'SYNC_FILE_RANGE_WRITE)')" -eq "$chunks" ] ||
		fail "$(cat trace)"
}

@test "the JSON object has its schema" {
	flmem aggregate generate -q --shape resnet18 -o a
	assert_status 0
	flmem aggregate convert --json --dtype bf16 -o b a
	assert_status 0
	assert_schema aggregate-convert
	flmem aggregate convert --json -o b missing
	assert_status 2
	assert_schema aggregate-convert
}
