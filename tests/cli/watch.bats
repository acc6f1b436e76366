#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Real processes whose memory is known to grow, or not to. Sizes are large against what a loaded
# machine does to the moments of the samples; no test measures time.

# shellcheck disable=SC2030,SC2031,SC2153 # each test is a shell of its own; helpers.bash sets VICTIM
load helpers

# Takes the last line of JSON output as `output`, so that it can be compared with its schema.
last_line() {
	output=${lines[-1]}
}

# field PATH: prints a value of the object in `output`.
field() {
	printf '%s' "$output" | python -c '
import functools, json, sys
value = json.load(sys.stdin)
for step in sys.argv[1].split("."):
    value = value[int(step) if step.isdigit() else step]
print(json.dumps(value) if isinstance(value, (bool, dict, list)) or value is None else value)' "$1"
}

@test "a process that leaks climbs, at the rate at which it leaks" {
	start_victim watched leak 0 100 512
	flmem watch --pid "$VICTIM" --interval 50ms --duration 6s --json
	assert_status 0
	last_line
	assert_schema watch
	[ "$(field type)" = summary ]
	[ "$(field pid)" = "$VICTIM" ]
	[ "$(field trend.verdict)" = climbing ]
	[ "$(field processes.0.trend.verdict)" = climbing ]
	# At most 512 KiB in 100 ms; a busy machine makes the rounds longer, never shorter.
	[ "$(field trend.growth_per_hour_bytes)" -gt $((1024 * 1024 * 1024)) ]
	[ "$(field trend.growth_per_hour_bytes)" -lt $((512 * 1024 * 36000 * 11 / 10)) ]
	[ "$(field trend.growth_low_bytes)" -le "$(field trend.growth_per_hour_bytes)" ]
	[ "$(field trend.growth_high_bytes)" -ge "$(field trend.growth_per_hour_bytes)" ]
	[ "$(field trend.exhausted_in_s)" -gt 0 ]
	alive "$VICTIM"
}

# On a busy machine its last seconds may be on one side only: then it is watched again.
@test "a process that takes memory and gives it back is flat" {
	local try
	start_victim watched flat 0 100 8192
	for try in 1 2 3; do
		flmem watch --pid "$VICTIM" --interval 20ms --duration 6s --json
		assert_status 0
		last_line
		[ "$(field trend.verdict)" = stepped ] || break
	done
	assert_schema watch
	[ "$(field trend.verdict)" = flat ]
	[ "$(field trend.exhausted_in_s)" = null ]
	[ "$(field processes.0.peak_bytes)" -ge $((40 << 20)) ]
	alive "$VICTIM"
}

@test "what the allocator keeps of the first round is one step, not growth" {
	local log=$BATS_TEST_TMPDIR/log.txt
	start_victim watched keep 0 100 16384 "$log"
	flmem watch --pid "$VICTIM" --log "$log" --interval 20ms --rounds 20 --json
	assert_status 0
	last_line
	[[ "$(field trend.verdict)" == @(stepped|flat) ]]
	alive "$VICTIM"
}

@test "memory that does not move for seconds is too early to judge, and no limit of growth is met" {
	start_victim watched leak 0 600000 524288
	flmem watch --pid "$VICTIM" --interval 20ms --duration 2s --json
	assert_status 0
	last_line
	[ "$(field trend.verdict)" = too-early ]
	[ "$(field limit_undecided)" = false ]
	[ "$(field processes.0.undecided)" = null ]
	flmem watch --pid "$VICTIM" --interval 20ms --duration 2s --fail-growth 1GiB/h --json
	assert_status 9
	last_line
	assert_schema watch
	[ "$(field limit_passed)" = false ]
	[ "$(field limit_undecided)" = true ]
	[[ "$(field processes.0.undecided)" == *"watch for an hour"* ]]
	[[ $stderr == *"--fail-growth: process $VICTIM: "* ]]
	flmem watch --pid "$VICTIM" --interval 20ms --duration 2s --fail-growth 1GiB/h --quiet
	assert_status 9
	assert_output 'limit of growth undecided: '
}

