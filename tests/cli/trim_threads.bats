#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# In which thread the code of flmem trim --gc, --python and --cuda runs, and what it waits for.
# shellcheck disable=SC2030,SC2031 # bats' run sets status here

load helpers
load python

# The garbage's finaliser waits for a lock that a blocked thread holds: if that thread were borrowed
# for the code, it would wait for itself. The code is late, and all that the program does meanwhile
# continues.
collect_beside_a_held_lock() {
	local go=$BATS_TEST_TMPDIR/go step
	rm -f "$go"
	start_victim "$PYTHON" "$FLMEM_TESTS/victims/safe_finalizer.py" "$go"
	flmem_in_time trim --pid "$VICTIM" --gc --timeout 1s --json
	assert_status 8
	[ "$(json 'r["steps"][0]["outcome"]')" = failed ]
	[[ "$(json 'r["steps"][0]["detail"]')" == *"the code has not ended within 1000 ms; it continues in thread "*", which is waiting for a lock of the program" ]]
	[ "$(status_field "$VICTIM" TracerPid)" = 0 ]
	touch "$go"
	wait_until 120 grep -q -e alone -e stuck -e left "$VICTIM_LOG"
	for step in "set the group" forked released joined finalised alone; do
		grep -q "^$step\$" "$VICTIM_LOG" || fail "not '$step': $(cat "$VICTIM_LOG")"
	done
	wait_until 60 has_threads "$VICTIM" 1
	flmem trim --pid "$VICTIM" --gc
	assert_status 0
	has_threads "$VICTIM" 1
	allow_victim --moved # it continued to its last wait
	assert_victim_unharmed
}

@test "a finaliser that needs what a blocked thread holds waits for it, and nobody else does" {
	each_python collect_beside_a_held_lock
}

# The code still waits for a lock, or takes the interpreter's lock just then, in an interpreter that
# ends: it must end as it does without the code.
end_beside_late_code() {
	local go=$BATS_TEST_TMPDIR/go how ended=0
	for how in stay release; do
		rm -f "$go"
		start_victim "$PYTHON" "$FLMEM_TESTS/victims/safe_ending.py" "$go" "$how"
		flmem_in_time trim --pid "$VICTIM" --gc --timeout 200ms
		# Status 7 where malloc_trim found no moment either, as on a busy machine.
		[ "$status" -eq 7 ] || assert_status 8
		[[ $stderr == *"the code has not ended"* ]] || fail "it has ended"
		touch "$go"
		wait "$VICTIM" || ended=$?
		[ "$ended" -eq 0 ] || fail "it ended with $ended: $(cat "$VICTIM_LOG")"
		[ "$(cat "$VICTIM_LOG")" = $'ready\nfinalising\nend' ] || fail "$(cat "$VICTIM_LOG")"
	done
}

@test "an interpreter ends while late code waits in it" {
	each_python end_beside_late_code
}

user_has_no_more_threads() {
	[ "$(json 'r["steps"][0]["outcome"]')" = refused ] || fail "$output"
	[[ "$(json 'r["steps"][0]["detail"]')" == *"(ulimit -u)"* ]]
}

# The limit is the present number of threads: no code runs.
@test "where no thread can be started, the code is refused, and the program goes on" {
	requires root /usr/bin/setpriv prlimit
	start_victim /usr/bin/setpriv --reuid 65534 --clear-groups prlimit --nproc=0 /usr/bin/python3 -uc '
import time
print("ready", flush=True)
time.sleep(1000)'
	flmem trim --pid "$VICTIM" --gc --timeout 1s --json
	assert_status 8
	[ "$(json 'r["steps"][0]["outcome"]')" = refused ]
	assert_victim_unharmed
	start_victim /usr/bin/setpriv --reuid 65534 --clear-groups prlimit --nproc=0 /usr/bin/python3 -uc '
print("ready", flush=True)
while True:
    assert sum(i * i for i in range(1000)) == 332833500'
	trim_until user_has_no_more_threads --gc
	assert_status 6
	assert_victim_unharmed
	assert_silent
}

