#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2030,SC2031,SC2153 # every test has its own status
# A process in a time namespace, such as one that CRIU has restored, has another start time for
# itself than for flmem.

load helpers
load profile_attach

@test "a process in a time namespace is sampled, alive, and detached with its profile" {
	local parent
	unshare --time --boottime 1000000 --fork true 2>/dev/null || skip "needs root and time namespaces"
	start_attachable unshare --time --boottime 1000000 --monotonic 500000 --fork --kill-child
	parent=$VICTIM
	VICTIM=$(pgrep -P "$parent")
	[ "$(stat -Lc %i "/proc/$VICTIM/ns/time")" != "$(stat -Lc %i /proc/self/ns/time)" ]
	attach --interval 64KiB
	flmem profile stats "$PROFILE"
	assert_output ': running'
	flmem profile round "$PROFILE" 1
	assert_status 0
	[ -z "$stderr" ]
	detach
	assert_output 'is complete'
	VICTIM=$parent
	assert_sound
}

# Each running process is checked whether the process of a profile is in another PID namespace.
@test "stats of a killed program opens the processes that began in the same tick, and no others" {
	requires strace
	local opened
	start_attachable
	attach --interval 64KiB
	kill -KILL "$VICTIM"
	wait "$VICTIM" || true
	for _ in {1..40}; do
		sleep 1000 3>&- &
		VICTIMS+=("$!")
	done
	run_command strace -f -q -o "$BATS_TEST_TMPDIR/trace" -e trace=pidfd_open "$FLMEM" profile stats "$PROFILE"
	assert_output 'killed'
	opened=$(grep -c pidfd_open "$BATS_TEST_TMPDIR/trace" || true)
	[ "$opened" -lt 20 ] || fail "$opened processes were opened"
}