@test "a limit per round is not met where no round was seen" {
	start_victim watched leak 0 100 1024
	flmem watch --pid "$VICTIM" --interval 50ms --duration 4s --fail-growth 1TiB/round
	assert_status 9
	[[ "$output" != *climbing* ]] || assert_output 'next: at its next start, flmem profile run'
	assert_output 'no rounds were seen: give --log'
	flmem watch --pid "$VICTIM" --interval 50ms --duration 300ms --fail-growth 1TiB/round
	assert_status 9
	assert_output 'no rounds were seen: give --log'
}

@test "every line is an object by itself, samples first" {
	start_victim watched flat 0 100 1024
	flmem watch --pid "$VICTIM" --interval 100ms --duration 1s --json
	assert_status 0
	local all=("${lines[@]}") line
	[ "${#all[@]}" -ge 3 ]
	for line in "${all[0]}" "${all[1]}"; do
		output=$line
		assert_schema watch
		[ "$(field type)" = sample ]
		[ "$(field pid)" = "$VICTIM" ]
		[ "$(field rss_bytes)" -ge $((32 << 20)) ]
	done
	output=${all[0]}
	[ "$(field memory.anon_bytes)" -ge $((32 << 20)) ]
	output=${all[1]}
	[ "$(field memory)" = null ]
}

@test "text names the process, its verdict and its growth" {
	local profile=$BATS_TEST_TMPDIR/p.prof
	start_victim "$FLMEM" profile run -o "$profile" --limit 1MiB -- "$FLMEM_VICTIMS/watched" leak 0 50 1024
	flmem watch --pid "$VICTIM" --interval 50ms --duration 4s --record "$BATS_TEST_TMPDIR/r"
	assert_status 0
	assert_output "next: flmem profile leaks $profile shows which code holds it"
	assert_output "process $VICTIM: RSS "
	assert_output "process $VICTIM: climbing, confidence "
	assert_output 'per hour \(95 %: '
	assert_output 'at this growth the limit of its (host|control group) '
	# The process of a recording may be on another machine, and its ID may be another process's
	# here.
	flmem watch --replay "$BATS_TEST_TMPDIR/r"
	assert_output "process $VICTIM: climbing, confidence "
	refute_output 'next: flmem'
}

@test "a size that was passed is status 1, also when it came down again" {
	start_victim watched flat 0 100 65536
	flmem watch --pid "$VICTIM" --interval 20ms --duration 2s --fail-above 64MiB --json
	assert_status 1
	last_line
	assert_schema watch
	[ "$(field limit_passed)" = true ]
	[[ "$(field processes.0.findings.0)" == *above* ]]
	flmem watch --pid "$VICTIM" --interval 20ms --duration 1s --fail-above 1TiB
	assert_status 0
}

@test "growth beyond the limit is status 1" {
	start_victim watched leak 0 100 1024
	flmem watch --pid "$VICTIM" --interval 50ms --duration 4s --fail-growth 100MiB/h
	assert_status 1
	assert_output 'finding: it grows faster'
	flmem watch --pid "$VICTIM" --interval 50ms --duration 4s --fail-growth 1TiB/h
	assert_status 0
}

@test "the watch ends with its processes" {
	start_victim watched flat 60 50 1024
	flmem watch --pid "$VICTIM" --interval 500ms --json
	assert_status 0
	last_line
	assert_schema watch
	[ "$(field processes.0.ended)" = true ]
	[ "$(field trend.verdict)" = too-early ]
}

@test "SIGINT and SIGTERM end it with the summary" {
	local signal watch
	start_victim watched flat 0 100 1024
	for signal in INT TERM; do
		# bats ignores SIGINT in commands that it starts in the background; the command
		# itself does not.
		env --default-signal=INT "$FLMEM" watch --pid "$VICTIM" --interval 50ms --json \
			>"$BATS_TEST_TMPDIR/out.$signal" 3>&- &
		watch=$!
		VICTIMS+=("$watch")
		wait_until 60 grep -q sample "$BATS_TEST_TMPDIR/out.$signal"
		kill -"$signal" "$watch"
		wait "$watch" || fail "status $?"
		output=$(tail -n 1 "$BATS_TEST_TMPDIR/out.$signal")
		assert_schema watch
		[ "$(field type)" = summary ]
	done
}

