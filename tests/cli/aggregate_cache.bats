#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# flmem aggregate: the number of its threads, and what it reads ahead.

load helpers

setup() {
	requires numpy
	mkdir "$BATS_TEST_TMPDIR/work" && cd "$BATS_TEST_TMPDIR/work" || return
}

check() {
	run_command python "$FLMEM_TESTS/harness/cache_checks.py" "$FLMEM" "$@"
	[ "$status" -ne 77 ] || skip "${output#SKIP: }"
	assert_status 0
}

@test "two threads per processor that it may use, at most eight" {
	check threads
}

@test "files in the page cache are not read ahead, others are" {
	check read_ahead
}

@test "files that are not in the page cache are read past it" {
	check past
}

@test "what was in the page cache stays there, and what was not does not fill it" {
	check kept
}

@test "a run that is continued drops nothing that was in the page cache" {
	check resumed
}
