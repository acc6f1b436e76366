#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# flmem trim --gc, --python, --cuda and --full: code that runs in a live CPython.
# shellcheck disable=SC2030,SC2031 # bats' run sets status here

load helpers
load python

is_python() {
	[[ $(readlink "/proc/$1/exe") == */python3* ]]
}

@test "the collector of an idle Python runs, and what it freed goes back" {
	start_litterer
	flmem trim --pid "$VICTIM" --gc --json
	assert_status 0
	assert_schema trim
	[ "$(json '[s["name"] for s in r["steps"]]')" = "['gc.collect', 'malloc_trim']" ]
	[ "$(json 'r["steps"][0]["entry_point"]')" = "new thread" ]
	[ "$(json 'int(r["steps"][0]["detail"].split()[0]) > 1900')" = True ]
	[ "$(json 'r["steps"][0]["detail"].split()[1]')" = objects ]
	[ "$(json 'r["released_bytes"] > 30 << 20')" = True ]
	[ "$(json 'r["steps"][0]["took_us"] > 0')" = True ]
	assert_victim_unharmed
	assert_silent
}

@test "what code leaves behind does not grow from one call to the next" {
	local second number
	start_litterer
	for number in 1 2 3 4 5 6 7 8 9 10; do
		flmem trim --pid "$VICTIM" --gc
		assert_status 0
		[ "$number" != 2 ] || second=$(wc -l <"/proc/$VICTIM/maps")
	done
	# The first call may leave a stack and an arena, which the next one uses again. On a busy
	# machine a thread may begin before the last one has ended, and leaves a second pair, each
	# with a guard; eight calls that left one mapping each would exceed that.
	[ "$(wc -l <"/proc/$VICTIM/maps")" -le "$((second + 4))" ] ||
		fail "$second mappings became $(wc -l <"/proc/$VICTIM/maps")"
	assert_victim_unharmed
}

# The threads begin when the main thread sleeps, which needs that lock before.
@test "threads that compete for the interpreter's lock" {
	start_litterer '
import os
SLEEPS = "230", "115"
def spin():
    while open(f"/proc/self/task/{os.getpid()}/syscall").read().split()[0] not in SLEEPS:
        time.sleep(0.01)
    while True:
        sum(range(100))
for _ in range(4):
    threading.Thread(target=spin, daemon=True).start()'
	flmem trim --pid "$VICTIM" --gc
	assert_status 0
	assert_output 'gc\.collect +[0-9.]+ m?s, [0-9.]+ (MiB|KiB|B): [0-9]+ objects'
	assert_victim_unharmed
	assert_silent
}

@test "a main thread that waited for the lock at first and is idle later" {
	flag=$BATS_TEST_TMPDIR/flag
	printf .. >"$flag"
	# No thread has to give the lock up: the main thread waits until the other one rests.
	start_victim /usr/bin/python3 -uc '
import mmap, sys, threading, time
file = open(sys.argv[1], "r+b")
flag = mmap.mmap(file.fileno(), 2)
sys.setswitchinterval(1000)
def compute():
    flag[0] = ord("c")
    while flag[1] == ord("."):
        pass
    time.sleep(1000)
print("ready", flush=True)
threading.Thread(target=compute, daemon=True).start()
time.sleep(1000)' "$flag"
	wait_until 60 grep -q c "$flag"
	"$FLMEM" trim --pid "$VICTIM" --gc --timeout 30s --json >"$BATS_TEST_TMPDIR/json" &
	trim=$!
	sleep 1 # it has tried all entry points by then; if not, this tests nothing
	printf cx 1<>"$flag" # not truncated meanwhile, as it is mapped
	wait "$trim" || fail "$(cat "$BATS_TEST_TMPDIR/json")"
	output=$(cat "$BATS_TEST_TMPDIR/json")
	[ "$(json 'r["steps"][0]["entry_point"]')" = "new thread" ]
	allow_victim --moved
	assert_victim_unharmed
	assert_silent
}

