#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2030,SC2031,SC2016 # each test has its own shell; code for other programs
# Rounds of a profile: those that a program announces itself, and `flmem profile round`.

load helpers
load profile

setup() {
	requires victim:sampled/sampled python3
	PROFILE=$BATS_TEST_TMPDIR/p.prof
	SAMPLED=$FLMEM_VICTIMS/sampled/sampled
}

@test "rounds: what each allocated, freed and kept, and its peak" {
	sample --interval 1 -- rounds 4
	assert_sampled exact
	# The kept block and the freed ones have one site each.
	look 'cells = {r: sorted((c.allocated_bytes, c.freed_bytes, c.peak_bytes) for c in p.cells.values()
                        if c.round == r) for r in range(1, 5)}
assert cells == {r: [(4000, 0, 4000 * r), (16000, 16000, 16000)] for r in range(1, 5)}, cells
rounds = {r.round: (r.allocated_bytes, r.freed_bytes) for r in p.rounds.values()}
assert all(rounds[r] == (20000, 16000) for r in range(1, 5)), rounds
assert sorted(l.round for l in p.live.values()) == [1, 2, 3, 4]
assert p.cells_full_round == NONE and p.round == 4'
}

@test "rounds that find no room are counted, and not taken for what was before the first one" {
	sample --interval 1 --limit 1M -- rounds 400
	look 'numbered = [r for r in p.rounds.values() if r.round != NONE]
assert 100 < len(numbered) < 400, len(numbered)
assert p.dropped["rounds_full"] == 400 - len(numbered), p.dropped
for round in p.rounds.values():
    cells = [c for c in p.cells.values() if c.round == round.round]
    assert sum(c.allocated_bytes for c in cells) == round.allocated_bytes, round
    assert sum(c.freed_bytes for c in cells) == round.freed_bytes, round
assert {c.round for c in p.cells.values()} <= {r.round for r in p.rounds.values()}'
	flmem profile stats "$PROFILE"
	assert_stderr '2[01][0-9] rounds did not fit in the file, the last ones'
	flmem profile stats --json "$PROFILE"
	assert_schema profile-stats
	assert_output '"lost_rounds":[[:space:]]*2[01][0-9]'
}

@test "profile round announces a round to a running process" {
	start_victim "$FLMEM" profile run -o "$PROFILE" -- "$SAMPLED" functions 1 wait
	look 'assert p.round == NONE'
	flmem profile round "$PROFILE" 7
	assert_status 0
	look 'assert p.round == 7'
	flmem profile round "$PROFILE" none
	look 'assert p.round == NONE'
	flmem profile round "$PROFILE" -1
	assert_error 2
	flmem profile round "$BATS_TEST_FILENAME" 1
	assert_error 2 'is not a heap profile'
	flmem profile round "$PROFILE"
	assert_error 2
}

@test "profile round reports that the process was killed" {
	start_victim "$FLMEM" profile run -o "$PROFILE" -- "$SAMPLED" functions 1 wait
	kill -KILL "$VICTIM"
	wait "$VICTIM" || [ $? = 137 ]
	flmem profile round "$PROFILE" 7
	assert_error 3 "process $VICTIM .*was killed"
}

@test "profile round ends with the reason where nothing is sampled, and stores no round" {
	flmem profile run -o "$PROFILE" --limit 1MiB -- /bin/true
	look 'file = open(sys.argv[1], "r+b")
for at, text in (24, bytes([3, 0, 0, 0])), (p.data.index(p.build.encode()) + 64, b"no \x1bmemory\0"):
    file.seek(at)
    file.write(text)'
	look 'assert p.phase == 3 and p.round == NONE, p.phase'
	flmem profile round "$PROFILE" 7
	assert_error 2 "nothing is sampled into '$PROFILE': no .x1bmemory"
	look 'assert p.round == NONE'
}

@test "a round that is announced after the file was cut does not kill" {
	local what
	for what in 4096 0; do
		flmem profile run -f -o "$PROFILE" --limit 1MiB -- /usr/bin/python3 -c 'import ctypes, os, sys
os.truncate(sys.argv[1], int(sys.argv[2]))
ctypes.CDLL(None).flmem_sampler_round_set(3)
print("alive", flush=True)
os._exit(0)' "$PROFILE" "$what"
		assert_status 0
		assert_output alive
	done
}

@test "profile round finds the process of a container from its host" {
	unshare --pid --fork true || skip "no PID namespace can be made here"
	# shellcheck disable=SC2016
	export SAMPLED
	start_victim "$(command -v unshare)" --pid --fork --kill-child /bin/sh -c \
		'exec "$FLMEM" profile run -o "$0" -- "$SAMPLED" functions 1 wait' "$PROFILE"
	flmem profile round "$PROFILE" 7
	assert_status 0
	look 'assert p.pid == 1 and p.round == 7, (p.pid, p.round)'
	flmem profile stats --json "$PROFILE"
	examine 'import json, sys
assert json.load(sys.stdin)["profile"]["state"] == "running"'
}

@test "profile round refuses the profile of a process that has ended" {
	flmem profile run -o "$PROFILE" -- /bin/true
	assert_status 0
	flmem profile round "$PROFILE" 7
	assert_error 2 'has ended: its process exited or was detached'
	look 'assert p.round == NONE'
}
