#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Files that try to get a wrong model, or somebody's data lost, from flmem aggregate;
# harness/aggregate_traps.py has the checks.

load helpers

setup() {
	requires numpy
	mkdir "$BATS_TEST_TMPDIR/work" && cd "$BATS_TEST_TMPDIR/work" || return
}

check() {
	run_command python "$FLMEM_TESTS/harness/aggregate_traps.py" "$FLMEM" "$@"
	assert_status 0
}

@test "an archive with two directories" {
	check directories
}

@test "a checkpoint whose tensors mean something else than their elements" {
	check metadata
}

@test "names that the format reserves" {
	check names
}

@test "files of others with the names of parts" {
	check foreign
}

@test "links as output" {
	check links
}

@test "rounds that could not be repeated, and numbers that would stay" {
	check rounds
}

@test "one storage under two types" {
	check storages
}

@test "entries that are marked as directories" {
	check attributes
}

@test "shapes and names of arrays that NumPy reads otherwise" {
	check arrays
}

@test "a folder with one file and no index" {
	check folders
}

@test "messages and spellings" {
	check words
}

@test "an input that is given twice" {
	check repeated
}

@test "a run with other options says that it starts over" {
	check restarts
}

@test "state and output by two paths" {
	check paths
}