@test "a file runs in the process, and what it prints comes back" {
	start_litterer 'kept = [bytes(1000)] * 3'
	cat >"$BATS_TEST_TMPDIR/release.py" <<-'END'
		import __main__
		print("kept", len(__main__.kept), "\N{GREEK SMALL LETTER ALPHA}")
		__main__.kept.clear()
		mine = 1
	END
	flmem trim --pid "$VICTIM" --python "$BATS_TEST_TMPDIR/release.py" --json
	assert_status 0
	assert_schema trim
	[ "$(json 'r["output"]')" = "['kept 3 α']" ]
	flmem trim --pid "$VICTIM" --python "$BATS_TEST_TMPDIR/release.py"
	assert_output '\| kept 0 α'
	echo 'import __main__; print(sorted(n for n in vars(__main__) if n[0] != "_"))' \
		>"$BATS_TEST_TMPDIR/names.py"
	flmem trim --pid "$VICTIM" --python "$BATS_TEST_TMPDIR/names.py"
	assert_output "\\['Cycle', 'gc', 'kept', 'sys', 'threading', 'time'\\]"
	assert_victim_unharmed
	assert_silent
}

@test "an exception in the file is reported, with its line, and the rest is done" {
	start_litterer
	printf 'print("so far")\n\n1 / 0\n' >"$BATS_TEST_TMPDIR/wrong.py"
	flmem trim --pid "$VICTIM" --python "$BATS_TEST_TMPDIR/wrong.py" --gc --json
	assert_status 8
	[ "$(json 'r["steps"][0]["outcome"]')" = failed ]
	[ "$(json 'r["steps"][0]["detail"]')" = "ZeroDivisionError: division by zero (line 3)" ]
	[ "$(json 'r["steps"][1]["outcome"]')" != refused ]
	[ "$(json 'r["output"]')" = "['so far']" ]
	echo 'this does not parse' >"$BATS_TEST_TMPDIR/wrong.py"
	flmem trim --pid "$VICTIM" --python "$BATS_TEST_TMPDIR/wrong.py"
	assert_status 8
	assert_stderr 'raised SyntaxError'
	echo 'raise SystemExit(3)' >"$BATS_TEST_TMPDIR/wrong.py"
	flmem trim --pid "$VICTIM" --python "$BATS_TEST_TMPDIR/wrong.py"
	assert_status 8
	assert_stderr 'raised SystemExit: 3'
	assert_victim_unharmed
	assert_silent
}

@test "output without end is cut" {
	start_litterer
	echo 'print("x" * 100000)' >"$BATS_TEST_TMPDIR/much.py"
	flmem trim --pid "$VICTIM" --python "$BATS_TEST_TMPDIR/much.py"
	assert_status 0
	assert_output '\| \.\.\. cut'
	assert_victim_unharmed
}

@test "files that are not code" {
	flmem trim --pid $$ --python "$BATS_TEST_TMPDIR/absent.py"
	assert_error 2 'cannot read .*absent\.py'
	printf 'a\0b' >"$BATS_TEST_TMPDIR/nul.py"
	flmem trim --pid $$ --python "$BATS_TEST_TMPDIR/nul.py"
	assert_error 2 'it contains a NUL byte'
	head -c 2000000 /dev/zero | tr '\0' '#' >"$BATS_TEST_TMPDIR/huge.py"
	flmem trim --pid $$ --python "$BATS_TEST_TMPDIR/huge.py"
	assert_error 2 'is larger than 1 MiB'
	start_litterer
	head -c 70000 "$BATS_TEST_TMPDIR/huge.py" >"$BATS_TEST_TMPDIR/large.py"
	flmem trim --pid "$VICTIM" --python "$BATS_TEST_TMPDIR/large.py" --json
	assert_status 2
	assert_stderr 'is larger than 64 KiB'
	[ "$(json 'r["steps"]')" = '[]' ]
	assert_victim_unharmed
}

@test "a file of nearly the largest size" {
	start_litterer
	{
		echo 'print("begin")'
		for _ in $(seq 600); do
			printf '# %0100d\n' 0
		done
		echo 'print("end")'
	} >"$BATS_TEST_TMPDIR/long.py"
	flmem trim --pid "$VICTIM" --python "$BATS_TEST_TMPDIR/long.py"
	assert_status 0
	assert_output '\| begin.*\| end'
	assert_victim_unharmed
}

@test "a dry run names the entry point and the thread, and runs nothing" {
	start_litterer
	echo 'import os; os._exit(1)' >"$BATS_TEST_TMPDIR/end.py"
	flmem trim --pid "$VICTIM" --full --python "$BATS_TEST_TMPDIR/end.py" --dry-run --json
	assert_status 0
	assert_schema trim
	[ "$(json '[s["outcome"] for s in r["steps"]]')" = \
		"['planned', 'planned', 'planned', 'planned']" ]
	[ "$(json 'r["steps"][1]["entry_point"]')" = "new thread" ]
	[ -d "/proc/$VICTIM/task/$(json 'r["steps"][1]["thread"]')" ]
	assert_victim_unharmed
	assert_silent
}