@test "a reader that goes away ends it" {
	start_victim watched flat 0 100 1024
	# shellcheck disable=SC2016
	run_command bash -c '"$1" watch --pid "$2" --interval 20ms --json | head -n 2; echo "${PIPESTATUS[0]}"' \
		_ "$FLMEM" "$VICTIM"
	assert_output '"sample".*"sample"'
	[ "${lines[-1]}" -eq 7 ]
}

@test "what comes later is taken in, and several processes have a row each" {
	local first tag=watched-$BATS_ROOT_PID-$$
	start_victim /bin/bash -c "exec -a $tag-one \"\$0\" flat 0 100 1024" "$FLMEM_VICTIMS/watched"
	first=$VICTIM
	"$FLMEM" watch --name "^$tag-" --interval 100ms --duration 9s --json \
		>"$BATS_TEST_TMPDIR/out" 3>&- &
	VICTIMS+=($!)
	local watch=$!
	wait_until 60 grep -q sample "$BATS_TEST_TMPDIR/out"
	start_victim /bin/bash -c "exec -a $tag-two \"\$0\" flat 0 100 1024" "$FLMEM_VICTIMS/watched"
	wait "$watch"
	output=$(tail -n 1 "$BATS_TEST_TMPDIR/out")
	assert_schema watch
	[ "$(field pid)" = null ]
	[ "$(field processes.0.pid)" = "$first" ]
	[ "$(field processes.1.pid)" = "$VICTIM" ]
}

@test "a secret on the command line is not shown" {
	start_victim watched flat 0 100 1024 /dev/null --token=abcdef0123456789
	flmem watch --pid "$VICTIM" --duration 100ms --json
	assert_status 0
	refute_output abcdef0123456789
}

# Prints the lines of type "round" of the last run.
rounds() {
	printf '%s\n' "${lines[@]}" | grep '"type":"round"'
}

@test "a hostile name is shown escaped" {
	# shellcheck disable=SC2016
	start_victim /bin/bash -c 'exec -a "$(printf "evil\033[31m\n\377name")" "$0" flat 0 100 1024' \
		"$FLMEM_VICTIMS/watched"
	flmem watch --pid "$VICTIM" --duration 100ms
	assert_status 0
	refute_output $'\033'
	assert_output 'evil\\x1b\[31m\\x0a\\xffname'
	flmem watch --pid "$VICTIM" --duration 100ms --json
	last_line
	assert_schema watch
	refute_output $'\033'
}

@test "a leak is measured by round where there is a log" {
	local log=$BATS_TEST_TMPDIR/log.txt
	start_victim watched leak 0 200 2048 "$log"
	flmem watch --pid "$VICTIM" --log "$log" --interval 20ms --rounds 12 --json
	assert_status 0
	local round
	round=$(rounds | tail -n 1)
	last_line
	assert_schema watch
	[ "$(field rounds)" -eq 12 ]
	[ "$(field trend.verdict)" = climbing ]
	[ "$(field trend.basis)" = round ]
	# The growth is what it keeps each round, and malloc's page.
	[ "$(field trend.growth_per_round_bytes)" -ge $((2048 * 1024)) ]
	[ "$(field trend.growth_per_round_bytes)" -le $((2056 * 1024)) ]
	[ "$(field trend.exhausted_in_rounds)" -gt 0 ]
	[ "$(field processes.0.rounds)" -ge 12 ]
	output=$round
	assert_schema watch
	[ "$(field pid)" = "$VICTIM" ]
	[ "$(field round)" -ge 12 ]
	[ "$(field peak_bytes)" -gt "$(field trough_bytes)" ]
	[ "$(field growth_bytes)" -gt 0 ]
}