# Each started thread that cannot be used sleeps for three seconds. The mask of the main thread is
# that of calls of another flmem.
@test "three threads are started at most where the signal mask for the code cannot be read" {
	[ "$(uname -m)" = x86_64 ] || skip "the number of the system call is that of x86-64"
	start_victim /usr/bin/python3 -uc '
import ctypes, threading, time
threading.Thread(target=threading.Event().wait, daemon=True).start()
mask = ctypes.c_uint64(~sum(1 << number - 1 for number in (4, 5, 7, 8, 11, 33)))
ctypes.CDLL(None).syscall(14, 2, ctypes.byref(mask), None, 8)
print("ready", flush=True)
while True:
    time.sleep(1000)'
	flmem trim --pid "$VICTIM" --gc --timeout 1s --json
	[ "$(status_field "$VICTIM" Threads)" -le 5 ] || fail "$(grep Threads "/proc/$VICTIM/status")"
	wait_until 60 has_threads "$VICTIM" 2
	assert_victim_unharmed
}

# Code for something other than a real thread would run in the main one.
@test "where threads are replaced, as gevent does, the code runs in a thread of the C library" {
	start_victim /usr/bin/python3 -uc '
import _thread, gc
gc.disable()
main = _thread.get_ident()
class Cycle:
    def __del__(self, ident=_thread.get_ident):
        print("collected in", "another" if ident() != main else "the main", "thread", flush=True)
one = Cycle()
one.itself = one
del one
_thread.start_new_thread = lambda function, arguments: function(*arguments)
print("ready", flush=True)
while True:
    assert sum(i * i for i in range(1000)) == 332833500'
	flmem trim --pid "$VICTIM" --gc --timeout 2s --json
	[ "$(json 'r["steps"][0]["entry_point"]')" = "new thread" ]
	assert_victim_unharmed
	[ "$(cat "$VICTIM_LOG")" = $'ready\ncollected in another thread' ] || fail "$(cat "$VICTIM_LOG")"
}

says_other_thread() {
	[ "$(json 'r["output"]')" = "['other']" ]
}

# Prints the name of the thread in which the code runs, started by a computing and by a blocked
# thread.
name_the_thread() {
	echo 'import _thread, os; print("main" if _thread.get_native_id() == os.getpid() else "other")' \
		>"$BATS_TEST_TMPDIR/name.py"
	start_victim "$PYTHON" -uc '
import os, threading
threading.Thread(target=int).start()
while len(os.listdir("/proc/self/task")) > 1:
    pass
print("ready", flush=True)
while True:
    assert sum(i * i for i in range(1000)) == 332833500'
	trim_until says_other_thread --python "$BATS_TEST_TMPDIR/name.py"
	[ "$(json 'r["steps"][0]["thread_state"]')" = None ] # the thread was computing
	wait_until 60 has_threads "$VICTIM" 1
	assert_victim_unharmed
	start_victim "$PYTHON" -uc '
import time
print("ready", flush=True)
time.sleep(1000)'
	flmem trim --pid "$VICTIM" --python "$BATS_TEST_TMPDIR/name.py" --json
	[ "$(json 'r["steps"][0]["entry_point"]')" = "new thread" ]
	[ "$(json 'r["output"]')" = "['other']" ]
	has_threads "$VICTIM" 1
	assert_victim_unharmed
}

@test "the code never runs in a thread of the program" {
	each_python name_the_thread
}

blocks_one_signal() {
	[ "$(json 'r["output"]')" = "['2048', '-15', '2048']" ]
}

