#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# A Python whose main thread computes with the lock of its list of pending calls in its hands: a call
# of Py_AddPendingCall() on that very thread would wait for itself, for ever.

load helpers

# One thread that only computes, and that has taken the lock or not: a semaphore until 3.11, at the
# offsets that runtimes/cpython_pending.c names.
start_computing() {
	start_victim /usr/bin/python3 -uc '
import ctypes, sys
api = ctypes.pythonapi
api.PyInterpreterState_Get.restype = ctypes.c_void_p
offset = {9: 80, 10: 80, 11: 112}[sys.version_info[1]]
semaphore = ctypes.c_void_p.from_address(api.PyInterpreterState_Get() + offset).value
word = ctypes.c_int.from_address(semaphore)
assert word.value == 1, word.value
if sys.argv[1] == "held":
    word.value = 0
print("ready", flush=True)
while True:
    sum(range(1000))
' "$1"
}

setup() {
	requires python3 /usr/bin/python3
	case $(/usr/bin/python3 -c 'import sys; print(sys.version_info[1])') in
	9 | 10 | 11) ;;
	*) skip "this /usr/bin/python3 has its lock elsewhere" ;;
	esac
	allow_victim --code
}

@test "a main thread that does not hold the lock announces the call" {
	start_computing free
	flmem trim --pid "$VICTIM" --gc --timeout 5s --json
	assert_output '"entry_point":[[:space:]]*"pending call"'
	assert_output '"detail":[[:space:]]*"[0-9]+ objects"'
	assert_victim_unharmed
}

@test "a main thread that holds the lock is left alone" {
	start_computing held
	flmem trim --pid "$VICTIM" --gc --timeout 500ms --json
	assert_status 6
	assert_output 'is adding a pending call itself'
	assert_victim_unharmed
}
