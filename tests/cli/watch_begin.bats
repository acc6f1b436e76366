#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# How a watch begins and what its lines are: logs that are not there, jobs that have not started,
# processes without memory, values that mean nothing.

# shellcheck disable=SC2030,SC2031,SC2153 # each test is a shell of its own; helpers.bash sets VICTIM
load helpers

# field PATH: prints a value of the object in `output`.
field() {
	printf '%s' "$output" | python -c '
import json, sys
value = json.load(sys.stdin)
for step in sys.argv[1].split("."):
    value = value[int(step) if step.isdigit() else step]
print(json.dumps(value) if isinstance(value, (bool, dict, list)) or value is None else value)' "$1"
}

@test "a log that is not there, or has no rounds, is reported at once and at the end" {
	local log=$BATS_TEST_TMPDIR/log.txt
	start_victim watched flat 0 100 1024
	flmem watch --pid "$VICTIM" --log "$log" --interval 20ms --duration 200ms --quiet
	assert_status 0
	[[ $stderr == *"the log '$log' does not exist yet; waiting for it"*"'$log' does not exist"* ]] ||
		fail "$stderr"
	printf 'loading\nEpoch 1 begins\n' >"$log"
	flmem watch --pid "$VICTIM" --log "$log" --interval 20ms --duration 200ms --quiet
	[[ $stderr == *"the latest lines of '$log' mark no round"*"no line of '$log' marked a round"* ]] ||
		fail "$stderr"
	flmem watch --pid "$VICTIM" --log "$log" --round-regex 'Epoch (\d+)' --interval 20ms \
		--duration 200ms --json
	assert_status 0
	[ -z "$stderr" ] || fail "$stderr"
	assert_output '"round":1[,}]'
	flmem watch --pid "$VICTIM" --log "$log" --round-regex 'Epoch [\d]+' --duration 200ms
	assert_error 2 'd has no meaning within'
}

@test "a job may start after the watch that waits for it" {
	local tag=late-$BATS_ROOT_PID-$$ watch out=$BATS_TEST_TMPDIR/out status=0
	"$FLMEM" watch --name "^$tag" --wait --interval 50ms --rounds 2 --log "$BATS_TEST_TMPDIR/log" \
		--json >"$out" 2>"$out.err" 3>&- &
	watch=$!
	VICTIMS+=("$watch")
	wait_until 60 grep -q 'waiting for a process that matches' "$out.err"
	start_victim /bin/bash -c "exec -a $tag \"\$0\" flat 0 100 1024 $BATS_TEST_TMPDIR/log" \
		"$FLMEM_VICTIMS/watched"
	wait "$watch" || fail "status $?"
	output=$(tail -n 1 "$out")
	assert_schema watch
	[ "$(field pid)" = "$VICTIM" ]
	[ "$(field rounds)" -ge 2 ]
	flmem watch --name "^$tag-none" --wait --duration 300ms --json
	assert_status 3
	[[ $stderr == *"no command line matches"* ]] || fail "$stderr"
	flmem watch --pid "$VICTIM" --wait
	assert_error 2 'a process given by its PID must run'
}

@test "zombies and kernel threads have no memory to watch" {
	start_victim /usr/bin/python3 -uc '
import os, threading
child = os.fork()
if not child:
    os._exit(0)
os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
print("ready", child, flush=True)
threading.Event().wait()'
	local zombie kernel
	zombie=$(cat "/proc/$VICTIM/task/$VICTIM/children")
	flmem watch --pid "${zombie// /}" --duration 100ms
	assert_error 3 "process ${zombie// /} has (ended|exited)|zombie"
	kernel=$(ps --ppid 2 -o pid= 2>/dev/null | head -n 1)
	[ -n "$kernel" ] || kernel=2
	[ -e "/proc/$kernel" ] && [ -z "$(tr -d '\0' <"/proc/$kernel/cmdline")" ] ||
		skip_part "no kernel threads are visible"
	flmem watch --pid "${kernel// /}" --duration 100ms
	assert_error 5 'is a kernel thread'
}

@test "without a terminal only changes are lines" {
	start_victim watched leak 0 600000 1024
	flmem watch --pid "$VICTIM" --interval 20ms --duration 1s
	assert_status 0
	[ "$(grep -c "process $VICTIM: RSS " <<<"$output")" -eq 1 ] || fail "$output"
	start_victim watched flat 0 200 65536
	flmem watch --pid "$VICTIM" --interval 20ms --duration 3s
	[ "$(grep -c "process $VICTIM: RSS " <<<"$output")" -ge 4 ]
}