# A thread and a process that the code starts block the signals that the main thread blocks, here
# SIGUSR2, and no more. The thread that is borrowed while the main one computes blocks all.
start_others() {
	cat >"$BATS_TEST_TMPDIR/start.py" <<-'END'
		import os, signal, subprocess, threading
		def show(status):
		    print(int(next(l for l in open(status) if l.startswith("SigBlk")).split()[1], 16))
		child = subprocess.Popen(["sleep", "1000"])
		show("/proc/%d/status" % child.pid)
		child.terminate()
		print(child.wait())
		thread = threading.Thread(target=show, args=("/proc/thread-self/status",))
		thread.start()
		thread.join()
	END
	start_victim "$PYTHON" -uc '
import os, select, signal, subprocess, sys, threading, time
def work():
    time.monotonic()
    while sys.argv[1] == "computes":
        assert sum(i * i for i in range(1000)) == 332833500
    if sys.argv[1] == "waits":
        select.select([], [], [])
def wait():
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    select.select([], [], [])
signal.pthread_sigmask(signal.SIG_SETMASK, [signal.SIGUSR2])
one = threading.Thread(target=int)
one.start()
one.join()
if sys.argv[2:]:
    threading.Thread(target=wait, daemon=True).start()
    time.sleep(0.2)
print("ready", flush=True)
work()' "$@"
	trim_until blocks_one_signal --python "$BATS_TEST_TMPDIR/start.py"
	wait_until 60 has_threads "$VICTIM" $(($# == 2 ? 2 : 1))
	assert_victim_unharmed
	assert_silent
}

@test "what the code starts has the signal mask of the program" {
	each_python start_others waits
	each_python start_others computes
	PYTHON=/usr/bin/python3 start_others computes beside
}

# collect_beside NAME: collects beside a module that the program has, or "replaced".
collect_beside() {
	start_victim "$PYTHON" -uc '
import _thread, gc, os, sys, types
gc.disable()
class Garbage:
    def __init__(self):
        self.itself = self
    def __del__(self):
        print("finalised", flush=True)
real = _thread.get_ident
if sys.argv[1] == "replaced":
    _thread.get_ident = lambda: real()
else:
    sys.modules[sys.argv[1]] = types.ModuleType(sys.argv[1])
Garbage()
print("ready", flush=True)
os.read(os.pipe()[0], 1)' "$1"
	flmem trim --pid "$VICTIM" --gc --json
	assert_status 0
}

# With gevent 26.9 a finaliser that takes a patched lock in another thread never ends, after which
# Python collects nothing any more.
collect_greenlets() {
	local name
	for name in gevent eventlet replaced; do
		collect_beside "$name"
		[ "$(json 'r["steps"][0]["outcome"]')" = skipped ]
		[[ "$(json 'r["steps"][0]["detail"]')" == "the program uses $name"* ]]
		assert_victim_unharmed
		assert_silent
	done
	collect_beside other
	[ "$(cat "$VICTIM_LOG")" = $'ready\nfinalised' ] || fail "it said: $(cat "$VICTIM_LOG")"
	assert_victim_unharmed
}

@test "a program whose threads are greenlets is not collected in another thread" {
	each_python collect_greenlets
}

# Tcl ends a process that deletes an interpreter in another thread than the one that made it.
collect_tcl() {
	if ! "$PYTHON" -c 'import tkinter' 2>/dev/null; then
		collect_beside _tkinter
	else
		start_victim "$PYTHON" -uc '
import gc, os, tkinter
gc.disable()
class Garbage:
    pass
one = Garbage()
one.itself, one.interpreter = one, tkinter.Tcl()
del one
print("ready", flush=True)
os.read(os.pipe()[0], 1)'
		flmem trim --pid "$VICTIM" --gc --json
		assert_status 0
	fi
	[[ "$(json 'r["steps"][0]["detail"]')" == "the program uses _tkinter"* ]]
	assert_victim_unharmed
	assert_silent
}

@test "interpreters of Tcl are not collected in another thread" {
	each_python collect_tcl
}

# Starts a program with a larger stack for its main thread. Since 3.12 recursion in C is limited by
# itself.
collect_deep() {
	start_victim "$PYTHON" -uc '
import gc, os, resource, sys
resource.setrlimit(resource.RLIMIT_STACK, (resource.RLIM_INFINITY,) * 2)
sys.setrecursionlimit(10**6)
gc.disable()
def nest():
    nested = []
    for i in range(200000):
        nested = [nested]
    return nested
class Deep:
    def __del__(self):
        self.one == self.other
deep = Deep()
deep.itself, deep.one, deep.other = deep, nest(), nest()
del deep
print("ready", flush=True)
os.read(os.pipe()[0], 1)'
	flmem trim --pid "$VICTIM" --gc --json --timeout 20s
	assert_status 0
	case $PYTHON_VERSION in
	3.8* | 3.9* | 3.10* | 3.11*)
		[[ "$(json 'r["steps"][0]["detail"]')" == *" a recursion limit of 1000000, "* ]] ;;
	*)
		[[ "$(json 'r["steps"][0]["detail"]')" == *" objects" ]] ;;
	esac
	assert_victim_unharmed
}

