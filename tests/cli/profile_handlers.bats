#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2016,SC2153 # code for other programs; FLMEM and its like are in the environment
# The sampler in signal handlers, on their small stacks, and where the process has little memory.

load helpers
load profile

setup() {
	requires victim:sampled/sampled python3
	PROFILE=$BATS_TEST_TMPDIR/p.prof
	SAMPLED=$FLMEM_VICTIMS/sampled/sampled
}

# on_stack CODE OPTIONS: runs it in Python with the victim's functions as `held`, which keep the
# lock of the interpreter, and as `free`.
on_stack() {
	SMALL_STACK=$FLMEM_VICTIMS/sampled/small_stack.so "$FLMEM" profile run --force -o "$PROFILE" \
		--interval 1 --limit 4M "${@:2}" -- /usr/bin/python3 -c "
import ctypes, os
held, free = ctypes.PyDLL(os.environ['SMALL_STACK']), ctypes.CDLL(os.environ['SMALL_STACK'])
$1" 3>&-
}

@test "a sample takes less than 2 KiB of the stack of malloc(), also the first one of a child" {
	local options
	for options in '' --native; do
		# shellcheck disable=SC2086 # of one word or of none
		on_stack '
for place in held, free:
    for _ in range(3):
        taken = place.measure()
        assert 600 < taken < 2048, taken
    taken = place.run_in_child(0, 0)
    assert 600 < taken < 2048, ("child", taken)' --follow-children $options
	done
}

@test "a child whose first sample is in a handler with a stack of 8 KiB has a profile" {
	on_stack 'assert held.run_in_child(8192, 0) == 0' --follow-children
	[ "$(find "$BATS_TEST_TMPDIR" -name 'p.prof.*' | wc -l)" = 1 ]
	look 'assert p.phase == 1 and [l.size for l in p.live.values()].count(100) == 1
assert not any(p.dropped.values()), p.dropped' "$PROFILE".*
}

@test "a handler with little of its stack left: the sample is not taken, and counted" {
	on_stack 'assert held.allocate_on(0, 1200) == 0
assert held.run_in_child(0, 1200) == 0' --follow-children
	look 'p.check()
assert p.dropped["small_stack"] == 1 and p.lost_bytes >= 100, (p.dropped, p.lost_bytes)'
	# The child had nothing else to sample.
	[ "$(find "$BATS_TEST_TMPDIR" -name 'p.prof.*' | wc -l)" = 0 ]
	look 'assert not p.dropped["children"], p.dropped'
}

@test "one on an array of the stack of its thread: nothing below the array is overwritten" {
	on_stack 'assert held.allocate_inside(700) == 0
assert free.allocate_inside(700) == 0'
	look 'p.check()
assert p.dropped["small_stack"] == 2, p.dropped'
}

@test "a handler that interrupts a sample and forks: parent and child go on, each with its own profile" {
	"$FLMEM" profile run -o "$PROFILE" --interval 1 --limit 4M --follow-children -- \
		"$FLMEM_VICTIMS/sampled/forked_inside" gettid
	local own children=0
	for own in "$PROFILE" "$PROFILE".*; do
		look 'p.check()
assert p.phase == 2 and not any(p.dropped.values()), (p.phase, p.dropped)
sizes = [l.size for l in p.live.values()]
child = len(sys.argv) > 2 and sys.argv[1] != sys.argv[2]
assert [sizes.count(s) for s in (4000, 5000, 6000)] == ([0, 3, 3] if child else [1, 0, 0]), sizes
assert child or p.samples == len(sizes) == 2, sizes' "$own" "$PROFILE"
		children=$((children + 1))
	done
	((children > 1))
}

@test "a child that is forked in the middle of a sample does not change the profile of its parent" {
	local options
	for options in '' --follow-children; do
		# shellcheck disable=SC2086
		"$FLMEM" profile run --force -o "$PROFILE" --interval 1 --limit 4M $options -- \
			"$FLMEM_VICTIMS/sampled/forked_inside" openat
		# One moment at the beginning, eight that the victim has waited for, and that of the
		# end.
		look 'p.check()
assert len(p.timeline) == 10, len(p.timeline)
assert p.update_begin == p.update_end == p.samples, (p.update_begin, p.update_end, p.samples)'
	done
}