@test "CUDA is left alone where PyTorch is not imported" {
	start_litterer
	flmem trim --pid "$VICTIM" --full --json
	assert_status 0
	assert_schema trim
	[ "$(json '[s["name"] for s in r["steps"]]')" = \
		"['gc.collect', 'malloc_trim', 'torch.cuda.empty_cache']" ]
	[ "$(json 'r["steps"][2]["outcome"]')" = skipped ]
	[ "$(json 'r["steps"][2]["detail"]')" = "PyTorch is not imported" ]
	assert_victim_unharmed
	assert_silent
}

@test "CUDA is left alone where PyTorch has not begun to use it" {
	requires torch
	start_litterer 'import torch; kept = torch.ones(1000)'
	flmem trim --pid "$VICTIM" --cuda --json
	assert_status 0
	[ "$(json 'r["steps"][1]["outcome"]')" = skipped ]
	[ "$(json 'r["steps"][1]["detail"]')" = "PyTorch has not initialised CUDA" ]
	assert_victim_unharmed
	assert_silent
}

# Starts a victim where CUDA's driver is tests/fakes/cuda.c, and a module replaces CuPy: gpu.bats
# has the real ones. A call for a device that the program does not use ends it.
start_cuda_user() {
	CUDA=$FLMEM_VICTIMS/../fakes/cuda/libcuda.so.1 start_litterer '
import ctypes, os, sys, types
cuda = ctypes.CDLL(os.environ["CUDA"])
class Pool:
    total = 80 << 20
    used = 30 << 20
    pinned = 3
    def total_bytes(self): return self.total
    def used_bytes(self): return self.used
    def n_free_blocks(self): return self.pinned
    def free_all_blocks(self): self.total, self.pinned = self.used, 0
class Device:
    def __init__(self, index): self.index = index
    def use(self):
        if self.index != 1: os.abort()
pool = Pool()
sys.modules["cupy"] = types.SimpleNamespace(get_default_memory_pool=lambda: pool,
    get_default_pinned_memory_pool=lambda: pool, cuda=types.SimpleNamespace(Device=Device))
'"${1:-}"
}

steps() {
	json '{s["name"]: (s["outcome"], s["detail"]) for s in r["steps"]}["'"$1"'"]'
}

@test "pools of CuPy and of CUDA itself are trimmed on devices that are in use" {
	start_cuda_user
	flmem trim --pid "$VICTIM" --cuda --json
	assert_status 0
	assert_schema trim
	[ "$(json '[s["name"] for s in r["steps"]][1:]')" = \
		"['torch.cuda.empty_cache', 'cupy.free_all_blocks', 'cudaMemPoolTrimTo']" ]
	[ "$(steps torch.cuda.empty_cache)" = "('skipped', 'PyTorch is not imported')" ]
	[ "$(steps cupy.free_all_blocks)" = "('released', '52428800 bytes of device memory')" ]
	[ "$(steps cudaMemPoolTrimTo)" = "('released', '67108864 bytes of device memory')" ]
	[ "$(json 'r["outcome"]')" = released ]
	[[ $(json '[s["unknown"]["released_bytes"] for s in r["steps"][2:]]') != *"not made"* ]]
	flmem trim --pid "$VICTIM" --cuda
	assert_status 0
	assert_output 'cudaMemPoolTrimTo .*0 bytes of device memory'
	assert_victim_unharmed
	assert_silent
}

# Starts a victim in which each trim finds 50 MiB in the pool; its RSS does not change by that.
start_refilled_cuda_user() {
	start_cuda_user '
def total_bytes(self):
    now, self.total = self.total or self.used, 80 << 20
    return now
Pool.total_bytes, Pool.pinned = total_bytes, 0
Pool.free_all_blocks = lambda self: setattr(self, "total", 0)'
}

@test "trims that release memory of a GPU only are effective" {
	start_refilled_cuda_user
	flmem trim --pid "$VICTIM" --cuda --every 100ms --count 4 --max-ineffective 1 --min-release 40M --json
	assert_status 0
	[ "$(grep -c '"event":"trimmed"' <<<"$output")" = 4 ]
	refute_output 'given-up'
	flmem trim --pid "$VICTIM" --cuda
	assert_output 'process .* RSS .*, and 50 MiB of GPU memory'
	assert_victim_unharmed
	assert_silent
}

