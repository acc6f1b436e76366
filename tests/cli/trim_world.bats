#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# flmem trim beside a runtime that stops its threads by signals and waits for their answers.

load helpers

# Prints its rounds, from struct victim_status of tests/victims/safe_common.h.
rounds() {
	od -An -t u8 -N 8 "$BATS_TEST_TMPDIR/status" | tr -d ' '
}

goes_on_from() {
	[ "$(rounds)" -gt "$1" ]
}

@test "a thread that has to answer a signal, or lets the others go on, is not kept in a call" {
	local number before made=0
	requires victim:safe_world
	truncate -s 4096 "$BATS_TEST_TMPDIR/status"
	export VICTIM_STATUS=$BATS_TEST_TMPDIR/status
	start_victim safe_world
	for ((number = 0; number < 24; number++)); do
		before=$(rounds)
		flmem trim --pid "$VICTIM" --no-predict --timeout 2s
		[[ $status == [06] ]] || fail "exit status $status"
		[ "$status" != 0 ] || made=$((made + 1))
		wait_until 60 goes_on_from "$before"
	done
	[ "$(status_field "$VICTIM" TracerPid)" = 0 ]
	alive "$VICTIM"
	# Whether the threads are ever outside of their handlers at the right time depends on the machine.
	[ "$made" -gt 0 ] || skip "all trims were refused: the threads were in their handlers"
}

says_go_on() {
	grep -q '^go on' "$VICTIM_LOG"
}

@test "the thread that lets another one go on, which has a lock of jemalloc, is not kept waiting for it" {
	local jemalloc=/usr/lib/x86_64-linux-gnu/libjemalloc.so.2
	requires "$jemalloc" victim:safe_world_locked
	mkfifo "$BATS_TEST_TMPDIR/commands"
	LD_PRELOAD=$jemalloc start_victim safe_world_locked "$BATS_TEST_TMPDIR/commands"
	flmem trim --pid "$VICTIM" --timeout 300ms
	assert_error 6 "thread [0-9]+ is inside a signal handler"
	flmem trim --pid "$VICTIM" --dry-run
	assert_error 6 "thread [0-9]+ is inside a signal handler"
	[ "$(status_field "$VICTIM" TracerPid)" = 0 ]
	printf x >"$BATS_TEST_TMPDIR/commands"
	wait_until 20 says_go_on
}

@test "a thread that waits inside jemalloc for a thread to end is not borrowed" {
	local jemalloc=/usr/lib/x86_64-linux-gnu/libjemalloc.so.2 number made=0
	requires "$jemalloc" victim:allocators/toggling
	truncate -s 4096 "$BATS_TEST_TMPDIR/status"
	LD_PRELOAD=$jemalloc start_victim "$FLMEM_VICTIMS/allocators/toggling" "$BATS_TEST_TMPDIR/status"
	for ((number = 0; number < 40; number++)); do
		flmem trim --pid "$VICTIM" --no-predict --timeout 2s
		[[ $status == [067] ]] || fail "exit status $status"
		[ "$status" != 0 ] || made=$((made + 1))
		wait_until 20 goes_on_from "$(rounds)"
	done
	[ "$made" -gt 0 ] || fail "no trim was made"
}

@test "a process that its control group has frozen is left alone" {
	local root=$BATS_TEST_TMPDIR/groups group=$BATS_TEST_TMPDIR/groups/flmem-frozen-$$
	requires root victim:safe_threads
	mkdir "$root"
	mount -t cgroup2 none "$root" 2>/dev/null || skip "no control groups of version 2 can be mounted"
	start_victim safe_threads -c 0 -i 2
	if ! { mkdir "$group" && echo "$VICTIM" >"$group/cgroup.procs" && echo 1 >"$group/cgroup.freeze"; } 2>/dev/null; then
		rmdir "$group" 2>/dev/null
		umount "$root"
		skip "no group of version 2 can be frozen"
	fi
	wait_until 20 grep -q 'frozen 1' "$group/cgroup.events"
	flmem trim --pid "$VICTIM" --timeout 1s
	echo 0 >"$group/cgroup.freeze"
	echo "$VICTIM" >"$root/cgroup.procs"
	rmdir "$group"
	umount "$root"
	assert_error 6 'is frozen by its control group'
	assert_victim_unharmed
}
