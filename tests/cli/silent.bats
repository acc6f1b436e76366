#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Live processes whose memory or files never answer: flmem reports that, reads all others, and ends.

# The helpers set the variables; every test has its own VICTIMS.
# shellcheck disable=SC2030,SC2031,SC2153,SC2154
load helpers

setup() {
	requires victim:silent/silent victim:safe_blocked
	# The leak checker stops all threads first, and a thread that waits for an answer cannot be
	# stopped.
	export ASAN_OPTIONS=${ASAN_OPTIONS:-}:detect_leaks=0
	mkdir -p "$BATS_TEST_TMPDIR/mount"
}

# Runs flmem with a limit for one that hangs, far above the time that flmem waits.
bounded() {
	unnoted run_apart "flmem $*" timeout -k 5 60 "$FLMEM" "$@"
}

start_silent() {
	start_victim_or_skip "$FLMEM_VICTIMS/silent/silent" "$1" "$BATS_TEST_TMPDIR/mount"
	SILENT=$VICTIM
}

start_victim_or_skip() {
	start_victim "$@" || skip "$(cat "$VICTIM_LOG")"
}

start_healthy() {
	start_victim /usr/bin/python3 -uc '
import threading
print("ready", flush=True)
threading.Event().wait()'
	HEALTHY=$VICTIM
}

@test "detect: a list of libraries that leads into a page that nobody supplies" {
	start_silent list-missing
	bounded detect --pid "$SILENT"
	assert_error 6 "process $SILENT is not (touched|read).*did not answer"
	alive "$SILENT"
}

@test "detect: a list of libraries that leads into a file whose server is silent" {
	local way
	for way in list-fuse list-fuse-async; do
		start_silent "$way"
		bounded detect --pid "$SILENT" --json
		assert_status 0
		assert_schema detect
		assert_victim_unharmed "$SILENT"
		stop_victims
	done
}

# A signal to the thread that writes the dump would end the dump, and the process.
@test "trim: a process whose core dump is still being written" {
	start_silent dump
	kill -SEGV "$SILENT"
	wait_until 60 grep -q '^CoreDumping:.*1' "/proc/$SILENT/status"
	bounded detect --pid "$SILENT" --json
	assert_status 0
	bounded trim --pid "$SILENT"
	assert_error 3 "process $SILENT is ending: .*core dump is being written"
	bounded trim --pid "$SILENT" --dry-run
	assert_error 3 "process $SILENT is ending: .*core dump is being written"
	grep -q '^CoreDumping:.*1' "/proc/$SILENT/status"
}

@test "detect: others are reported beside one that does not answer" {
	start_silent list-missing
	start_healthy
	bounded detect --pid "$SILENT" --pid "$HEALTHY" --json
	assert_status 8
	assert_schema detect
	assert_output "\"pid\":[[:space:]]*$HEALTHY"
	assert_stderr "process $SILENT is not (touched|read)"
	bounded detect --name "$FLMEM_VICTIMS/silent/silent|threading.Event" --json
	assert_status 0
	assert_output "\"pid\":[[:space:]]*$HEALTHY"
	assert_victim_unharmed "$HEALTHY"
}

# A thread that waits for such a server cannot be ended, so flmem itself ends only with the server.
@test "detect: a library whose file cannot be opened" {
	local flmem
	start_silent module
	start_healthy
	"$FLMEM" detect --pid "$SILENT" --pid "$HEALTHY" >"$BATS_TEST_TMPDIR/out" \
		2>"$BATS_TEST_TMPDIR/err" 3>&- &
	flmem=$!
	wait_until 60 grep -Eq "process $SILENT is not (touched|read)" "$BATS_TEST_TMPDIR/err"
	grep -q "$HEALTHY" "$BATS_TEST_TMPDIR/out"
	stop_victims
	wait "$flmem" || [ $? = 8 ]
}

@test "trim: a process that does not answer is refused before anything is touched" {
	local way
	for way in list-missing list-fuse list-fuse-async; do
		start_silent "$way"
		bounded trim --pid "$SILENT" --dry-run
		if [ "$way" = list-missing ]; then
			assert_error 6 "process $SILENT is not (touched|read).*did not answer"
		else
			assert_status 0
		fi
		assert_victim_unharmed "$SILENT"
		stop_victims
	done
}

stopped_asking() {
	[ "$(grep -Ec 'did not answer|still do not answer' "$BATS_TEST_TMPDIR/err")" -ge 6 ] || ! kill -0 "$1"
}

refused_often() {
	[ "$(grep -c 'still do not answer' "$BATS_TEST_TMPDIR/err")" -ge 3 ] || ! kill -0 "$1"
}

# Each attempt would cost a thread that waits as long as the process lives.
@test "trim: while one attempt waits for an answer, no other starts" {
	local flmem
	start_silent list-missing
	"$FLMEM" trim --pid "$SILENT" --every 1s --timeout 1s >"$BATS_TEST_TMPDIR/err" 2>&1 3>&- &
	flmem=$!
	wait_until 60 refused_often "$flmem"
	[ "$(find "/proc/$flmem/task" -mindepth 1 -maxdepth 1 | wc -l)" -le 2 ]
	kill "$flmem"
	# The waiting thread ends with the process that it waits for.
	stop_victims
	wait "$flmem"
}

# PTRACE_SEIZE waits for the exec. Six attempts, one each second, take longer than flmem may hold a
# thread, also after the last slice of the first.
@test "trim: a process that executes a program which cannot be read does not end flmem" {
	local flmem
	start_silent exec
	"$FLMEM" trim --pid "$SILENT" --every 1s --timeout 1s >"$BATS_TEST_TMPDIR/err" 2>&1 3>&- &
	flmem=$!
	wait_until 60 stopped_asking "$flmem"
	kill "$flmem"
	wait "$flmem"
	assert_victim_unharmed "$SILENT"
}

# A page of the library that is not in memory when it is needed would come from a thread that is held.
# bats test_tags=unsanitised
@test "trim: the process that serves the file system from which flmem itself is read" {
	local library
	library=$(ldd "$FLMEM" | sed -n 's/.*libflmem[^ ]* => \([^ ]*\) .*/\1/p')
	[ -n "$library" ] || skip "this flmem has no library"
	# shellcheck disable=SC2016 # for that shell
	run_command timeout -k 5 60 "$FLMEM_VICTIMS/silent/silent" after 1000000000 "$library" \
		"$BATS_TEST_TMPDIR/mount" /bin/sh -c '
			read -r server _ <"/proc/$$/task/$$/children"
			export ASAN_OPTIONS=${ASAN_OPTIONS:-}:verify_asan_link_order=0
			LD_PRELOAD=$1 "$0" trim --pid "$server" --timeout 20s && kill -0 "$server"' \
		"$FLMEM" "$BATS_TEST_TMPDIR/mount/file"
	[ "$status" != 77 ] || skip "$output"
	assert_status 0
	assert_output "borrowed thread [0-9]+ from read"
}