@test "trims of watch --auto that release memory of a GPU only are effective" {
	local duration trims=0
	start_refilled_cuda_user
	# The busier the machine, the fewer trims.
	for duration in 4s 16s 64s; do
		flmem watch --pid "$VICTIM" --auto --cuda --when 'rss > 1' --interval 50ms --cool-down 50ms \
			--min-release 40M --max-ineffective 1 --duration "$duration" --json
		assert_status 0
		trims=$(grep -c '"action":"trimmed"' <<<"$output")
		refute_output '"action":"paused"'
		[ "$trims" -lt 3 ] || break
	done
	[ "$trims" -ge 3 ]
	grep -m 1 '"action":"trimmed"' <<<"$output" >"$BATS_TEST_TMPDIR/action"
	output=$(<"$BATS_TEST_TMPDIR/action")
	assert_schema watch
	assert_victim_unharmed
	assert_silent
}

@test "CuPy and the pools of CUDA: no context, an error, a graph that PyTorch captures" {
	FAKE_CUDA_CONTEXT=0 start_cuda_user
	flmem trim --pid "$VICTIM" --cuda --json
	assert_status 0
	for step in cupy.free_all_blocks cudaMemPoolTrimTo; do
		[ "$(steps $step)" = "('skipped', 'no CUDA device is in use')" ]
	done
	assert_victim_unharmed
	FAKE_CUDA_ERROR=700 start_cuda_user
	flmem trim --pid "$VICTIM" --cuda --json
	assert_status 0
	[ "$(steps cudaMemPoolTrimTo)" = "('failed', 'RuntimeError: cuMemPoolTrimTo: CUDA error 700')" ]
	assert_victim_unharmed
	start_cuda_user '
torch = sys.modules["torch"] = types.SimpleNamespace(cuda=types.SimpleNamespace(
    is_initialized=lambda: True, device_count=lambda: 1, memory_reserved=lambda i: 1,
    set_device=lambda i: None, is_current_stream_capturing=lambda: True))'
	flmem trim --pid "$VICTIM" --cuda --json
	assert_status 0
	for step in cupy.free_all_blocks cudaMemPoolTrimTo; do
		[ "$(steps $step)" = "('skipped', 'a CUDA graph is being captured')" ]
	done
	assert_victim_unharmed
	assert_silent
}

@test "a program that loads CUDA's driver without Python's ctypes" {
	LD_PRELOAD=$FLMEM_VICTIMS/../fakes/cuda/libcuda.so.1 start_litterer
	flmem trim --pid "$VICTIM" --cuda --json
	assert_status 0
	[ "$(steps cudaMemPoolTrimTo)" = "('failed', 'RuntimeError: ctypes is not imported')" ]
	assert_victim_unharmed
	assert_silent
}

@test "a process without a Python" {
	start_victim /bin/sh -c 'echo ready; while :; do sleep 1000; done'
	flmem trim --pid "$VICTIM" --gc
	assert_status 8
	assert_stderr "process $VICTIM has no CPython"
	flmem trim --pid "$VICTIM" --full --json
	assert_status 0
	[ "$(json 'r["steps"][0]["outcome"]')" = skipped ]
	[ "$(json 'r["steps"][0]["detail"]')" = "the process has no CPython" ]
	assert_victim_unharmed
}

@test "an interpreter that is ending is refused" {
	start_victim /usr/bin/python3 -uc '
import os, sys, time
class Last:
    def __del__(self, write=os.write, sleep=time.sleep):
        write(1, b"ready\n")
        sleep(1000)
sys.last_of_all = Last()'
	flmem trim --pid "$VICTIM" --gc
	assert_status 8
	assert_stderr 'is finalising'
	assert_victim_unharmed
}

collected_3000() {
	[ "$(json 'r["steps"][0]["detail"][-8:] == " objects" and int(r["steps"][0]["detail"].split()[0]) > 2900')" = True ]
}

says_false() {
	[ "$(json 'r["output"]')" = "['False']" ]
}

