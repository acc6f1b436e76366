#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# assert_victim_unharmed itself: each harm that it is there for, done on purpose.

# shellcheck disable=SC2153 # start_victim sets VICTIM
load helpers

# Starts a process of two threads, the second of which acts on SIGUSR1.
start_harmed() {
	start_victim /usr/bin/python3 -uc '
import ctypes, mmap, os, signal, sys, threading, time
kept, signalled = [], threading.Event()
def sleep_elsewhere():
    ctypes.CDLL(None).pause()
def block():
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR2})
ways = {
    "thread": lambda: threading.Thread(target=time.sleep, args=(1000,), daemon=True).start(),
    "map": lambda: kept.append([mmap.mmap(-1, 4096, 0x22, 1 + 2 * (i % 2)) for i in range(4)]),
    "map-many": lambda: kept.append([mmap.mmap(-1, 4096, 0x22, 1 + 2 * (i % 2)) for i in range(40)]),
    "open": lambda: kept.append(os.open("/dev/null", os.O_RDONLY)),
    "block": block,
    "elsewhere": sleep_elsewhere,
    "nothing": lambda: None,
}
def work():
    while not signalled.is_set():
        time.sleep(0.02)
    print("signalled", threading.get_native_id(), flush=True)
    ways[sys.argv[1]]()
    while True:
        time.sleep(0.02)
signal.signal(signal.SIGUSR1, lambda *unused: signalled.set())
threading.Thread(target=work, daemon=True).start()
print("ready", flush=True)
while True:
    time.sleep(0.05)' "$1"
}

be_signalled() {
	kill -USR1 "$VICTIM"
	wait_until 60 grep -q '^signalled' "$VICTIM_LOG"
}

# refute_unharmed REGEX: checks that the script reports harm, and which.
refute_unharmed() {
	UNHARMED_SETTLE_S=1 run assert_victim_unharmed
	[ "$status" -ne 0 ] || fail "nothing was noticed"
	[[ $output =~ $1 ]] || fail "it said: $output"
}

@test "a victim to which nothing is done is unharmed" {
	start_harmed nothing
	be_signalled
	assert_victim_unharmed
}

@test "a thread more, a mapping more, a descriptor more" {
	start_harmed thread
	be_signalled
	refute_unharmed '2 threads became 3'
	start_harmed map
	be_signalled
	refute_unharmed 'mappings became'
	start_harmed open
	be_signalled
	refute_unharmed 'descriptors became'
}

@test "mappings that Python code may leave behind, and more than these" {
	allow_victim --code
	start_harmed map
	be_signalled
	assert_victim_unharmed
	start_harmed map-many
	be_signalled
	refute_unharmed 'mappings became'
}

@test "a blocked signal of a thread that is not the first" {
	start_harmed block
	be_signalled
	refute_unharmed 'had [0-9a-f]+ blocked, now [0-9a-f]+'
}

@test "a thread that does not come back from where it was sent" {
	start_harmed elsewhere
	be_signalled
	refute_unharmed 'neither moves on nor waits where it did'
}

@test "a thread that is not the first, held by a tracer" {
	local tracer
	start_harmed nothing
	be_signalled
	run_tracer "$(awk '/^signalled/ { print $2 }' "$VICTIM_LOG")"
	tracer=$VICTIM_TRACER
	refute_unharmed "traced by $tracer"
	refute_unharmed 'is stopped: t'
	kill -KILL "$tracer"
	wait "$tracer" || [ $? = 137 ]
}

@test "a stopped victim, a dead one, one without a snapshot" {
	start_harmed nothing
	kill -STOP "$VICTIM"
	wait_until 60 grep -q '^State:.T' "/proc/$VICTIM/status"
	refute_unharmed 'is stopped: T'
	kill -CONT "$VICTIM"
	assert_victim_unharmed
	rm "$BATS_TEST_TMPDIR/snapshot.$VICTIM"
	refute_unharmed 'there is no snapshot'
	stop_victims
	refute_unharmed 'the victim died'
}

# Stops one thread as a debugger does, until the tracer itself is killed.
run_tracer() {
	/usr/bin/python3 -uc '
import ctypes, os, sys, time
libc = ctypes.CDLL(None, use_errno=True)
for request in (0x4206, 0x4207): # PTRACE_SEIZE, PTRACE_INTERRUPT
    if libc.ptrace(request, int(sys.argv[1]), None, None) != 0:
        sys.exit("SKIP: no thread may be traced here: " + os.strerror(ctypes.get_errno()))
os.waitpid(int(sys.argv[1]), 0x40000000)
print("holds it", flush=True)
time.sleep(1000)' "$1" >"$BATS_TEST_TMPDIR/tracer" 2>&1 3>&- &
	VICTIM_TRACER=$!
	VICTIMS+=("$VICTIM_TRACER")
	wait_until 60 grep -q . "$BATS_TEST_TMPDIR/tracer"
	grep -q holds "$BATS_TEST_TMPDIR/tracer" || skip "$(cat "$BATS_TEST_TMPDIR/tracer")"
}