@test "what only lives within a round does not count as growth" {
	local log=$BATS_TEST_TMPDIR/log.txt
	start_victim watched flat 0 200 32768 "$log"
	flmem watch --pid "$VICTIM" --log "$log" --interval 20ms --rounds 10
	assert_status 0
	assert_output "round [0-9]+  process $VICTIM: "
	assert_output "process $VICTIM: flat, confidence "
}

@test "--rounds ends a watch whose rounds are shorter than its interval" {
	local log=$BATS_TEST_TMPDIR/log.txt number=0
	while sleep 0.1; do
		echo "Round $((number++)) started."
	done >"$log" 3>&- &
	VICTIMS+=("$!")
	run_command timeout 60 "$FLMEM" watch --pid "$!" --log "$log" --interval 1s --rounds 3
	assert_status 0
	assert_output "process ${VICTIMS[-1]}: "
	assert_output 'round [0-9]+  process [0-9]+: shorter than the interval, peak unknown, then '
	refute_output ': 0 us'
}

@test "a log may appear later, be rotated, and have lines that flmem does not know" {
	local log=$BATS_TEST_TMPDIR/late.txt out=$BATS_TEST_TMPDIR/out watch
	start_victim watched flat 0 100 1024
	"$FLMEM" watch --pid "$VICTIM" --log "$log" --round-regex '^epoch ([0-9]+)' --interval 20ms \
		--rounds 3 --json >"$out" 3>&- &
	watch=$!
	VICTIMS+=("$watch")
	wait_until 60 grep -q sample "$out"
	echo "epoch 1" >>"$log"
	wait_until 60 grep -q '"round":1' "$out"
	printf 'Round 7 started.\n\0\377\nepoch 2\n' >>"$log"
	wait_until 60 grep -q '"type":"round".*"round":1,' "$out"
	mv "$log" "$log.1"
	echo "epoch 3" >>"$log.1"
	echo "epoch 4" >>"$log"
	wait "$watch" || fail "status $?"
	run_command grep -o '"type":"round".*"round":[0-9]*' "$out"
	[ "${#lines[@]}" -eq 3 ]
	[[ ${lines[2]} == *'"round":3' ]]
	output=$(tail -n 1 "$out")
	assert_schema watch
	[ "$(field rounds)" -eq 3 ]
}

# Prints the last run without its end, and without reasons for unknown values, which a recording
# lacks.
summary() {
	printf '%s\n' "${lines[@]}" | sed '/"summary"/d; s/"unknown":{[^}]*}//g'
}

@test "a recording shows the watch again, line by line" {
	local log=$BATS_TEST_TMPDIR/log.txt rec=$BATS_TEST_TMPDIR/watch.rec live
	start_victim watched leak 0 100 1024 "$log"
	flmem watch --pid "$VICTIM" --log "$log" --interval 20ms --rounds 8 --record "$rec" --json
	assert_status 0
	last_line
	local verdict growth
	verdict=$(field trend.verdict)
	growth=$(field trend.growth_per_round_bytes)
	live=$(summary)
	[ "$(stat -c %a "$rec")" = 600 ]
	flmem watch --replay "$rec" --json
	assert_status 0
	[ "$(summary)" = "$live" ] ||
		fail "the lines differ: $live"
	last_line
	assert_schema watch
	# It is not 0: a recording does not have it.
	[ "$(field missed)" = null ]
	[ "$(field trend.verdict)" = "$verdict" ]
	[ "$(field trend.growth_per_round_bytes)" = "$growth" ]
	[ "$(field processes.0.pid)" = "$VICTIM" ]
	flmem watch --replay "$rec" --fail-growth 1KiB/round
	assert_status 1
}

larger_than() {
	[ -e "$2" ] && [ "$(stat -c %s "$2")" -gt "$1" ]
}

