#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# flmem profile run --force: what becomes of the profile that is there.

load helpers

setup() {
	PROFILE=$BATS_TEST_TMPDIR/p.prof
}

@test "--force keeps the old profile where the command cannot be executed" {
	local command

	flmem profile run -o "$PROFILE" -- true
	assert_status 0
	cp "$PROFILE" "$BATS_TEST_TMPDIR/old"
	touch "$BATS_TEST_TMPDIR/plain"
	for command in no-such-command /nonexistent/command ''; do
		flmem profile run --force -o "$PROFILE" -- "$command"
		assert_error 127
		cmp "$PROFILE" "$BATS_TEST_TMPDIR/old"
	done
	for command in "$BATS_TEST_TMPDIR/plain" "$BATS_TEST_TMPDIR"; do
		flmem profile run --force -o "$PROFILE" -- "$command"
		assert_error 126
		cmp "$PROFILE" "$BATS_TEST_TMPDIR/old"
	done
	PATH=$BATS_TEST_TMPDIR:$PATH flmem profile run --force -o "$PROFILE" -- plain
	assert_error 126
	cmp "$PROFILE" "$BATS_TEST_TMPDIR/old"
}

@test "what is not a regular file stays, with --force as without" {
	local force
	mkfifo "$PROFILE"
	for force in '' --force; do
		flmem profile run $force -o "$PROFILE" -- true
		assert_error 2 'is not a regular file'
	done
	[ -p "$PROFILE" ]
}

@test "a directory is refused, with --force as without" {
	local force
	mkdir "$PROFILE"
	for force in '' --force; do
		flmem profile run $force -o "$PROFILE" -- true
		assert_error 2 'is a directory'
	done
	[ -d "$PROFILE" ]
}
