#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# bats file_tags=unsanitised
# flmem aggregate, and both sides of flmem exchange, where single calls fail: a full disk, a quota, a
# damaged disk, no descriptors. Some of the calls; `make soak` has all (tests/soak/failing_disks.py).

load helpers

# failing SCENARIO ARGS: runs tests/harness/failing_calls.py.
failing() {
	cd "$BATS_TEST_TMPDIR" || return
	run_command /usr/bin/python3 -B "$FLMEM_TESTS/harness/failing_calls.py" "$FLMEM" \
		"$FLMEM_VICTIMS/sampled/fail_calls.so" "$@"
	assert_status 0
}

@test "one file" {
	failing mean --every 3
	failing mean --kinds unread,descriptors
}

@test "shards, and an algorithm with a state" {
	failing shards --every 11
	failing state --every 9
}

@test "files that cannot be examined, now or from then on" {
	failing shards --kinds unread --match 'stat .*/(model-00001|out.part$)'
	failing state --kinds stale --match '^stat .*s\.safetensors$'
	failing pull --kinds unread --match '^stat .*part$'
	failing staged --kinds unread --match '^stat /state$' --every 2
}

@test "a disk that becomes read-only, and a run that is killed: the same command continues" {
	failing state --kinds read-only --match 'journal$'
	failing state --kinds damaged --match remove
	failing shards --kinds killed --every 7
	failing npz --kinds killed --every 3
	failing restart --kinds killed --every 11
}

@test "a client" {
	failing pull --every 7 --kinds full,damaged,unread,descriptors
	failing pull-folder --every 13 --kinds damaged,descriptors
}

@test "a server" {
	failing staged --every 17 --first 7 --kinds full,damaged
}

@test "a server that cannot take an update back, and one that starts again with an update that it has confirmed" {
	failing staged --kinds stays-full --match 'sync /state/(uploads|rounds/0/updates/.)$' --every 2
	failing restart --kinds dead --match 'rounds/0' --every 2
}

@test "a server in lockstep" {
	failing lockstep --every 23 --first 13 --kinds damaged
}
