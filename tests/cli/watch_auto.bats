#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# flmem watch --auto on real processes that retain memory. Rounds are 400 ms and longer where the
# machine is busy; a trim that is refused for want of a safe moment is tried again, so tests ask for
# some trims out of many rounds.

# shellcheck disable=SC2030,SC2031,SC2153,SC2154 # each test is a shell of its own; see helpers.bash
load helpers

teardown() {
	stop_victims
	[ -z "${GROUP-}" ] || rmdir "$GROUP" 2>/dev/null || true
}

setup() {
	LOG=$BATS_TEST_TMPDIR/log
	JSON=$BATS_TEST_TMPDIR/json
}

# actions [KIND]: prints how many are in $JSON.
actions() {
	python - "$JSON" "${1-}" <<-'END'
	import json, sys
	lines = [json.loads(line) for line in open(sys.argv[1])]
	print(sum(line.get("type") == "action" and sys.argv[2] in ("", line["action"]) for line in lines))
	END
}

# Checks every action in $JSON against its schema.
assert_actions_valid() {
	local line
	while read -r line; do
		output=$line
		assert_schema watch
	done < <(grep '"type":"action"' "$JSON" | head -n 3)
}

# watch ARGUMENTS: runs it; its output is in $JSON.
watch() {
	"$FLMEM" watch --pid "$VICTIM" --interval 50ms --json "$@" >"$JSON" 2>"$BATS_TEST_TMPDIR/errors" ||
		fail "status $?: $(cat "$BATS_TEST_TMPDIR/errors")"
}

last() {
	tail -n 1 "$JSON" | python -c "import json, sys; print(json.load(sys.stdin)$1)"
}

@test "what a process retains goes back at the ends of its rounds" {
	start_victim watched retain 0 400 40000 "$LOG"
	watch --log "$LOG" --rounds 8 --auto --cool-down 50ms
	[ "$(actions trimmed)" -ge 3 ]
	assert_actions_valid
	grep '"action":"trimmed"' "$JSON" | grep -q 'a round has ended, and a trim follows each'
	output=$(tail -n 1 "$JSON")
	assert_schema watch
	[ "$(last '["processes"][0]["actions"]["trimmed"]')" = "$(actions trimmed)" ]
	[ "$(last '["processes"][0]["actions"]["released_bytes"]')" -ge $((3 * 30 << 20)) ]
	# Without trims it never falls below an earlier level.
	[ "$(last '["processes"][0]["last_bytes"]')" -ge $((32 << 20)) ]
	alive "$VICTIM"
}

@test "the recording shows the same again" {
	start_victim watched retain 0 400 40000 "$LOG"
	watch --log "$LOG" --rounds 6 --auto --cool-down 50ms --record "$BATS_TEST_TMPDIR/rec"
	local live
	live=$(actions)
	[ "$live" -ge 1 ]
	grep '"type":"action"' "$JSON" | sed 's/"elapsed_ms.*"action"/"action"/; s/"result":.*//' \
		>"$BATS_TEST_TMPDIR/live"
	"$FLMEM" watch --replay "$BATS_TEST_TMPDIR/rec" --json >"$JSON"
	[ "$(actions)" = "$live" ]
	assert_actions_valid
	grep '"type":"action"' "$JSON" | sed 's/"elapsed_ms.*"action"/"action"/; s/"result":.*//' |
		sed 's/"at_ms":[0-9]*//' >"$BATS_TEST_TMPDIR/replayed"
	sed -i 's/"at_ms":[0-9]*//' "$BATS_TEST_TMPDIR/live"
	diff "$BATS_TEST_TMPDIR/live" "$BATS_TEST_TMPDIR/replayed"
}

@test "a process without anything to release is left alone after three trims" {
	start_victim watched flat 0 300 64 "$LOG"
	watch --log "$LOG" --rounds 8 --auto --cool-down 50ms --max-ineffective 2 --min-release 8MiB
	# A main thread in a short sleep can be borrowed; if it never could, nothing was tried.
	if [ "$(actions trimmed)" -ge 2 ]; then
		[ "$(actions trimmed)" -eq 2 ]
		[ "$(actions paused)" -eq 1 ]
	fi
	[ $(($(actions trimmed) + $(actions refused))) -ge 1 ]
	assert_actions_valid
	alive "$VICTIM"
}

@test "a process that cannot be asked is watched on" {
	start_victim safe_threads_musl_static
	watch --duration 2s --auto --when 'rss > 1' --cool-down 100ms
	[ "$(actions trimmed)" -eq 0 ]
	[ "$(actions dropped)" -eq 1 ]
	alive "$VICTIM"
}

@test "without rounds a condition decides" {
	start_victim watched retain 0 400 40000
	watch --duration 4s --auto --when 'rss > 40M' --cool-down 200ms
	[ "$(actions trimmed)" -ge 1 ]
	grep '"action":"trimmed"' "$JSON" | grep -q 'the condition is met'
	watch --duration 1s --auto --when 'rss > 1T' --cool-down 100ms
	[ "$(actions)" -eq 0 ]
	watch --duration 200ms --auto # ends before it has checked anything
	[ "$(actions undecided)" -eq 1 ]
	grep -q 'no round ended, and the first check is after 30 s' "$JSON"
}

@test "text says what was done and why" {
	start_victim watched retain 0 400 40000 "$LOG"
	flmem watch --pid "$VICTIM" --log "$LOG" --interval 50ms --rounds 6 --auto --cool-down 50ms
	assert_status 0
	assert_output "process $VICTIM: .* released, RSS .* -> .*: a round has ended"
	assert_output 'trimmed [0-9]+ times?: RSS lowered by .*, threads borrowed'
}

