#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# What the thread for the code of flmem trim --gc has, whichever thread starts it: a stack as large as that of the first one; and
# where none is started.
# shellcheck disable=SC2030,SC2031 # bats' run sets status here

load helpers
load python

# start_deep LIMIT ARGS...: starts the victim with this limit of the stack.
start_deep() {
	local limit=$1
	shift
	# shellcheck disable=SC2016 # for the inner shell
	start_victim /bin/sh -c 'ulimit -S -s "$1" && shift && exec "$@"' sh "$limit" "$PYTHON" \
		"$FLMEM_TESTS/victims/safe_deep.py" "$@"
}

# The victim has run its finaliser once itself.
collect_deep_beside() {
	start_deep "$@"
	flmem trim --pid "$VICTIM" --gc --json --timeout 20s
	assert_status 0
	[[ "$(json 'r["steps"][0]["detail"]')" == *" objects" ]]
	[ "$(cat "$VICTIM_LOG")" = $'finalised\nready\nfinalised' ] || fail "$(cat "$VICTIM_LOG")"
	assert_victim_unharmed
}

# glibc gives a thread the first thread's size at the start; here the first thread has more by now.
collect_deep_in_a_raised_stack() {
	collect_deep_beside 400 raise
}

@test "finalisers have the stack of the first thread where its limit was raised" {
	each_python collect_deep_in_a_raised_stack
}

# glibc then gives a thread 2 MiB.
collect_deep_without_a_limit() {
	collect_deep_beside unlimited
}

@test "finalisers have the usual stack where the first thread has no limit" {
	[ "$(ulimit -Hs)" = unlimited ] || skip "the stack has a hard limit (ulimit -Hs)"
	each_python collect_deep_without_a_limit
}

refuses_its_stack() {
	[ "$(json 'r["steps"][0]["outcome"]')" = refused ] &&
		[[ "$(json 'r["steps"][0]["detail"]')" == *"has too little space left on its stack"* ]]
}

@test "threads whose stacks are too small are started three times, and not for the whole timeout" {
	requires victim:interpreter/large_tls.so
	# shellcheck disable=SC2016 # for the inner shell
	start_victim /bin/sh -c 'ulimit -s 8192 && LD_PRELOAD=$1 exec /usr/bin/python3 -uc "$2"' sh \
		"$FLMEM_VICTIMS/interpreter/large_tls.so" '
import time
print("ready", flush=True)
time.sleep(1000)'
	trim_until refuses_its_stack --gc
	[ "$(status_field "$VICTIM" Threads)" -le 4 ] || fail "$(grep Threads "/proc/$VICTIM/status")"
	wait_until 60 has_threads "$VICTIM" 1
	assert_victim_unharmed
	assert_silent
}

@test "a first thread that may have a stack for which there is no memory: that is the reason" {
	[ "$(ulimit -Hs)" = unlimited ] || skip "the stack has a hard limit (ulimit -Hs)"
	start_victim /usr/bin/python3 -uc '
import resource, time
resource.setrlimit(resource.RLIMIT_STACK, (1 << 62, resource.RLIM_INFINITY))
print("ready", flush=True)
time.sleep(1000)'
	flmem_in_time trim --pid "$VICTIM" --gc --timeout 1s --json
	[ "$(json 'r["steps"][0]["outcome"]')" = refused ]
	[[ "$(json 'r["steps"][0]["detail"]')" == *"a stack of 4398046511104 MiB, which its first one may have (ulimit -s)"* ]] || fail "$output"
	assert_victim_unharmed
}

# Python reads the clock to wait for its lock, in user space: that is SIGSEGV if the new thread
# inherits the restriction from the thread that pauses.
collect_beside_a_forbidden_clock() {
	start_victim "$PYTHON" -uc '
import ctypes, gc, sys, threading
gc.disable()
class Cycle:
    pass
garbage = Cycle()
garbage.itself = garbage
del garbage
pause = ctypes.CDLL(sys.argv[1]).pause_clockless
threading.Thread(target=pause, daemon=True).start()
while True: # the lock is given up on request only
    pass' "$FLMEM_VICTIMS/interpreter/clockless.so"
	flmem trim --pid "$VICTIM" --gc --json --timeout 20s
	assert_status 0
	[[ "$(json 'r["steps"][0]["detail"]')" == *" objects" ]]
	assert_victim_unharmed
}

@test "the code may read the clock where the thread that starts its thread may not" {
	requires victim:interpreter/clockless.so
	each_python collect_beside_a_forbidden_clock
}

# fork() of glibc in a program without threads takes no locks of the heap, although a thread is
# started while its handlers run: the child would then have the locks of the collection.
collect_beside_a_lonely_fork() {
	INPUT=$BATS_TEST_TMPDIR/input
	[ -e "$INPUT" ] || mkfifo "$INPUT"
	start_victim "$PYTHON" -uc '
import ctypes, os, sys
if len(sys.argv) > 3: # io_uring_setup(): a thread of the kernel submits (IORING_SETUP_SQPOLL)
    params = ctypes.create_string_buffer(120)
    params[8] = 2
    if ctypes.CDLL(None).syscall(425, 8, params) < 0:
        sys.exit("no io_uring here")
descriptor = os.open(sys.argv[2], os.O_RDWR)
print("child", ctypes.CDLL(sys.argv[1]).fork_after(descriptor), flush=True)
os.read(descriptor, 1)' "$FLMEM_VICTIMS/interpreter/forking_alone.so" "$INPUT" "$@"
	flmem trim --pid "$VICTIM" --gc --timeout 1s --json
	[ "$(json 'r["steps"][0]["outcome"]')" = refused ] || fail "$output"
	[[ "$(json 'r["steps"][0]["detail"]')" == *"is inside fork(), or "* ]] || fail "$output"
	printf . >"$INPUT"
	wait_until 120 grep -q child "$VICTIM_LOG"
	[ "$(cat "$VICTIM_LOG")" = $'ready\nchild 0' ] || fail "$(cat "$VICTIM_LOG")"
	flmem trim --pid "$VICTIM" --gc --json
	[[ "$(json 'r["steps"][0]["detail"]')" == *" objects" ]]
	allow_victim --moved
	assert_victim_unharmed
}

@test "no thread is started while a program without threads runs handlers of fork()" {
	requires victim:interpreter/forking_alone.so
	each_python collect_beside_a_lonely_fork
}

@test "nor where the kernel has one in it" {
	requires victim:interpreter/forking_alone.so /usr/bin/python3
	/usr/bin/python3 -c 'import ctypes, sys
params = ctypes.create_string_buffer(120)
params[8] = 2
sys.exit(ctypes.CDLL(None).syscall(425, 8, params) < 0)' || skip "needs io_uring"
	PYTHON=/usr/bin/python3
	collect_beside_a_lonely_fork io_uring
}
