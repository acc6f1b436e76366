#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# flmem trim --every and --when: repeated trims of live processes.

# The helpers set the variables; every test has its own VICTIMS; eval expands.
# shellcheck disable=SC2016,SC2030,SC2031,SC2154
load helpers

REPEATERS=()

setup() {
	requires python3 /usr/bin/python3
	LOG=$BATS_TEST_TMPDIR/log
	OUT=$BATS_TEST_TMPDIR/out
}

teardown() {
	local pid
	for pid in "${REPEATERS[@]}"; do
		kill -KILL "$pid" 2>/dev/null || true
	done
	stop_victims
}

# Starts a process that retains 60 MiB, twice as much at each SIGUSR1, and ends at SIGUSR2.
start_retainer() {
	start_victim /usr/bin/python3 -uc '
import os, signal, threading, time
kept = []
def retain(*_):
    blocks = [bytes(3000) for _ in range(20000 << len(kept))]
    kept.append(blocks[::64])
    del blocks
    print("retained", flush=True)
signal.signal(signal.SIGUSR1, retain)
signal.signal(signal.SIGUSR2, lambda *_: os._exit(0))
retain()
threading.Thread(target=threading.Event().wait, daemon=True).start()
print("ready", flush=True)
while True:
    time.sleep(0.05)'
}

# repeat ARGUMENTS: runs trim in the background; REPEATER is its pid, $LOG and $OUT its output.
repeat() {
	"$FLMEM" trim "$@" >"$OUT" 2>"$LOG" 3>&- </dev/null &
	REPEATER=$!
	REPEATERS+=("$REPEATER")
}

is_gone() {
	! alive "$1"
}

# Waits for the end of trim; the exit status is in $ended.
await_end() {
	ended=0
	wait_until 60 is_gone "$REPEATER"
	wait "$REPEATER" || ended=$?
	cat "$LOG" "$OUT"
}

# logged COUNT REGEX: true if so many lines of the log match, or more.
logged() {
	[ "$(grep -cE "$2" "$LOG")" -ge "$1" ]
}

# events: prints the kinds of all events in the output, each of which must match the schema.
events() {
	local line
	while IFS= read -r line; do
		output=$line
		assert_schema trim >&2 || return
		python -c 'import json, sys; print(json.load(sys.stdin)["event"])' <<<"$line"
	done <"$OUT"
}

@test "every so often, until the process ends: status 0" {
	start_retainer
	repeat --pid "$VICTIM" --every 200ms --max-ineffective 100 --min-release 1
	wait_until 60 logged 1 "process $VICTIM: [0-9.]+ MiB released, RSS .* -> .*, borrowed thread [0-9]+ for"
	kill -USR1 "$VICTIM"
	wait_until 60 logged 2 "process $VICTIM: [0-9.]+ MiB released"
	assert_victim_unharmed
	kill -USR2 "$VICTIM"
	await_end
	[ "$ended" = 0 ]
	[ ! -s "$OUT" ]
	tail -1 "$LOG" | grep -qE "^20[0-9-]+T[0-9:]+Z process $VICTIM: ended$"
}

@test "when a condition holds, and not before" {
	start_retainer
	local limit
	limit=$(($(status_field "$VICTIM" VmRSS) + 30000))K
	repeat --pid "$VICTIM" --when "rss > $limit and not swap > 1P" --every 100ms --cool-down 100ms
	sleep 1
	! grep -qv ': waiting: ' "$LOG" || fail "trimmed too early: $(cat "$LOG")"
	kill -USR1 "$VICTIM"
	wait_until 60 logged 1 'released'
	kill -TERM "$REPEATER"
	await_end
	[ "$ended" = 0 ]
	assert_victim_unharmed
}

@test "what can be released decides" {
	start_retainer
	repeat --pid "$VICTIM" --when 'trimmable > 30M or trimmable > 99%' --every 100ms --cool-down 100ms
	wait_until 60 logged 1 'released'
	sleep 1
	! logged 2 . || fail "it goes on although nothing is left: $(cat "$LOG")"
	kill -USR1 "$VICTIM"
	wait_until 60 logged 2 'released'
	kill -INT "$REPEATER"
	await_end
	[ "$ended" = 0 ]
}

@test "an allocator that must be asked is asked" {
	requires victim:allocators/teller-jemalloc
	MALLOC_CONF=dirty_decay_ms:-1 start_victim "$FLMEM_VICTIMS/allocators/teller-jemalloc"
	repeat --pid "$VICTIM" --when 'trimmable > 50%' --every 100ms --count 1
	await_end
	[ "$ended" = 0 ]
	logged 1 'MiB released'
	tail -1 "$LOG" | grep -q 'done$'
	assert_victim_unharmed
}

@test "ineffective trims double the pause and end at last" {
	start_retainer
	flmem trim --pid "$VICTIM"
	repeat --pid "$VICTIM" --every 300ms --min-release 20M --json
	await_end
	[ "$ended" = 0 ]
	[ "$(events | tr '\n' ' ')" = "trimmed trimmed trimmed given-up " ]
	python -c '
import json, sys
at = [json.loads(line)["at_ms"] for line in sys.stdin][:3]
# Intervals of 600 ms and 1.2 s instead of 300 ms each; events are reported when the trim is over,
# so there is some tolerance.
sys.exit(at[2] - at[0] < 1000)' <"$OUT"
	assert_victim_unharmed
}