@test "finalisers that need a larger stack are not run on that of another thread" {
	[ "$(ulimit -Hs)" = unlimited ] || skip "the stack has a hard limit (ulimit -Hs)"
	each_python collect_deep
}

# Threads of C that compute often let invalid operations end the program; those of Python do not.
collect_beside_exceptions() {
	start_victim "$PYTHON" -uc '
import ctypes, gc, os, threading
libm, libc = ctypes.CDLL("libm.so.6"), ctypes.CDLL(None)
gc.disable()
class Compares:
    def __del__(self):
        os.write(1, b"compared %d\n" % (float("nan") < 1.0))
def wait():
    libm.feenableexcept(1) # FE_INVALID
    os.write(1, b"ready\n")
    libc.pause()
garbage = Compares()
garbage.itself = garbage
del garbage
threading.Thread(target=wait, daemon=True).start()
os.read(os.pipe()[0], 1)'
	flmem trim --pid "$VICTIM" --gc --json
	assert_status 0
	grep -q '^compared 0' "$VICTIM_LOG" || fail "$(cat "$VICTIM_LOG")"
	assert_victim_unharmed
}

@test "finalisers do not raise SIGFPE where a thread that was borrowed would" {
	[ "$(uname -m)" = x86_64 ] || skip "some processors of other kinds raise none"
	each_python collect_beside_exceptions
}

# The program has functions with the names of Python's own: the code does not call them.
collect_beside_own_functions() {
	start_victim "$PYTHON" -uc '
import builtins, os, time
def exec(*unused):
    os.write(1, b"called exec\n")
def replaced(*unused, **named):
    os.write(1, b"called\n")
builtins.print = os.open = replaced
os.write(1, b"ready\n")
time.sleep(1000)'
	flmem trim --pid "$VICTIM" --gc --json
	assert_status 0
	[[ "$(json 'r["steps"][0]["detail"]')" == *" objects" ]]
	[ "$(cat "$VICTIM_LOG")" = ready ] || fail "it said: $(cat "$VICTIM_LOG")"
	assert_victim_unharmed
	assert_silent
}

@test "functions of the program that are named like Python's own are not called" {
	each_python collect_beside_own_functions
}

make_pids_group() {
	make_control_group pids
	[ -e "$GROUP/pids.max" ] || skip "needs a controller of processes"
}

teardown() {
	stop_victims
	remove_control_group
}

# 16 MiB count as enough: with 4 KiB the kernel killed the program.
@test "no Python code runs where the control group has no memory left for it" {
	local limit
	requires root
	make_control_group memory
	limit=$(compgen -G "$GROUP/memory.limit_in_bytes" || compgen -G "$GROUP/memory.max") ||
		skip "needs a controller of memory"
	start_victim /usr/bin/python3 -uc '
import mmap, os, sys, time
print(os.getpid(), file=open(sys.argv[1] + "/cgroup.procs", "w"), flush=True)
print(64 << 20, file=open(sys.argv[2], "w"), flush=True)
block = mmap.mmap(-1, 54 << 20)
for page in range(0, len(block), 4096):
    block[page] = 1
print("ready", flush=True)
time.sleep(1000)' "$GROUP" "$limit"
	allow_victim --code
	flmem_in_time trim --pid "$VICTIM" --gc --timeout 1s
	assert_status 8
	assert_output 'gc\.collect +refused: the control group of process [0-9]+ leaves [0-9]+ MiB .* trim without it first'
	assert_victim_unharmed
	echo $((200 << 20)) >"$limit"
	flmem_in_time trim --pid "$VICTIM" --gc
	assert_status 0
	assert_victim_unharmed
}

