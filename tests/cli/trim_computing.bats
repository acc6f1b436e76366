#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# flmem trim --gc and --python in a Python whose threads compute: exceptions of the program's
# signal handlers stay the program's, and a full address space kills nobody.
# shellcheck disable=SC2030,SC2031 # bats' run sets status here

load helpers
load python

# Waits until the thread is outside of the handler: on a busy machine it may be inside when the test
# checks first.
looks_outside_the_handler() {
	snapshot_victim
	! grep -q '"blocked": "0*2000"' "$BATS_TEST_TMPDIR/snapshot.$VICTIM"
}

# Starts a victim in which each tick is one exception that a signal handler raises and the program
# catches. A missing tick was swallowed; any other exception was left behind by other code.
start_ticking() {
	start_victim "$PYTHON" -uc '
import signal, time
class Tick(Exception):
    pass
def tick(number, frame):
    raise Tick
signal.signal(signal.SIGALRM, tick)
def wait_for_tick():
    signal.setitimer(signal.ITIMER_REAL, 0.001)
    late = time.monotonic() + 20
    while time.monotonic() < late:
        assert sum(i * i for i in range(1000)) == 332833500
print("ready", flush=True)
while True:
    try:
        wait_for_tick()
        print("swallowed", flush=True)
    except Tick:
        pass
    except BaseException as stray:
        print("stray", repr(stray), flush=True)
        raise'
	wait_until 60 looks_outside_the_handler
}

collected_in_a_new_thread() {
	[ "$(json 'r["steps"][0]["entry_point"]')" = "new thread" ] || fail "$output"
	[[ "$(json 'r["steps"][0]["detail"]')" == *" objects" ]]
}

collect_beside_a_raising_handler() {
	start_ticking
	for _ in 1 2; do
		trim_until collected_in_a_new_thread --gc
	done
	assert_victim_unharmed
	assert_silent
}

@test "an exception of a signal handler reaches the program, and no other does" {
	each_python collect_beside_a_raising_handler
}

# The lender is stopped while the others are read: one stopped thread of the process must not be a
# reason to refuse then.
collect_where_all_compute() {
	start_victim "$PYTHON" -uc '
import hashlib, threading
def derive():
    hashlib.pbkdf2_hmac("sha256", b"no", b"lock", 1 << 30)
threading.Thread(target=derive, daemon=True).start()
print("ready", flush=True)
while True:
    assert sum(range(1000)) == 499500'
	trim_until collected_in_a_new_thread --gc
	assert_victim_unharmed
}

@test "where several threads compute, one of them starts the thread for the code" {
	each_python collect_where_all_compute
}

# Checks that sys.exit() in a handler for SIGTERM runs the finally blocks, whenever the signal
# comes. The loop is in a function: CPython 3.14 leaves the jump of a loop within `try` out of the
# range of `finally`, so that a program without a function sometimes misses it, also when nobody
# trims it.
terminate_during_a_trim() {
	local delay ended
	for delay in 0.01 0.02 0.03 0.04 0.05; do
		start_victim "$PYTHON" -uc '
import signal, sys
signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(7))
def compute():
    print("ready", flush=True)
    while True:
        assert sum(i * i for i in range(1000)) == 332833500
try:
    compute()
finally:
    print("cleaned", flush=True)'
		"$FLMEM" trim --pid "$VICTIM" --gc --timeout 2s >/dev/null 2>&1 &
		sleep "$delay"
		kill -TERM "$VICTIM"
		ended=0
		wait "$VICTIM" || ended=$?
		[ "$ended" -eq 7 ] || fail "it ended with $ended: $(cat "$VICTIM_LOG")"
		[ "$(cat "$VICTIM_LOG")" = $'ready\ncleaned' ] || fail "$(cat "$VICTIM_LOG")"
		wait
	done
}

@test "a program that ends by a signal during a trim cleans up" {
	each_python terminate_during_a_trim
}

succeeds() {
	[ "$status" = 0 ]
}

# With the lock of the interpreter the call would not end, and the program would not continue.
go_on_during_a_trim() {
	start_victim "$PYTHON" -uc '
import ctypes, sys
ctypes.pythonapi = ctypes.PyDLL(sys.argv[1])
rounds = ctypes.c_uint64.in_dll(ctypes.pythonapi, "rounds")
print("ready", flush=True)
while True:
    assert sum(i * i for i in range(1000)) == 332833500
    rounds.value += 1' "$FLMEM_VICTIMS/interpreter/awaiting_trim.so"
	trim_until succeeds --gc
	[ "$(json 'r["steps"][1]["name"]')" = malloc_trim ]
	assert_victim_unharmed
	assert_silent
}

@test "a program goes on while a thread for code calls malloc_trim" {
	each_python go_on_during_a_trim
}

# The thread that gives the lock up waits until the thread that requested it has taken it.
compete_for_the_lock() {
	start_victim "$PYTHON" -uc '
import threading
def compute():
    while True:
        assert sum(range(1000)) == 499500
threading.Thread(target=compute, daemon=True).start()
print("ready", flush=True)
compute()'
	flmem trim --pid "$VICTIM" --timeout 300ms
	assert_status 6
	assert_error 6 "no thread of process [0-9]+ can be borrowed now"
	assert_victim_unharmed
}