# rounds PID: prints the rounds of this process in $JSON.
rounds() {
	grep '"type":"round"' "$JSON" | grep -c "\"pid\":$1," || true
}

@test "of several logs the one that a process writes has its rounds" {
	local quick slow live
	start_victim watched flat 0 200 1024 "$LOG.quick"
	quick=$VICTIM
	start_victim watched flat 0 2000 1024 "$LOG.slow"
	slow=$VICTIM
	"$FLMEM" watch --pid "$quick,$slow" --interval 50ms --duration 6s --json \
		--log "$LOG.slow" --log "$LOG.quick" --record "$BATS_TEST_TMPDIR/rec" >"$JSON"
	[ "$(rounds "$slow")" -ge 1 ]
	[ "$(rounds "$quick")" -ge $((3 * $(rounds "$slow"))) ]
	live="$(rounds "$quick") $(rounds "$slow")"
	"$FLMEM" watch --replay "$BATS_TEST_TMPDIR/rec" --json >"$JSON"
	[ "$(rounds "$quick") $(rounds "$slow")" = "$live" ]
}

@test "a restarted process goes on with the history of the one before" {
	local app=$BATS_TEST_TMPDIR/fakes/bin/flwr-clientapp watch first
	python "$FLMEM_TESTS/cli/fakes/make-frameworks" "$BATS_TEST_TMPDIR/fakes"
	start_victim "$app"
	first=$VICTIM
	"$FLMEM" watch --name "$app" --interval 50ms --json --record "$BATS_TEST_TMPDIR/rec" \
		>"$JSON" 3>&- &
	watch=$!
	VICTIMS+=("$watch")
	wait_until 60 grep -q "\"pid\":$first," "$JSON"
	kill "$first"
	start_victim "$app"
	# flmem searches for new processes every 5 s.
	wait_until 60 grep -q "\"pid\":$VICTIM," "$JSON"
	kill -TERM "$watch"
	wait "$watch"
	[ "$(last '["processes"].__len__()')" -eq 1 ]
	[ "$(last '["processes"][0]["restarts"]')" -eq 1 ]
	[ "$(last '["processes"][0]["pid"]')" -eq "$VICTIM" ]
	output=$(tail -n 1 "$JSON")
	assert_schema watch
	flmem watch --replay "$BATS_TEST_TMPDIR/rec"
	assert_output 'one history of 2 processes'
}

@test "samples go on while a trim waits for a safe moment" {
	# shellcheck disable=SC2016
	start_victim /bin/bash -c 'echo ready; while :; do :; done'
	watch --duration 4s --auto --when 'rss > 1' --cool-down 100ms --timeout 2s
	[ "$(actions refused)" -ge 1 ]
	[ "$(actions trimmed)" -eq 0 ]
	# If the samples had waited, there would be one search, and then the refusal.
	[ "$(sed '/"refused"/q' "$JSON" | grep -c '"type":"sample"')" -ge 8 ]
	alive "$VICTIM"
}

# Makes GROUP, a control group of version 1 or 2 with a limit of 160 MiB, below that of this test.
make_group() {
	local parent limit
	parent=/sys/fs/cgroup/memory$(sed -n 's/^[0-9]*:memory://p' /proc/self/cgroup)
	limit=memory.limit_in_bytes
	if [ ! -e "$parent/$limit" ]; then
		parent=/sys/fs/cgroup$(sed -n 's/^0:://p' /proc/self/cgroup)
		limit=memory.max
	fi
	GROUP=$parent/flmem-test-$$
	mkdir "$GROUP" 2>/dev/null || skip "no control group can be made here"
	echo $((160 << 20)) 2>/dev/null >"$GROUP/$limit" || {
		rmdir "$GROUP"
		skip "no memory limit can be set on a control group here"
	}
}

group_is_empty() {
	[ -z "$(cat "$GROUP/cgroup.procs")" ]
}

@test "memory that becomes short is given back at once" {
	local watch
	make_group
	start_victim watched retain 0 400 40000
	echo "$VICTIM" >"$GROUP/cgroup.procs"
	"$FLMEM" watch --pid "$VICTIM" --interval 50ms --json --auto --when 'rss > 1T' >"$JSON" 3>&- &
	watch=$!
	VICTIMS+=("$watch")
	wait_until 60 grep -q '"max":[0-9]' "$JSON"
	# The cache of a file that is read in the group fills it, again and again.
	truncate -s 400M "$BATS_TEST_TMPDIR/file"
	sh -c 'echo $$ >"$1/cgroup.procs"; exec cat "$2"' _ "$GROUP" "$BATS_TEST_TMPDIR/file" >/dev/null
	wait_until 60 grep -q '"reason":"its control group has reached its memory limit' "$JSON"
	kill -TERM "$watch"
	wait "$watch"
	output=$(tail -n 1 "$JSON")
	assert_schema watch
	[ "$(last '["processes"][0]["pressure_rise"]["max"]')" -ge 1 ]
	alive "$VICTIM"
	kill "$VICTIM"
	wait_until 60 group_is_empty
	rmdir "$GROUP"
}

@test "options of --auto alone are refused without it, and with a replay" {
	local options
	for options in '--gc' '--full' '--when rss>1' '--cool-down 1s' '--every-rounds 2' '--max-ineffective 2'; do
		# shellcheck disable=SC2086 # two words
		flmem watch --pid 1 $options
		assert_error 2 'add --auto'
	done
	flmem watch --replay /dev/null --auto
	assert_status 2
	flmem watch --pid 1 --auto --when 'nonsense'
	assert_status 2
}