@test "a signal to a thread that creates its file waits until that is done" {
	"$FLMEM" profile run -o "$PROFILE" --interval 1TiB --limit 1M --follow-children -- \
		"$FLMEM_VICTIMS/sampled/turn_signals"
	[ "$(find "$BATS_TEST_TMPDIR" -name 'p.prof.*' | wc -l)" = 1 ]
}

@test "a program that is detached while it ends: its end finds the profile still there" {
	"$FLMEM" profile run -o "$PROFILE" --interval 1 --limit 4M -- "$FLMEM_VICTIMS/sampled/ending"
	look 'assert p.phase == 2, p.phase'
}

@test "code behind a file with a long path in the list of mappings has its module" {
	cd "$BATS_TEST_TMPDIR"
	"$FLMEM" profile run -o "$PROFILE" --interval 1 --limit 4M -- \
		"$FLMEM_VICTIMS/sampled/long_path" "$FLMEM_VICTIMS/sampled/sampled_one.so"
	look 'stacks = [p.stack(s.node) for s in p.sites.values() if s.allocated_bytes == 4000]
assert len(stacks) == 1 and stacks[0][0][1].endswith("/sampled_one.so"), stacks'
	[ "$(ls)" = p.prof ]
}

@test "what the C library unloads by itself, and a moment without descriptors, leave no wrong file" {
	"$FLMEM" profile run -o "$PROFILE" --interval 1 --limit 4M -- \
		"$FLMEM_VICTIMS/sampled/unseen" "$FLMEM_VICTIMS/sampled/sampled_one.so" \
		"$FLMEM_VICTIMS/sampled/sampled_shifted.so" 3>&-
	look 'found = {s.allocated_bytes: (p.stack(s.node)[0][1] or "-").rsplit("/", 1)[-1] for s in p.sites.values()
         if s.allocated_bytes in (3000, 4000, 5000)}
assert found == {3000: "unseen", 4000: "sampled_one.so", 5000: "sampled_shifted.so"}, found
assert sum(s.allocated_bytes == 3000 for s in p.sites.values()) == 2'
}

# The limit is the memory that the victim needs without its profile.
@test "a program without memory for its profile: that is the reason why nothing was sampled" {
	"$FLMEM" profile run -o "$PROFILE" -- /bin/bash -c \
		'ulimit -v 60000; exec "$0" functions 1 >/dev/null' "$SAMPLED" 3>&-
	flmem profile stats "$PROFILE"
	assert_error 2 'nothing was sampled .*could not map its profile: .*ulimit -v.*--limit'
	"$FLMEM" profile run --force -o "$PROFILE" --follow-children -- /bin/bash -c \
		'ulimit -v 60000; "$0" functions 1 >/dev/null; exit 5' "$SAMPLED" 3>&- || [ $? = 5 ]
	flmem profile stats "$PROFILE"
	assert_stderr '1 child process could not be recorded.*: Cannot allocate memory'
	flmem profile stats "$PROFILE".*
	assert_error 2 'nothing was sampled .*could not map its profile'
}

@test "one that may not write files either is not killed for the reason" {
	local blocks
	for blocks in 0 1; do
		"$FLMEM" profile run --force -o "$PROFILE" -- /bin/bash -c \
			'ulimit -v 60000 -f "$1"; exec "$0" functions 1 >/dev/null' "$SAMPLED" "$blocks" 3>&-
		flmem profile stats "$PROFILE"
		assert_error 2 'nothing was sampled .*could not map its profile: .*ulimit -v'
	done
}

@test "a program that does not load the sampler is not said to have not started" {
	[ -x /sbin/ldconfig ] && ! readelf -l /sbin/ldconfig | grep -q INTERP || skip "no static program"
	"$FLMEM" profile run -o "$PROFILE" -- /sbin/ldconfig -p >/dev/null
	flmem profile stats "$PROFILE"
	assert_error 2 'has not started, or did not load the sampler \(linked statically'
}
