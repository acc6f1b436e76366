#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# What flmem detect says of processes is compared with what the kernel and the program say.

load helpers

PYTHON=/usr/bin/python3

# Prints the value of a Python expression for the first process `p` of the report.
value() {
	printf '%s' "$output" | python -c '
import json, sys
p = json.load(sys.stdin)["processes"][0]
print(eval("(" + sys.argv[1] + ")"))' "$1"
}

# A process that has released its memory and still exits: the init of a PID namespace waits for a
# zombie there, whose parent is outside of the namespace. Prints its process ID.
EXITING='
import ctypes, os, signal, time
if ctypes.CDLL(None).unshare(0x20000000):
    print("no PID namespace", flush=True)
    time.sleep(1000)
init = os.fork()
if init == 0:
    time.sleep(1000)
other = os.fork()
if other == 0:
    time.sleep(1000)
os.kill(init, signal.SIGKILL)
while "zap_pid_ns" not in open(f"/proc/{init}/wchan").read():
    if open(f"/proc/{init}/stat").read().split(") ")[1][0] == "Z":
        break
    time.sleep(0.01)
print("ready", init, flush=True)
time.sleep(1000)'

# bats test_tags=unsanitised
@test "a process that has released its memory is ending, not one without Python" {
	requires root "$PYTHON"
	unshare --pid --fork true || skip "no PID namespace can be made here"
	start_victim "$PYTHON" -uc "$EXITING"
	local ending
	ending=$(awk '{ print $2 }' "$VICTIM_LOG")
	grep -q VmRSS "/proc/$ending/status" && skip "this kernel keeps its memory"
	grep -q '^State:.*Z' "/proc/$ending/status" && skip "it has ended already"
	flmem detect --pid "$ending"
	assert_error 3 "process $ending is ending: it has released its memory"
	flmem recommend --pid "$ending"
	assert_error 3 "process $ending is ending"
	refute_output 'process checked'
	flmem watch --pid "$ending" --duration 1s
	assert_status 3
}

@test "a limit of the process is a limit" {
	requires "$PYTHON"
	start_victim /bin/sh -c "ulimit -v 1000000; ulimit -d 900000
exec $PYTHON -uc 'import time; print(\"ready\"); time.sleep(1000)'"
	flmem detect --json --pid "$VICTIM"
	assert_schema detect
	[ "$(value 'p["limit"]["address_space_max_bytes"]')" = 1024000000 ]
	[ "$(value 'p["limit"]["data_max_bytes"]')" = 921600000 ]
	local size
	size=$(awk '/^VmSize:/ { print $2 * 1024 }' "/proc/$VICTIM/status")
	[ "$(value 'p["limit"]["address_space_left_bytes"]')" = $((1024000000 - size)) ]
	flmem detect --pid "$VICTIM"
	assert_output 'limit +977 MiB for its address space \(ulimit -v\), .* left'
	assert_output ' +879 MiB for its data \(ulimit -d\), .* left'
	start_victim "$PYTHON" -uc 'import time; print("ready"); time.sleep(1000)'
	flmem detect --json --pid "$VICTIM"
	[ "$(value 'p["limit"]["data_max_bytes"]')" = None ]
	flmem detect --pid "$VICTIM"
	refute_output 'ulimit'
}

lazy_bytes() {
	awk '/^LazyFree:/ { print $2 * 1024 }' "/proc/$VICTIM/smaps_rollup"
}

@test "memory that the program has released with MADV_FREE is not live" {
	requires "$PYTHON"
	start_victim "$PYTHON" -uc '
import ctypes, mmap, time
size = 64 << 20
memory = mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
memory.write(b"x" * size)
view = (ctypes.c_char * size).from_buffer(memory)
libc = ctypes.CDLL(None, use_errno=True)
if libc.madvise(ctypes.c_void_p(ctypes.addressof(view)), ctypes.c_size_t(size), 8):
    raise OSError(ctypes.get_errno())
print("ready", flush=True)
time.sleep(1000)'
	local before after
	before=$(lazy_bytes)
	flmem detect --json --pid "$VICTIM"
	after=$(lazy_bytes)
	assert_schema detect
	[ "$before" -gt 0 ] && [ "$after" -gt 0 ] || skip "the kernel has taken it already"
	# The kernel counts the last pages of each processor a moment later, and reclaims some under
	# pressure.
	[ "$(value "min($before, $after) <= p['memory']['madv_free_bytes'] <= max($before, $after)")" = True ]
	[ "$(value 'p["verdict"]["class"]')" = cached ]
	[ "$(value 'p["verdict"]["bytes"]["live_bytes"] < (32 << 20)')" = True ]
}

@test "where the main thread has exited, nothing false is said of the kernel" {
	requires "$PYTHON"
	start_victim "$PYTHON" -uc '
import ctypes, threading, time
def wait():
    print("ready", flush=True)
    time.sleep(1000)
threading.Thread(target=wait).start()
time.sleep(0.1)
ctypes.CDLL(None).syscall(60 if __import__("os").uname().machine == "x86_64" else 93, 0)'
	wait_until 60 grep -q '^State:.*Z' "/proc/$VICTIM/status"
	flmem detect --pid "$VICTIM"
	assert_error 3 'main thread .* has exited while other threads still run; flmem does not read'
}

@test "a limit of arenas with text behind it is the one that malloc has read" {
	requires "$PYTHON"
	MALLOC_ARENA_MAX=4x start_victim "$PYTHON" -uc 'import time; print("ready"); time.sleep(1000)'
	flmem detect --pid "$VICTIM" --json
	local arenas
	arenas=$(value 'p["heap"]["arena_max"]')
	flmem recommend --pid "$VICTIM" --role client
	if [ "$arenas" = 4 ]; then # glibc up to 2.38
		refute_output LIVE-ARENA-IGNORED
	else
		assert_output LIVE-ARENA-IGNORED
	fi
}
