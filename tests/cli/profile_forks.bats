#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# flmem profile attach and detach beside threads that fork.

load helpers
load profile_attach

# A process that forks all the time may be refused.
attaches() {
	"$FLMEM" profile attach --pid "$VICTIM" -o "$PROFILE" --force --timeout 20s
}

detaches() {
	"$FLMEM" profile detach --pid "$VICTIM" --timeout 20s
}

cycle() {
	wait_until 60 attaches
	wait_until 60 detaches
}

# Each walk takes 10 ms, and four threads fork all the time.
forks_beside() {
	SLOW=$FLMEM_VICTIMS/sampled/slow_walks.so
	start_attachable env LD_PRELOAD="$SLOW"
	order call "$SLOW" fork_often
}

assert_no_child_hangs() {
	order call "$SLOW" count_hung
	[ "$ANSWER" = 0 ] || fail "children that hung: $ANSWER"
	assert_sound
}

@test "children that are forked in the middle of any walk over the linker's list may use it" {
	forks_beside
	cycle
	assert_no_child_hangs
}

@test "children that are forked while it is attached to may use the dynamic linker" {
	local round
	start_attachable
	order forks
	for round in 1 2 3 4 5 6; do
		cycle
	done
	assert_sound
}