# Before 3.11, the end of Python's first thread makes the C library load libgcc_s.
collect_while_it_computes() {
	start_victim "$PYTHON" -uc '
import gc, hashlib, os, threading
threading.Thread(target=int).start()
while len(os.listdir("/proc/self/task")) > 1:
    pass
gc.disable()
class Cycle:
    pass
for _ in range(3000):
    one = Cycle()
    one.itself = one
print("ready", flush=True)
while True:
    assert hashlib.sha256(b"x" * 500).hexdigest() == "c38c2bf3055c516a98ac5d97f30e7c364e827bc0199e1c3415b794afbe55dcad"
    assert sum(i * i for i in range(1000)) == 332833500'
	trim_until collected_3000 --gc
	assert_schema trim
	# On a busy machine flmem may find its thread waiting for the lock of the interpreter, and
	# borrow it.
	if [ "$status" != 0 ]; then
		assert_status 8
		[ "$(json 'r["steps"][1]["name"]')" = allocator ]
		[ "$(json 'r["steps"][1]["outcome"]')" = refused ]
	fi
	[ "$(json 'r["steps"][0]["thread"]')" = "$VICTIM" ]
	[ "$(json 'r["steps"][0]["entry_point"]')" = "new thread" ]
	[ "$(json 'r["steps"][0]["stopped_us"] > 0')" = True ]
	echo 'import gc; print(gc.isenabled())' >"$BATS_TEST_TMPDIR/ask.py"
	trim_until says_false --python "$BATS_TEST_TMPDIR/ask.py"
	assert_victim_unharmed
	assert_silent
}

@test "a single thread that only computes starts the thread of the code" {
	each_python collect_while_it_computes
}

collect_while_idle() {
	start_litterer
	flmem trim --pid "$VICTIM" --gc --json
	assert_status 0
	[ "$(json 'r["steps"][0]["entry_point"]')" = "new thread" ]
	[ "$(json 'int(r["steps"][0]["detail"].split()[0]) > 1900')" = True ]
	assert_victim_unharmed
	assert_silent
}

@test "every version while it is idle" {
	each_python collect_while_idle
}

collect_while_blocked_in_c() {
	start_litterer 'import ctypes; hold = ctypes.PyDLL(None)' 'hold.sleep(1000)'
	# The victim prints "ready" before it sleeps; the first call may still load something.
	wait_until 60 grep -q '^[0-9]' "/proc/$VICTIM/syscall"
	snapshot_victim
	flmem trim --pid "$VICTIM" --gc --timeout 200ms --json
	assert_status 8
	[ "$(json 'r["steps"][0]["outcome"]')" = refused ]
	[[ "$(json 'r["steps"][0]["detail"]')" == *"holds the interpreter's lock inside C code"* ]]
	assert_victim_unharmed
	assert_silent
}

@test "a thread that sleeps with the interpreter's lock is left alone" {
	each_python collect_while_blocked_in_c
}

# The sum runs in C for seconds, with the lock, and no other thread requests it. Only late code
# collects anything.
collect_while_computing_in_c() {
	start_litterer '
come = threading.Event()
gc.callbacks.append(lambda phase, found:
    phase == "stop" and found["collected"] > 1900 and come.set())' '
sum(range(2 * 10**8))
print("summed", flush=True)
assert come.wait(60)
print("collected", flush=True)
time.sleep(1000)'
	flmem trim --pid "$VICTIM" --gc --timeout 300ms --json
	assert_status 8
	[ "$(json 'r["steps"][0]["outcome"] in ("failed", "refused")')" = True ]
	wait_until 60 grep -q collected "$VICTIM_LOG"
	alive "$VICTIM"
	[ "$(status_field "$VICTIM" TracerPid)" = 0 ]
	flmem trim --pid "$VICTIM" --gc
	assert_status 0
	[ "$(cat "$VICTIM_LOG")" = $'ready\nsummed\ncollected' ] || fail "it said: $(cat "$VICTIM_LOG")"
}

@test "a single thread that only computes gives back what it freed, where it has ctypes" {
	start_victim /usr/bin/python3 -uc '
import ctypes
blocks = [bytes(3000) for _ in range(24000)]
live = blocks[::64]
del blocks
print("ready", flush=True)
while True:
    assert sum(i * i for i in range(1000)) == 332833500'
	flmem_in_time trim --pid "$VICTIM" --gc --timeout 1s --json
	assert_status 0
	assert_schema trim
	[ "$(json 'r["steps"][1]["name"]')" = malloc_trim ]
	[ "$(json 'r["steps"][1]["entry_point"]')" = "new thread" ]
	[ "$(json 'r["released_bytes"] > 30 << 20')" = True ]
	assert_victim_unharmed
	assert_silent
}

