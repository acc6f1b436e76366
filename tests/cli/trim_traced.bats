#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# flmem trim of the process that traces it: flmem waits for that process at each system call, and would stop it.

load helpers

setup() {
	# LeakSanitizer does not work in a traced process.
	export ASAN_OPTIONS=${ASAN_OPTIONS:-}:detect_leaks=0
}

# trace_with COUNT OPTIONS...: starts so many tracers, each of the next one, the last of flmem,
# which trims the first.
trace_with() {
	local count=$1 command=()
	shift
	while ((count-- > 0)); do
		command+=("$FLMEM_VICTIMS/safe_tracer")
	done
	# shellcheck disable=SC2016 # for the inner shell
	run_command timeout -s KILL 30 sh -c 'export FIRST=$$; exec "$@"' sh "${command[@]}" \
		sh -c 'exec "$0" trim --pid "$FIRST" "$@"' "$FLMEM" --timeout 500ms "$@"
}

@test "the process that traces flmem is refused, not stopped for good" {
	requires victim:safe_tracer
	trace_with 1
	assert_error 6 "process [0-9]+ traces this flmem"
	trace_with 1 --dry-run
	assert_error 6 "process [0-9]+ traces this flmem"
}

@test "so is one that traces the tracer" {
	requires victim:safe_tracer
	trace_with 2
	assert_error 6 "process [0-9]+ traces this flmem"
}

@test "a traced flmem trims another process" {
	requires victim:safe_tracer victim:safe_blocked
	start_victim safe_blocked read-pipe
	run_command timeout -s KILL 60 "$FLMEM_VICTIMS/safe_tracer" "$FLMEM" trim --pid "$VICTIM"
	assert_status 0
	assert_victim_unharmed
}

# It waits for flmem, and flmem for it, at the first such call in which flmem holds its thread.
@test "the process that decides about system calls of flmem is refused, another one is trimmed" {
	requires victim:safe_supervisor victim:safe_blocked
	# shellcheck disable=SC2016 # for that shell
	run_command timeout -s KILL 60 "$FLMEM_VICTIMS/safe_supervisor" /bin/sh -c \
		'exec "$0" trim --pid "$PPID" --timeout 20s' "$FLMEM"
	[ "$status" != 77 ] || skip "seccomp filters cannot be supervised here"
	assert_error 6 "decides about system calls of other processes"
	start_victim safe_blocked read-pipe
	run_command timeout -s KILL 60 "$FLMEM_VICTIMS/safe_supervisor" "$FLMEM" trim --pid "$VICTIM"
	assert_status 0
	assert_victim_unharmed
	# A flmem that it does not decide about.
	start_victim safe_supervisor "$FLMEM_VICTIMS/safe_blocked" read-pipe
	flmem trim --pid "$VICTIM"
	assert_status 0
	assert_victim_unharmed
}
