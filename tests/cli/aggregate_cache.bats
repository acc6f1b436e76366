#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# flmem aggregate: the number of its threads, what it reads ahead, and when it writes.

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

@test "each part of a state begins to go to the disk when it is computed, not at the last flush" {
	requires strace
	python -c '
import sys, numpy
sys.path.insert(0, sys.argv[1])
from harness import tensors
tensors.write("a", {"w": ("F32", numpy.ones(200000, "f4"))})' "$FLMEM_TESTS"
	run_command env "ASAN_OPTIONS=${ASAN_OPTIONS:-}:detect_leaks=0" \
		strace -f -y -o trace -e trace=sync_file_range,renameat \
		"$FLMEM" aggregate -q -o out -a fedadam --state s --base a a a
	assert_status 0
	sed '/renameat/,$d' trace | grep -q 's\.part>.*SYNC_FILE_RANGE_WRITE)' || fail "$(cat trace)"
}