# If memory runs out in a group of both, the kernel ends the process with the largest score.
@test "the kernel ends flmem rather than its target, but not what flmem executes" {
	local running before
	before=$(cat /proc/self/oom_score_adj)
	start_victim /usr/bin/python3 -uc 'import time; print("ready", flush=True); time.sleep(1000)'
	"$FLMEM" watch --pid "$VICTIM" --interval 1s >/dev/null 2>&1 &
	running=$!
	wait_until 20 grep -qx 1000 "/proc/$running/oom_score_adj"
	kill "$running"
	wait "$running" || true
	run_command "$FLMEM" profile run -o "$BATS_TEST_TMPDIR/profile" -- cat /proc/self/oom_score_adj
	assert_status 0
	[ "$output" = "$before" ]
	assert_victim_unharmed
}

# The group has room for one more process, which the program needs for its next child.
@test "a thread for the code does not take the last place of a control group" {
	requires root
	make_pids_group
	start_victim /usr/bin/python3 -uc '
import os, sys, time
print(os.getpid(), file=open(sys.argv[1] + "/cgroup.procs", "w"), flush=True)
print(2, file=open(sys.argv[1] + "/pids.max", "w"), flush=True)
print("ready", flush=True)
while True:
    child = os.fork()
    if not child:
        os._exit(0)
    os.waitpid(child, 0)
    time.sleep(0.001)' "$GROUP"
	flmem_in_time trim --pid "$VICTIM" --gc --timeout 1s --json
	assert_status 8
	[ "$(json 'r["steps"][0]["outcome"]')" = refused ]
	[[ "$(json 'r["steps"][0]["detail"]')" == *"(pids.max), which the program may need itself" ]]
	assert_victim_unharmed
	assert_silent
	echo 100 >"$GROUP/pids.max"
	flmem_in_time trim --pid "$VICTIM" --gc --timeout 5s --json
	[[ "$(json 'r["steps"][0]["detail"]')" == *" objects" ]]
	assert_victim_unharmed
	assert_silent
}

# start_forking PLACES: starts a process that forks all the time, as a user with no other process.
start_forking() {
	start_victim /usr/bin/python3 -uc '
import ctypes, os, resource, sys, time
user = 200000 + os.getpid()
os.setgroups([])
os.setgid(user)
os.setuid(user)
ctypes.CDLL(None).prctl(4, 1, 0, 0, 0)  # PR_SET_DUMPABLE
resource.setrlimit(resource.RLIMIT_NPROC, (int(sys.argv[1]), int(sys.argv[1])))
print("ready", flush=True)
while True:
    child = os.fork()
    if not child:
        os._exit(0)
    os.waitpid(child, 0)
    time.sleep(0.05)' "$1"
}

# There is room for one more process, which the program needs for its next child.
@test "nor the last one of a user" {
	requires root
	start_forking 2
	flmem_in_time trim --pid "$VICTIM" --gc --timeout 1s --json
	assert_status 8
	[ "$(json 'r["steps"][0]["outcome"]')" = refused ]
	[[ "$(json 'r["steps"][0]["detail"]')" == *"(ulimit -u), which the program may need itself" ]]
	assert_victim_unharmed
	assert_silent
	start_forking 100
	flmem trim --pid "$VICTIM" --gc --timeout 5s --json
	[[ "$(json 'r["steps"][0]["detail"]')" == *" objects" ]]
	assert_victim_unharmed
	assert_silent
}

# Version 1 has groups of threads. With the group's quota used up, the thread would hold the heap's
# locks.
@test "a thread whose control group has less processor time is not borrowed" {
	requires root
	[ -e /sys/fs/cgroup/cpu/tasks ] || skip "needs control groups of version 1 for processor time"
	mkdir "/sys/fs/cgroup/cpu/flmem-test-$$" 2>/dev/null || skip "needs control groups that may be written"
	GROUP=/sys/fs/cgroup/cpu/flmem-test-$$
	start_victim /usr/bin/python3 -uc '
import sys, threading, time
moved = threading.Event()
def wait():
    print(threading.get_native_id(), file=open(sys.argv[1] + "/tasks", "w"), flush=True)
    moved.set()
    time.sleep(1000)
threading.Thread(target=wait, daemon=True).start()
moved.wait()
print("ready", flush=True)
while True:
    assert sum(i * i for i in range(1000)) == 332833500' "$GROUP"
	flmem trim --pid "$VICTIM" --timeout 500ms
	assert_status 6
	[[ $stderr == *"is in another control group than another thread, which could wait for it"* ]] ||
		fail "it said: $stderr"
	assert_victim_unharmed
	assert_silent
}