@test "a watch that is killed leaves a recording that can be gone on with" {
	local rec=$BATS_TEST_TMPDIR/watch.rec watch
	start_victim watched flat 0 100 1024
	"$FLMEM" watch --pid "$VICTIM" --interval 10ms --record "$rec" >/dev/null 3>&- &
	watch=$!
	VICTIMS+=("$watch")
	# The file is larger than the first block, which has no samples.
	wait_until 60 larger_than 1024 "$rec"
	kill -KILL "$watch"
	wait "$watch" || true
	flmem watch --replay "$rec" --json
	assert_status 0
	last_line
	local before
	before=$(field processes.0.samples)
	[ "$before" -gt 100 ]
	flmem watch --pid "$VICTIM" --interval 10ms --duration 500ms --record "$rec"
	assert_status 0
	flmem watch --replay "$rec" --json
	assert_status 0
	last_line
	[ "$(field processes.0.samples)" -gt "$before" ]
	[ "$(field processes.0.pid)" = "$VICTIM" ]
}

@test "a full disk does not end the watch, and is reported" {
	requires root
	local disk=$BATS_TEST_TMPDIR/disk
	mkdir "$disk"
	mount -t tmpfs -o size=64k flmem "$disk" 2>/dev/null || skip "cannot mount a file system"
	head -c 60000 /dev/zero >"$disk/full"
	head -c 20000 /dev/zero >>"$disk/full" || true
	start_victim watched flat 0 100 1024
	flmem watch --pid "$VICTIM" --interval 20ms --duration 500ms --record "$disk/rec" --json
	local recorded=$status output_was=$output stderr_was=$stderr
	umount "$disk"
	[ "$recorded" -eq 7 ]
	[[ $stderr_was == *"cannot record to '$disk/rec': No space left"*"could not be written"* ]]
	[[ $stderr_was == *"could not be written"*"free some disk space"* ]]
	[[ $output_was == *'"record_lost":2,'* ]]
}

@test "a disk that is full from the start is reported while the watch runs" {
	requires root
	local disk=$BATS_TEST_TMPDIR/disk watch
	mkdir "$disk"
	mount -t tmpfs -o size=16k flmem "$disk" 2>/dev/null || skip "cannot mount a file system"
	head -c 65536 /dev/zero >"$disk/full" 2>/dev/null || true
	start_victim watched flat 0 100 1024
	"$FLMEM" watch --pid "$VICTIM" --interval 20ms --record "$disk/rec" --quiet \
		>"$BATS_TEST_TMPDIR/out" 2>"$BATS_TEST_TMPDIR/err" 3>&- &
	watch=$!
	VICTIMS+=("$watch")
	wait_until 60 grep -q 'cannot record to .*the watch continues' "$BATS_TEST_TMPDIR/err" ||
		{ umount "$disk"; fail "nothing was reported"; }
	kill -TERM "$watch"
	local status=0
	wait "$watch" || status=$?
	umount "$disk"
	[ "$status" -eq 7 ]
	grep -q '^process ' "$BATS_TEST_TMPDIR/out"
}

@test "ten thousand short-lived children neither end it nor crowd out what stays" {
	local go=$BATS_TEST_TMPDIR/go out=$BATS_TEST_TMPDIR/out watch
	# 100 waves of 100 processes, each of which lives until the next has started: the watch finds
	# some of them.
	start_victim waves "$go" 100
	"$FLMEM" watch --tree "$VICTIM" --interval 50ms --json >"$out" 3>&- &
	watch=$!
	VICTIMS+=("$watch")
	wait_until 60 grep -q sample "$out"
	touch "$go"
	wait "$watch" || fail "status $?"
	output=$(tail -n 1 "$out")
	[ "$(field processes.0.pid)" = "$VICTIM" ]
	[ "$(field processes.0.ended)" = true ]
	run_command python -c '
import json, sys
with open(sys.argv[1]) as file:
    processes = json.loads(file.readlines()[-1])["processes"]
print(1 < len(processes) <= 257, all(p["ended"] for p in processes))' "$out"
	[ "$output" = "True True" ]
}

