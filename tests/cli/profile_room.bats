#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2016 # of a shell that enters the control group first
# shellcheck disable=SC2031,SC2153 # every test has its own status
# `flmem profile attach` beside a limit of the control group, beyond which the kernel kills.

load helpers
load profile_attach

make_memory_group() {
	requires root
	make_control_group memory
	for LIMIT in "$GROUP/memory.limit_in_bytes" "$GROUP/memory.max" ""; do
		[ ! -e "$LIMIT" ] || break
	done
	[ -n "$LIMIT" ] || skip "needs a controller of memory"
}

teardown() {
	rm -f "/dev/shm/flmem-test-$$"
	stop_attachable
	remove_control_group
}

# leave MIB: limits the group to its present memory, which includes a part of the program's files,
# and so much more.
leave() {
	local used
	used=$(cat "$GROUP"/memory.usage_in_bytes "$GROUP"/memory.current 2>/dev/null || true)
	echo $((used + ($1 << 20))) >"$LIMIT"
}

# inside COMMAND: runs it in the group.
inside() {
	run_command timeout 60 bash -c 'echo 0 >"$0/cgroup.procs"; exec "$@"' "$GROUP" "$FLMEM" "$@"
}

is_unlimited_again() {
	leave 400
	attach --interval 64KiB
	detach
	assert_sound
}

@test "a profile whose tables the control group of the process has no room for is refused" {
	make_memory_group
	start_attachable bash -c 'echo 0 >"$0/cgroup.procs"; exec "$@"' "$GROUP"
	leave 20
	flmem profile attach --pid "$VICTIM" -o "$PROFILE"
	assert_error 6 'the control group of process [0-9]+ leaves [0-9]+ MiB .*smaller --limit'
	[ ! -e "$PROFILE" ]
	flmem profile attach --pid "$VICTIM" -o "$PROFILE" --dry-run
	assert_error 6 'the control group'
	assert_sound
	[ "$(got redirected "$VICTIM" | cut -d ' ' -f 1)" = 0 ]
	leave 60
	attach --interval 64KiB --limit 4MiB
	detach
	assert_sound
	is_unlimited_again
}

@test "a profile in memory that the control group of flmem has no room for is refused" {
	make_memory_group
	start_attachable bash -c 'echo 0 >"$0/cgroup.procs"; exec "$@"' "$GROUP"
	leave 70
	# Each command would be killed with the program, or instead of it.
	inside profile run -o "/dev/shm/flmem-test-$$" -- true
	assert_error 6 'the control group of process [0-9]+ leaves .* a profile in memory may take 80 MiB'
	[ ! -e "/dev/shm/flmem-test-$$" ]
	# The children of a program would use it together.
	leave 200
	inside profile run --follow-children -o "/dev/shm/flmem-test-$$" --limit 1MiB -- true
	assert_error 6 'each child takes memory for its profile, too, .* choose a place on a disk'
	[ ! -e "/dev/shm/flmem-test-$$" ]
	leave 70
	inside profile attach --pid "$VICTIM" -o "/dev/shm/flmem-test-$$" --limit 60MiB --dry-run
	assert_error 6 'the control group'
	assert_sound
	is_unlimited_again
}