@test "a thread that waits for the interpreter's lock is not borrowed for a trim" {
	each_python compete_for_the_lock
}

code_fails() {
	[ "$(json 'r["steps"][0]["outcome"]')" = failed ]
}

# A hook that refuses code refuses it in the thread of the code, and concerns no other thread.
collect_under_a_hook() {
	start_victim "$PYTHON" -uc '
import sys
def refuse(event, arguments):
    if event == "compile":
        raise RuntimeError("no code here")
sys.addaudithook(refuse)
print("ready", flush=True)
while True:
    assert sum(i * i for i in range(1000)) == 332833500'
	trim_until code_fails --gc
	assert_status 7
	assert_victim_unharmed
}

@test "an audit hook that refuses the code harms nobody" {
	each_python collect_under_a_hook
}

# The address space is full; PyGILState_Ensure() would end the process.
collect_without_memory() {
	start_victim "$PYTHON" -uc '
import ctypes, os, resource, sys, threading, time
for _ in range(2): # one of their stacks is left for the next thread
    thread = threading.Thread(target=int)
    thread.start()
    thread.join()
# The thread ends after that, and needs memory for it: glibc aborts a program whose thread gets
# none.
while len(os.listdir("/proc/self/task")) > 1:
    time.sleep(0.001)
def work():
    return sum(i * i for i in range(1000))
work()
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
libc.malloc.argtypes = [ctypes.c_size_t]
computes = sys.argv[1] == "computes"
page = int(open("/proc/self/statm").read().split()[0]) * 4096
resource.setrlimit(resource.RLIMIT_AS, (page, resource.RLIM_INFINITY))
for size in (100000, 10000, 1000, 600, 300, 100, 64, 24):
    while libc.malloc(size):
        pass
os.write(1, b"ready\n")
while computes:
    work()
os.read(os.pipe()[0], 1)' "$1"
	flmem trim --pid "$VICTIM" --gc --timeout 300ms --json
	[ "$(json 'r["steps"][0]["outcome"]')" = refused ]
	[[ "$(json 'r["steps"][0]["detail"]')" == *"the limit of its address space (ulimit -v) leaves less than"* ]]
	assert_victim_unharmed
	assert_silent
}

# glibc keeps the arena and the stack of the thread: 72 MiB of the limit's rest.
@test "the address space that a limit leaves to the program is not reserved" {
	requires /usr/bin/python3
	start_victim /usr/bin/python3 -uc '
import ctypes, os, resource, time
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
libc.malloc.argtypes = [ctypes.c_size_t]
page = int(open("/proc/self/statm").read().split()[0]) * 4096
resource.setrlimit(resource.RLIMIT_AS, (page + (150 << 20), resource.RLIM_INFINITY))
print("ready", flush=True)
while not os.path.exists("'"$BATS_TEST_TMPDIR"'/go"):
    time.sleep(0.02)
print("got" if libc.malloc(120 << 20) else "refused", flush=True)
time.sleep(1000)'
	flmem trim --pid "$VICTIM" --gc --timeout 300ms --json
	[ "$(json 'r["steps"][0]["outcome"]')" = refused ]
	[[ "$(json 'r["steps"][0]["detail"]')" == *"address space (ulimit -v) leaves less than 256 MiB"* ]]
	: >"$BATS_TEST_TMPDIR/go"
	wait_until 20 grep -Eq '^(got|refused)' "$VICTIM_LOG"
	grep -q '^got' "$VICTIM_LOG" || fail "the program was refused its memory"
}

# A thread of glibc gets a stack of that size, which glibc keeps.
@test "nor is it for the stack of a thread where ulimit -s is large" {
	requires /usr/bin/python3
	ulimit -Ss 1048576
	start_victim /usr/bin/python3 -uc '
import mmap, os, resource, time
page = int(open("/proc/self/statm").read().split()[0]) * 4096
resource.setrlimit(resource.RLIMIT_AS, (page + (1200 << 20), resource.RLIM_INFINITY))
print("ready", flush=True)
while not os.path.exists("'"$BATS_TEST_TMPDIR"'/go"):
    time.sleep(0.02)
mmap.mmap(-1, 1000 << 20).close()
print("got", flush=True)
time.sleep(1000)'
	flmem trim --pid "$VICTIM" --gc --timeout 300ms --json
	[ "$(json 'r["steps"][0]["outcome"]')" = refused ]
	[[ "$(json 'r["steps"][0]["detail"]')" == *"address space (ulimit -v) leaves less than 1272 MiB"* ]]
	: >"$BATS_TEST_TMPDIR/go"
	wait_until 20 grep -Eq '^got|Error' "$VICTIM_LOG"
	grep -q '^got' "$VICTIM_LOG" || fail "the program was refused its memory"
}

@test "a process whose address space is full is refused, idle or computing" {
	each_python collect_without_memory waits
	each_python collect_without_memory computes
}
