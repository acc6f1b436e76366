#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# flmem aggregate --shard-size; harness/shard_checks.py has the checks.

load helpers

setup() {
	requires numpy
	mkdir "$BATS_TEST_TMPDIR/work" && cd "$BATS_TEST_TMPDIR/work" || return
}

check() {
	run_command "${PYTHON:-python}" -B "$FLMEM_TESTS/harness/shard_checks.py" "$FLMEM" "$@"
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

@test "what a kill has left of shards of another size is removed" {
	check resized
}

@test "what a crash between two renames leaves" {
	check renamed
}

@test "too few descriptors for the shards are a failure of the system, and nothing is left" {
	# shellcheck disable=SC2016 # for the inner shell
	run_command bash -c 'ulimit -n 64 && exec "$FLMEM" aggregate -o out --shard-size 1 generate:resnet18'
	assert_error 7 'Too many open files'
	[ -z "$(ls)" ]
}

@test "a run that waits for the lock while another one finishes does not touch what that has written" {
	local model=generate:resnet18
	touch slow
	ASAN_OPTIONS=${ASAN_OPTIONS:-}:verify_asan_link_order=0 SLOW_FLOCK=$PWD/slow \
		LD_PRELOAD=$FLMEM_VICTIMS/sampled/slow_calls.so \
		"$FLMEM" aggregate -q -o out --shard-size 20MB "$model?client=1" 2>late 3>&- &
	wait_until 60 test -e slow.begun
	# The files made so far are those that a kill leaves.
	run_command "$FLMEM" aggregate -q -o out --shard-size 20MB "$model"
	assert_status 0
	rm slow
	! wait $! || fail "it succeeded"
	grep -q 'another aggregation has just written' late || fail "$(cat late)"
	[ "$(ls)" = "$(printf 'late\nout\nslow.begun')" ]
	run_command "$FLMEM" aggregate diff out "$model"
	assert_status 0
	[ "$(find out -mindepth 1 | wc -l)" = 4 ]
}
