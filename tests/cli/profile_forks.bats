#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# flmem profile attach and detach beside threads that fork.

load helpers
load profile_attach

# Attaches; a process that forks all the time may be refused.
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
	order call "$SLOW" count_failed
	[ "$ANSWER" = 0 ] || fail "children that hung: $ANSWER"
	assert_sound
}

@test "children that are forked in the middle of any walk over the linker's list may use it" {
	forks_beside
	cycle
	assert_no_child_hangs
}

# The linker takes 0.1 s in the middle of loading the sampler, and four threads fork all the time.
loads_beside() {
	LOADS=$FLMEM_VICTIMS/sampled/slow_loads.so
	start_attachable env LD_AUDIT="$LOADS" "$@"
	order call "$LOADS" fork_often
}

assert_no_child_broke() {
	order call "$LOADS" count_failed
	[ "$ANSWER" = 0 ] || fail "children that could not use the linker: $ANSWER"
	assert_sound
}

# Checks for pages of code that are in no file, except the kernel's.
assert_one_gate() {
	local count
	count=$(grep -c 'r-xp 00000000 00:00 0 *$' "/proc/$VICTIM/maps")
	[ "$count" = 1 ] || fail "gates: $count"
}

cycle_again() {
	wait_until 60 detaches
	cycle
	assert_no_child_broke
	assert_one_gate
}

@test "children that are forked while the linker loads the sampler may use it" {
	local round
	for round in 1 2 3; do
		loads_beside
		wait_until 60 attaches
		assert_no_child_broke
		assert_one_gate
	done
}

@test "the gate for forks of an attempt that failed serves the next one" {
	loads_beside SLOW_LOADS_REFUSED=1
	flmem profile attach --pid "$VICTIM" -o "$PROFILE" --force --timeout 20s
	assert_status 7
	assert_stderr "did not load the sampler"
	wait_until 60 attaches
	assert_no_child_broke
	assert_one_gate
	cycle_again
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
