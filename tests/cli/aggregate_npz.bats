#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# NumPy's .npz in flmem aggregate, inspect and diff; harness/npz_checks.py has the checks.

load helpers

setup() {
	requires numpy
	mkdir "$BATS_TEST_TMPDIR/work" && cd "$BATS_TEST_TMPDIR/work" || return
}

check() {
	run_command python "$FLMEM_TESTS/harness/npz_checks.py" "$FLMEM" "$@"
	assert_status 0
}

@test "means of archives of NumPy, which NumPy reads" {
	check means
}

@test "other orders, types and headers are refused, each with its own error" {
	check refusals
}

@test "70,000 arrays" {
	check many
}

@test "inspect: JSON of an archive of NumPy" {
	python -c 'import numpy; numpy.savez("a.npz", w=numpy.zeros((2, 3)))'
	flmem aggregate inspect --json --stats a.npz
	assert_status 0
	assert_schema aggregate-inspect
	flmem aggregate inspect a.npz
	assert_output 'a.npz: NumPy archive, 1 tensor, 6 parameters, 48 B'
	assert_output 'w: F64 \[2, 3\], 48 B, crc32c'
}