@test "a process with a damaged heap gets neither a thread nor malloc_trim through Python" {
	start_victim /usr/bin/python3 -B "$FLMEM_TESTS/victims/damaged_heap.py" compute
	flmem trim --pid "$VICTIM" --gc --timeout 1s --json
	assert_status 6
	# A thread for the collector could get that arena, and would crash.
	[ "$(json 'r["steps"][0]["outcome"]')" = refused ]
	[[ "$(json 'r["steps"][0]["detail"]')" == *'malloc_trim could crash it'* ]]
	[ "$(json 'r["steps"][1]["outcome"]')" = refused ]
	[[ "$(json 'r["steps"][1]["detail"]')" == *'malloc_trim could crash it'* ]]
	assert_victim_unharmed
	assert_silent
}

@test "code that comes late runs then, and the program goes on" {
	PYTHON=/usr/bin/python3 collect_while_computing_in_c
}

# Runs a command with every shared library of CPython from 3.8 on that is installed; absent ones are
# reported.
each_libpython() {
	local version library found count=0
	requires victim:embedded
	for version in 3.{8,9,10,11,12,13,14,15}; do
		found=
		for library in "$HOME/.pyenv/versions/$version".*/lib/libpython"$version".so.1.0 \
			/usr/lib/*-linux-gnu/libpython"$version".so.1.0; do
			[ -e "$library" ] || continue
			found=yes
			count=$((count + 1))
			echo "with $library"
			"$@" "$library"
			stop_victims
		done
		[ "$found" ] || skip_part "$BATS_TEST_DESCRIPTION: no libpython$version.so is installed"
	done
	[ "$count" -gt 0 ] || skip "no shared library of Python from 3.8 on is installed"
}

# start_program LIBRARY HOW: starts the embedded interpreter; PYTHONHOME is for it alone.
start_program() {
	start_victim /usr/bin/env "PYTHONHOME=${1%/lib/*}" "$FLMEM_VICTIMS/embedded" "$@"
}

collect_in_a_program() {
	start_program "$1" released
	flmem trim --pid "$VICTIM" --gc --json
	assert_status 0
	[ "$(json 'r["steps"][0]["entry_point"]')" = "new thread" ]
	[ -d "/proc/$VICTIM/task/$(json 'r["steps"][0]["thread"]')" ]
	[ "$(json 'int(r["steps"][0]["detail"].split()[0]) > 2900')" = True ]
	assert_victim_unharmed
}

@test "an interpreter inside another program" {
	each_libpython collect_in_a_program
}

leave_a_held_lock() {
	start_program "$1" held
	flmem trim --pid "$VICTIM" --gc --timeout 200ms
	assert_status 8
	assert_stderr "process $VICTIM"
	assert_output 'gc.collect +refused'
	assert_victim_unharmed
}

@test "an interpreter inside another program, which waits in C code with the lock" {
	each_libpython leave_a_held_lock
}

leave_an_ended_one() {
	start_program "$1" ended
	flmem trim --pid "$VICTIM" --gc --timeout 200ms
	assert_status 8
	assert_output 'gc.collect +refused'
	assert_victim_unharmed
}

@test "an interpreter inside another program that has ended it" {
	each_libpython leave_an_ended_one
}

# The dynamic linker waits for a library that is a pipe: the program was just executed.
@test "a process that is just starting is waited for, and reported as such" {
	requires /usr/bin/python3
	mkfifo "$BATS_TEST_TMPDIR/library"
	# shellcheck disable=SC2030 # for this command only
	(
		export LD_PRELOAD=$BATS_TEST_TMPDIR/library
		exec /usr/bin/python3 -uc 'import time; time.sleep(1000)'
	) >"$BATS_TEST_TMPDIR/log" 2>&1 3>&- </dev/null &
	VICTIM=$!
	VICTIMS+=("$VICTIM")
	wait_until 20 is_python "$VICTIM"
	flmem trim --gc --pid "$VICTIM" --timeout 300ms
	assert_error 6 'is loading libraries, as programs do when they start; try again'
	: >"$BATS_TEST_TMPDIR/library"
	flmem trim --gc --pid "$VICTIM" --timeout 60s
	assert_status 0
}
