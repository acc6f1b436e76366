#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2031,SC2153 # every test has its own status
# What `flmem profile attach` meets in a process: calls that the linker binds while they are
# redirected, and long lines in the list of its mappings.

load helpers
load profile_attach

# Starts a Python with threads that are stopped in the middle of binding, one in each of four
# libraries.
start_binding() {
	local i libraries=()
	requires victim:sampled/bound.so
	for i in 1 2 3 4; do
		cp "$FLMEM_VICTIMS/sampled/lazy.so" "$BATS_TEST_TMPDIR/lazy.$i.so"
		libraries+=("$BATS_TEST_TMPDIR/lazy.$i.so")
	done
	rm -f "$BATS_TEST_TMPDIR/go"
	mkfifo "$BATS_TEST_TMPDIR/go"
	start_victim /usr/bin/python3 -c '
import ctypes, sys
bound = ctypes.CDLL(sys.argv[1])
for path in sys.argv[3:]:
    assert bound.stop_binding(path.encode()) == 0
print("ready", flush=True)
go = open(sys.argv[2], "r+b", buffering=0)
while go.read(1):
    bound.call_all()
    print("called", flush=True)' "$FLMEM_VICTIMS/sampled/bound.so" "$BATS_TEST_TMPDIR/go" "${libraries[@]}"
}

# Prints the number of libraries whose entry for malloc() leads to the sampler.
count_bound() {
	got redirected "$VICTIM" | grep -o 'lazy\.[1-4]\.so' | sort -u | wc -l
}

has_called() {
	[ "$(grep -c called "$VICTIM_LOG")" = "$1" ] || ! alive "$VICTIM"
}

call_all() {
	printf x >"$BATS_TEST_TMPDIR/go"
	wait_until 60 has_called "$1"
	alive "$VICTIM" || fail "it died: $(cat "$VICTIM_LOG")"
}

# A thread that has to wait for a processor longer than attach takes writes its entry afterwards.
@test "an entry that the linker writes just when it is redirected is redirected again" {
	local try found=0
	for try in {1..5}; do
		start_binding
		attach --interval 1
		call_all 1
		found=$(count_bound)
		detach
		[ "$(count_bound)" = 0 ]
		call_all 2
		stop_victims
		((found == 0)) || break
	done
	((found > 0)) || fail "never in $try tries"
}

@test "a process that has mapped a file with a path of 20 KiB is attached to and left" {
	start_victim /usr/bin/python3 -c '
import mmap, os, sys, time
os.chdir(sys.argv[1])
for _ in range(80):
    os.mkdir("d" * 250)
    os.chdir("d" * 250)
with open("file", "w+b") as file:
    file.truncate(4096)
    mapped = mmap.mmap(file.fileno(), 4096)
os.unlink("file")
for _ in range(80):
    os.chdir("..")
    os.rmdir("d" * 250)
print("ready", flush=True)
time.sleep(1000)' "$BATS_TEST_TMPDIR"
	got snapshot "$VICTIM" >"$BATS_TEST_TMPDIR/got"
	attach
	[[ $(got redirected "$VICTIM") != 0* ]]
	detach
	got check "$VICTIM" "$BATS_TEST_TMPDIR/got"
}

@test "a process with a damaged heap: refused, since the library would be loaded by a thread that uses it" {
	start_victim /usr/bin/python3 -B "$FLMEM_TESTS/victims/damaged_heap.py"
	flmem profile attach --pid "$VICTIM" -o "$PROFILE" --timeout 1s
	assert_error 6 'malloc_trim could crash it'
	[ ! -e "$PROFILE" ]
	assert_victim_unharmed
}

@test "a detach while attach waits for the linker leaves no entry redirected" {
	start_attachable
	# The library has an entry that is not bound yet, so attach waits.
	order keep "$FLMEM_VICTIMS/sampled/patched.so"
	for _ in {1..5}; do
		order call "$FLMEM_VICTIMS/sampled/threads.so" detach_when_attached
		got snapshot "$VICTIM" >"$BATS_TEST_TMPDIR/got"
		# If the answer is late, flmem finds that nothing is sampled.
		flmem profile attach --pid "$VICTIM" -o "$PROFILE" --force
		flmem profile detach --pid "$VICTIM"
		assert_error 5 'is not sampled'
		got check "$VICTIM" "$BATS_TEST_TMPDIR/got"
		assert_sound
	done
}

# start_confined NUMBER: starts a Python that is killed for this system call.
start_confined() {
	start_victim /usr/bin/python3 -uc '
import ctypes, sys, time
libc = ctypes.CDLL(None)
class Row(ctypes.Structure):
    _fields_ = [("code", ctypes.c_ushort), ("true", ctypes.c_ubyte), ("false", ctypes.c_ubyte), ("k", ctypes.c_uint)]
class Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("rows", ctypes.POINTER(Row))]
rows = (Row * 4)(Row(0x20), Row(0x15, 1, 0, int(sys.argv[1])), Row(0x06, 0, 0, 0x7fff0000), Row(0x06, 0, 0, 0x80000000))
assert libc.prctl(38, 1, 0, 0, 0) == 0 and libc.prctl(22, 2, ctypes.byref(Program(4, rows))) == 0
print("ready", flush=True)
time.sleep(1000)' "$1"
}

@test "a filter that kills for a call of the sampler: refused, also with --assume-seccomp" {
	local call options
	requires root
	[ "$(status_field self Seccomp)" = 0 ] || skip "the tests run under a seccomp filter: no filter can be read"
	for call in 27:mincore 131:sigaltstack 311:process_vm_writev; do
		for options in '' --assume-seccomp; do
			start_confined "${call%:*}"
			# shellcheck disable=SC2086 # of one word or of none
			flmem profile attach --pid "$VICTIM" -o "$PROFILE" $options
			assert_error 5 "would kill the process for ${call#*:}\(...\), which the sampler makes"
			assert_victim_unharmed
			stop_victims
		done
	done
	[ ! -e "$PROFILE" ]
}

@test "a process whose root has no /proc, or without a free descriptor: refused with the reason, nothing is left" {
	local root=$BATS_TEST_TMPDIR/root first=0
	requires root prlimit
	mkdir -p "$root/tmp"
	start_attachable
	while [ -e "/proc/$VICTIM/fd/$first" ]; do
		first=$((first + 1))
	done
	prlimit --pid "$VICTIM" --nofile="$first:"
	flmem profile attach --pid "$VICTIM" -o "$PROFILE"
	assert_error 7 'did not load the sampler: .*free descriptor'
	prlimit --pid "$VICTIM" --nofile="$(ulimit -Hn):"
	attach
	detach
	assert_sound
	order call libc.so.6 chroot "$root"
	flmem profile attach --pid "$VICTIM" -o "/proc/$VICTIM/root/tmp/p.prof"
	assert_error 6 'has no /proc in its root directory'
	[ -z "$(ls -A "$root/tmp")" ]
	assert_sound
}
