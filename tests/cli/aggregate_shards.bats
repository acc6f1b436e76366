#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# flmem aggregate --shard-size; harness/shard_checks.py has the checks.

load helpers

setup() {
	/usr/bin/python3 -c 'import numpy' 2>/dev/null || skip "needs python3-numpy"
	mkdir "$BATS_TEST_TMPDIR/work" && cd "$BATS_TEST_TMPDIR/work" || return
}

check() {
	run_command "${PYTHON:-/usr/bin/python3}" -B "$FLMEM_TESTS/harness/shard_checks.py" "$FLMEM" "$@"
	assert_status 0
}

@test "shards have all tensors once, and their index" {
	check split
}

@test "the safetensors package reads them" {
	PYTHON=$("$FLMEM_TESTS/harness/make-safetensors") || skip "${PYTHON#SKIP: }"
	check reference
}

@test "folders of others stay as they are" {
	check refusals
}

@test "killed at any instant and continued" {
	check crashes
}

@test "what a crash between two renames leaves" {
	check renamed
}