@test "0 is not taken for an option that is not given" {
	local option
	for option in --fail-above --duration --interval --rounds; do
		flmem watch --pid $$ --log /dev/null "$option" 0
		assert_error 2 "invalid value '0' for $option; it must be more than 0"
	done
	flmem trim --pid $$ --every 0
	assert_error 2 "invalid value '0' for --every"
	flmem trim --pid $$ --timeout 0s
	assert_error 2 "invalid value '0s' for --timeout"
}

@test "a cut recording is damaged, and - is standard output or refused" {
	local rec=$BATS_TEST_TMPDIR/cut.rec
	head -c 300 "$FLMEM_TESTS/recordings/flat-glibc-1.rec" >"$rec"
	flmem watch --replay "$rec"
	assert_error 2 "the recording '.*cut.rec' is damaged"
	: >"$BATS_TEST_TMPDIR/empty.rec"
	flmem watch --replay "$BATS_TEST_TMPDIR/empty.rec"
	assert_error 2 "the recording '.*empty.rec' has no process"
	# A whole block, with a session of version 2 of the format.
	printf 'FLMB\x04\x00\x00\x00\xdd\x6c\x61\x97\x01\x02\x05\x05' >"$BATS_TEST_TMPDIR/newer.rec"
	flmem watch --replay "$BATS_TEST_TMPDIR/newer.rec"
	assert_error 2 "the recording '.*newer.rec' was written by a newer flmem"
	cd "$BATS_TEST_TMPDIR"
	flmem watch --replay "$FLMEM_TESTS/recordings/flat-glibc-1.rec" --report -
	assert_status 0
	[[ $output == '<!DOCTYPE html>'*'</html>' ]]
	[ ! -e ./- ]
	flmem watch --replay "$FLMEM_TESTS/recordings/flat-glibc-1.rec" --report - --json
	assert_status 2
	[[ $stderr == *"both write to standard output"* ]] || fail "$stderr"
	flmem watch --pid $$ --record -
	assert_error 2 "'-' is not one"
	flmem watch --replay -
	assert_error 2 "'-' is not one"
}

@test "a limit is undecided where the recording is damaged, unless it was passed" {
	local rec=$BATS_TEST_TMPDIR/damaged.rec whole=$FLMEM_TESTS/recordings/leak50-glibc-1.rec
	{ cat "$whole" && head -c 60 "$whole"; } >"$rec"
	flmem watch --replay "$rec" --quiet --fail-above 1GiB
	assert_status 9
	assert_stderr 'fail-above: undecided, as what is damaged may have been above'
	flmem watch --replay "$rec" --quiet --fail-above 1MiB
	assert_status 1
	flmem watch --replay "$rec" --quiet
	assert_status 0
	flmem watch --replay "$rec" --interval 2s
	assert_error 2 'cannot be combined with .*--interval'
}

@test "joined recordings: a copy adds nothing, and watches that overlap are not added up" {
	local rec=$BATS_TEST_TMPDIR/joined.rec leak=$FLMEM_TESTS/recordings/leak50-glibc-1.rec
	flmem watch --replay "$leak" --quiet --json
	local once
	once=$(jq -c '.processes[0] | [.samples, .rounds, .trend]' <<<"$output")
	cat "$leak" "$leak" >"$rec"
	flmem watch --replay "$rec" --quiet --json
	assert_status 0
	[ "$(jq -c '.processes[0] | [.samples, .rounds, .trend]' <<<"$output")" = "$once" ]
	assert_stderr "older than what precedes them, as in files that were joined, and skipped"
	flmem recommend "$rec"
	assert_status 8
	assert_stderr "older than what precedes them, .* not checked"
	# The other one is older, and so begins before the end of this one.
	cat "$leak" "$FLMEM_TESTS/recordings/flat-glibc-1.rec" "$leak" >"$rec"
	flmem watch --replay "$rec" --quiet --json --report "$BATS_TEST_TMPDIR/page.html"
	assert_status 0
	[ "$(jq '.record_overlaps' <<<"$output")" = 1 ]
	assert_stderr "has 1 watch that begins before the end of the one before"
	grep -q 'has 1 watch that begins before the end' "$BATS_TEST_TMPDIR/page.html"
	flmem recommend "$rec"
	assert_stderr 'warning: .*joined.rec: the recording has watches that overlap in time'
}