@test "one trim that brings something starts the count anew" {
	start_retainer
	repeat --pid "$VICTIM" --every 150ms --min-release 20M --max-ineffective 2 --json
	# The first trim releases; the next is ineffective.
	wait_until 60 eval '[ "$(wc -l <"$OUT")" -ge 1 ]'
	kill -USR1 "$VICTIM"
	await_end
	[ "$ended" = 0 ]
	[ "$(events | grep -c trimmed)" -ge 3 ]
	[ "$(events | tail -1)" = given-up ]
}

@test "a number of trims, of several processes, one of which ends" {
	start_retainer
	local first=$VICTIM
	start_retainer
	repeat --pid "$first,$VICTIM" --every 300ms --count 3 --min-release 1 --max-ineffective 100 --json
	wait_until 60 eval '[ "$(wc -l <"$OUT")" -ge 2 ]'
	kill -USR2 "$first"
	await_end
	[ "$ended" = 0 ]
	[ "$(grep -c "\"pid\":$VICTIM,\"event\":\"trimmed\"" "$OUT")" = 3 ]
	grep -q "\"pid\":$VICTIM,\"event\":\"done\"" "$OUT"
	grep -q "\"pid\":$first,\"event\":\"ended\"" "$OUT"
	events >/dev/null
}

@test "a process that cannot be trimmed is dropped, with its code; the others go on" {
	requires victim:allocators/musl
	start_reader "$FLMEM_VICTIMS/allocators/musl"
	local musl=$VICTIM
	repeat --pid "$musl" --every 1h
	await_end
	[ "$ended" = 5 ]
	logged 1 "process $musl: not trimmed, no further attempts: .*musl"
	start_retainer
	repeat --pid "$musl,$VICTIM" --every 100ms --count 1
	await_end
	[ "$ended" = 8 ]
	logged 1 "process $VICTIM: .*released"
}

@test "a process that is not safe now is tried again" {
	start_retainer
	kill -STOP "$VICTIM"
	wait_until 60 grep -q '^State:.T' "/proc/$VICTIM/status"
	repeat --pid "$VICTIM" --every 100ms --timeout 500ms --count 1 --json
	wait_until 60 eval 'grep -q "\"event\":\"refused\"" "$OUT"'
	kill -CONT "$VICTIM"
	await_end
	[ "$ended" = 0 ]
	[ "$(events | tail -2 | tr '\n' ' ')" = "trimmed done " ]
}

@test "a condition that cannot be decided is reported once, and nothing is trimmed" {
	requires victim:allocators/mimalloc
	start_reader "$FLMEM_VICTIMS/allocators/mimalloc"
	repeat --pid "$VICTIM" --when 'trimmable > 1' --every 50ms
	wait_until 60 logged 1 'the condition cannot be decided: '
	sleep 0.5
	[ "$(wc -l <"$LOG")" = 1 ]
	kill -TERM "$REPEATER"
	await_end
	[ "$ended" = 0 ]
}

@test "a condition that does not hold yet is reported once, with how often it is checked" {
	start_retainer
	repeat --pid "$VICTIM" --when 'rss > 900G' --every 50ms
	wait_until 60 logged 1 'waiting: the condition does not hold yet; it is checked every 0.05 s'
	sleep 0.5
	[ "$(wc -l <"$LOG")" = 1 ]
	kill -TERM "$REPEATER"
	await_end
	[ "$ended" = 0 ]
	repeat --pid "$VICTIM" --when 'rss > 900G' --every 50ms --json
	wait_until 10 grep -q '"event":"waiting","reason":"the condition does not hold yet' "$OUT"
	kill -TERM "$REPEATER"
	await_end
}

@test "a signal ends it at once, and cleanly" {
	start_retainer
	repeat --pid "$VICTIM" --every 1h --json
	wait_until 60 eval 'grep -q trimmed "$OUT"'
	kill -TERM "$REPEATER"
	await_end
	[ "$ended" = 0 ]
	[ "$(events)" = trimmed ]
	assert_victim_unharmed
}

@test "bad input is refused before anything is touched" {
	flmem trim --pid 1 --when 'rss > '
	assert_error 2 "condition 'rss > ', at character 7: expected a size or a percentage"
	flmem trim --pid 1 --when 'rsss > 8G' --json
	assert_status 2
	assert_schema error
	flmem trim --pid 1 --every soon
	assert_error 2 "invalid duration 'soon' for --"
	flmem trim --pid 1 --every 0
	assert_error 2 "invalid value '0' for --every; it must be more than 0"
	flmem trim --pid 1 --every 5s --count 0
	assert_error 2 "invalid value '0' for --count; it must be more than 0"
	flmem trim --pid 1 --cool-down 5s
	assert_error 2 'need --every or --when'
	flmem trim --pid 1 --count 5
	assert_error 2 'need --every or --when'
	flmem trim --pid 1 --every 5s --dry-run
	assert_error 2 'cannot be combined with --every or --when'
	flmem trim --pid 1 --every 5s --max-ineffective 99999999999
	assert_error 2 '--max-ineffective accepts at most'
	flmem trim --every 5s
	assert_error 2 'no target'
	flmem trim --pid 4194304 --every 5s --count 1
	assert_status 3
	assert_stderr 'process 4194304: not trimmed, no further attempts: no process 4194304'
}
