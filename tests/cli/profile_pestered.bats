#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2016,SC2031,SC2153 # each test has its own shell; code for bash
# flmem profile run: programs that do what a sampler inside of malloc() could break.

load helpers

setup() {
	requires victim:pestered/pestered python3
	PROFILE=$BATS_TEST_TMPDIR/p.prof
	export SAMPLED_ONE=$FLMEM_VICTIMS/sampled/sampled_one.so
	export PESTERED_FILE=$PROFILE
}

# pester MODE [OPTIONS]: runs the victim; every byte is a sample point.
pester() {
	run_command "$FLMEM" profile run -o "$PROFILE" --interval 1 "${@:2}" -- \
		"$FLMEM_VICTIMS/pestered/pestered" "$1"
	assert_status 0
	[ "$output" = survived ]
}

samples() {
	PYTHONPATH=$FLMEM_TESTS/harness python -c '
import sys
from heap_profile import Profile
print(Profile(sys.argv[1]).samples)' "$PROFILE"
}

@test "malloc does not become a place where a thread is cancelled" {
	pester cancel
	pester cancel-first --force
}

# Its calls do not lead to a preloaded sampler: a block that it freed stayed live, one of its own was
# not seen.
@test "a library that is opened with RTLD_DEEPBIND, for which the linker searches the C library first" {
	run_command "$FLMEM" profile run -o "$PROFILE" --interval 1 -- python3 -S -c '
import ctypes, os, sys
kept = ctypes.CDLL(None).malloc
kept.restype = ctypes.c_void_p
block = kept(5 << 20)
library = ctypes.CDLL(sys.argv[1], mode=os.RTLD_DEEPBIND)
library.library_allocate.restype = ctypes.c_void_p
library.library_free(ctypes.c_void_p(block))
library.library_allocate(3 << 20)
os._exit(0)' "$SAMPLED_ONE"
	assert_status 0
	run_command "$FLMEM" profile export --format collapsed --by live "$PROFILE"
	assert_status 0
	grep -q '<string>:9) 3145728$' <<<"$output"
	run -1 grep ' 5242880$' <<<"$output"
}

# bats test_tags=unsanitised
@test "a frame pointer into memory that was unmapped unseen" {
	! sanitized || skip "the register of the frame pointer is AddressSanitizer's"
	pester stale
}

# bats test_tags=unsanitised
@test "a coroutine whose frame pointer leads to memory that another thread unmaps in a loop" {
	! sanitized || skip "the register of the frame pointer is AddressSanitizer's"
	pester unmapping
}

# bats test_tags=unsanitised
@test "the stack that malloc is called on is not aligned as the ABI asks for" {
	! sanitized || skip "the functions of AddressSanitizer need it"
	pester misaligned --follow-children --native
}

@test "a profile that is cut while the program runs does not kill it" {
	pester truncate
	[ "$(stat -c %s "$PROFILE")" = 0 ]
}

@test "a profile whose tables are overwritten: the program lives on" {
	pester scrambled --limit 1MiB
}

@test "a profile that another file is written over is not changed any more" {
	pester replaced --limit 1MiB
}

@test "a child that may not write large files lives on without a profile" {
	pester file-limit --follow-children
	[ "$(find "$BATS_TEST_TMPDIR" -name 'p.prof*' | wc -l)" -eq 1 ]
}

@test "a child samples first in a thread with the smallest stack" {
	pester small-stack --follow-children
	[ "$(find "$BATS_TEST_TMPDIR" -name 'p.prof*' | wc -l)" -eq 2 ]
}

@test "an interpreter whose structures lead anywhere: what is not there is left out, and nothing is guessed" {
	requires victim:pestered/interpreter
	local native
	for native in "" --native; do
		run_command "$FLMEM" profile run --force -o "$PROFILE" --interval 1 $native -- \
			"$FLMEM_VICTIMS/pestered/interpreter"
		assert_status 0
		[ "$output" = survived ]
		PYTHONPATH=$FLMEM_TESTS/harness python -c '
import sys
from heap_profile import Profile
p = Profile(sys.argv[1])
p.check()
names = sorted(place[0] for place in p.python_sites() if place)
assert names == sorted(["odd size", "elsewhere", "running", "above a gap", "above the stack", "first",
                        "second", "first thread", *("name %d" % i for i in range(1, 7))]), names' "$PROFILE"
	done
}

@test "sizes that are refused do not end sampling" {
	pester refused
	[ "$(samples)" -ge 1000 ]
}

@test "a file larger than the process may write is refused" {
	run_command bash -c 'ulimit -f 1024 && exec "$FLMEM" profile run -o "$1" -- true' - "$PROFILE"
	assert_error 7 'cannot allocate 64 MiB .*files of this process may have 1 MiB \(ulimit -f\)'
	[ ! -e "$PROFILE" ]
}

@test "an allocator behind the sampler that asks the linker in free() finds no error of the sampler there" {
	requires victim:sampled/asking.so
	flmem profile run --limit 1MiB -o "$PROFILE" -- sh -c 'exec env LD_PRELOAD="$LD_PRELOAD $1" true' - \
		"$FLMEM_VICTIMS/sampled/asking.so"
	assert_status 0
}

# bats test_tags=unsanitised
@test "a program with an allocator of its own: reallocarray() and free_sized() get its blocks only" {
	! sanitized || skip "AddressSanitizer has these functions itself"
	requires victim:pestered/own_allocator
	run_command "$FLMEM" profile run --limit 1MiB -o "$PROFILE" -- "$FLMEM_VICTIMS/pestered/own_allocator"
	assert_status 0
	[ "$output" = survived ]
}