@test "quiet is the summary alone" {
	start_victim watched flat 0 100 1024
	flmem watch --pid "$VICTIM" --interval 20ms --duration 300ms --quiet --json
	assert_status 0
	[ "${#lines[@]}" -eq 1 ]
	assert_schema watch
	[ "$(field processes.0.samples)" -ge 3 ]
	flmem watch --pid "$VICTIM" --interval 20ms --duration 300ms -q
	refute_output "process $VICTIM: RSS"
	assert_output "^process $VICTIM: "
}

@test "usage of recordings" {
	local rec=$BATS_TEST_TMPDIR/watch.rec
	flmem watch --replay "$rec"
	assert_error 2 'cannot read the recording'
	echo hello >"$rec"
	flmem watch --replay "$rec"
	assert_error 2 'is not a recording of flmem watch --record'
	flmem watch --pid $$ --record "$rec" --duration 100ms
	assert_error 2 'is not a recording and is not changed'
	[ "$(cat "$rec")" = hello ]
	flmem watch --replay "$rec" --pid $$
	assert_error 2 'remove the target options'
	flmem watch --replay "$rec" --duration 1s
	assert_error 2 'need a live watch'
	: >"$rec"
	flmem watch --replay "$rec"
	assert_error 2 "has no process"
}

@test "usage of logs" {
	flmem watch --pid $$ --rounds 3
	assert_error 2 'rounds are counted in a log'
	flmem watch --pid $$ --round-regex x
	assert_error 2 'is searched in logs'
	flmem watch --pid $$ --log /tmp
	assert_error 2 "'/tmp' is not a regular file"
	flmem watch --pid $$ --log "$BATS_TEST_TMPDIR/none" --round-regex '('
	assert_error 2 'invalid regular expression'
}

@test "usage" {
	flmem watch
	assert_error 2 'no target'
	flmem watch --pid 4194303
	assert_error 3 'no process 4194303'
	flmem watch --name '^no such process at all$'
	assert_error 3 'no command line matches'
	flmem watch --pid $$ --fail-growth 10
	assert_error 2 "invalid rate '10' for --fail-growth; expected for example 10MiB/round"
	flmem watch --pid $$ --fail-growth 10MiB/day
	assert_error 2 "invalid rate .10MiB/day. for --fail-growth"
	flmem watch --pid $$ --fail-growth x/h
	assert_error 2 "invalid rate 'x/h' for --fail-growth"
	flmem watch --pid $$ --interval 1ms
	assert_error 2 '--interval accepts at least 10 ms'
	flmem watch --pid $$ more
	assert_error 2 "unexpected argument 'more'"
}

# sleepers COUNT: starts so many processes; their pids, for --pid, are in SLEEPERS.
sleepers() {
	local i list=()
	for ((i = 0; i < $1; i++)); do
		sleep 600 3>&- &
		list+=("$!")
	done
	VICTIMS+=("${list[@]}")
	SLEEPERS=$(IFS=, && printf '%s' "${list[*]}")
}

@test "with few descriptors counters are opened for each sample" {
	sleepers 24
	# shellcheck disable=SC2016
	run_command bash -c 'ulimit -n 64; exec "$1" watch --pid "$2" --interval 20ms --duration 500ms --json' \
		_ "$FLMEM" "$SLEEPERS"
	assert_status 0
	last_line
	[ "$(field 'processes.23.samples')" -ge 2 ]
	[ "$(field 'processes.23.ended')" = false ]
	[ "$(field 'processes.23.last_bytes')" -gt 0 ]
}

@test "too many processes for the limit of descriptors are refused with what to raise" {
	sleepers 60
	# shellcheck disable=SC2016
	run_command bash -c 'ulimit -n 64; exec "$1" watch --pid "$2" --duration 100ms' \
		_ "$FLMEM" "$SLEEPERS"
	assert_error 7 'ulimit -n'
	flmem watch --pid "$SLEEPERS" --interval 20ms --duration 200ms --json
	assert_status 0
}