# Finalisation in 3.15 waits for threads that are about to enter, by a counter that a child
# inherits.
fork_beside_a_new_state() {
	start_victim "$PYTHON" "$FLMEM_TESTS/victims/safe_forked_state.py" \
		"$FLMEM_VICTIMS/interpreter/slow_state.so"
	flmem trim --pid "$VICTIM" --gc --timeout 20s --json
	assert_status 0
	[[ "$(json 'r["steps"][0]["detail"]')" == *" objects" ]]
	wait_until 120 grep -q rests "$VICTIM_LOG"
	grep -q ended "$VICTIM_LOG" || fail "it has not forked"
	! grep -q hangs "$VICTIM_LOG" || fail "$(cat "$VICTIM_LOG")"
	allow_victim --moved
	assert_victim_unharmed
}

@test "a child that is forked while a thread for code enters the interpreter ends" {
	requires victim:interpreter/slow_state.so
	each_python fork_beside_a_new_state
}

# Since 3.14 finalisation does not turn away a thread that creates its state meanwhile.
end_beside_a_new_state() {
	local ended=0
	start_victim "$PYTHON" "$FLMEM_TESTS/victims/safe_ending_beside_state.py" \
		"$FLMEM_VICTIMS/interpreter/slow_state.so"
	flmem_in_time trim --pid "$VICTIM" --gc --timeout 1s
	# Status 3 if the process has ended first.
	[ "$status" -ne 0 ] || fail "the code ran: $output"
	wait "$VICTIM" || ended=$?
	[ "$ended" -eq 0 ] || fail "it ended with $ended: $(cat "$VICTIM_LOG")"
	[ "$(cat "$VICTIM_LOG")" = $'ready\nfinalizing' ] || fail "$(cat "$VICTIM_LOG")"
}

@test "no code runs in an interpreter that begins to end while its thread enters" {
	requires victim:interpreter/slow_state.so
	each_python end_beside_a_new_state
}

# faulthandler walks over the states of all threads without the interpreter's lock. A thread that
# only blocks all signals, as faulthandler's does, is not a reason to refuse.
collect_beside_a_watchdog() {
	local go=$BATS_TEST_TMPDIR/go
	rm -f "$go"
	start_victim "$PYTHON" -uc '
import faulthandler, os, signal, sys, threading, time
def wait():
    signal.pthread_sigmask(signal.SIG_BLOCK, range(1, signal.NSIG))
    print("rests", flush=True)
    threading.Event().wait()
faulthandler.dump_traceback_later(1000)
print("ready", flush=True)
while not os.path.exists(sys.argv[1]):
    time.sleep(0.02)
faulthandler.cancel_dump_traceback_later()
threading.Thread(target=wait, daemon=True).start()
time.sleep(1000)' "$go"
	flmem trim --pid "$VICTIM" --gc --timeout 100ms --json
	[ "$(json 'r["steps"][0]["outcome"]')" = refused ] || fail "$output"
	[[ "$(json 'r["steps"][0]["detail"]')" == *"(faulthandler.dump_traceback_later())"* ]]
	touch "$go"
	wait_until 60 grep -q rests "$VICTIM_LOG"
	flmem trim --pid "$VICTIM" --gc --json
	assert_status 0
	[[ "$(json 'r["steps"][0]["detail"]')" == *" objects" ]]
	allow_victim --moved
	assert_victim_unharmed
}

@test "no code runs beside a watchdog that prints the stacks of all threads" {
	each_python collect_beside_a_watchdog
}
