#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# scripts/setup where apt-get fails, as it does when a mirror is out of reach for a moment.

load helpers

setup() {
	export SAID=$BATS_TEST_TMPDIR/said
	FAKES=$BATS_TEST_TMPDIR/fakes
	mkdir "$FAKES"
	fake dpkg-query <<<'echo not-installed'
	fake id <<<'echo 0'
	fake dpkg <<-'EOF'
		echo "dpkg $*" >>"$SAID"
	EOF
	fake apt-get <<-'EOF'
		echo "apt-get $*" >>"$SAID"
		[ "$1" = install ] || exit 0
		[ "$(grep -c '^apt-get install' "$SAID")" -le "$FAILURES" ] || exit 0
		echo "E: Failed to fetch" >&2
		exit 100
	EOF
}

# fake NAME: makes a program of the lines of stdin.
fake() {
	{ echo '#!/bin/sh' && cat; } >"$FAKES/$1"
	chmod +x "$FAKES/$1"
}

# installations: prints how often apt-get was called for an installation.
installations() {
	grep -c '^apt-get install' "$SAID"
}

# run_setup FAILURES: runs scripts/setup; so many of the first installations fail.
run_setup() {
	run_command env "PATH=$FAKES:$PATH" "FAILURES=$1" FLMEM_SETUP_PAUSE=0 "$FLMEM_TESTS/../scripts/setup" build
}

@test "packages are installed with one call where nothing fails" {
	run_setup 0
	assert_status 0
	[ "$(installations)" = 1 ]
	[ -z "$stderr" ]
}

@test "an apt-get that fails twice is asked a third time, after dpkg has ended what was begun" {
	run_setup 2
	assert_status 0
	[ "$(installations)" = 3 ]
	[ "$(grep -c '^dpkg --configure -a' "$SAID")" = 2 ]
}

@test "an apt-get that always fails ends the setup, which says what is missing and what to do" {
	run_setup 9
	assert_status 1
	[ "$(installations)" = 3 ]
	assert_stderr 'missing: .*cmake'
	assert_stderr 'run this again'
}
