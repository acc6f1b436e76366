#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Targets under seccomp filters: what may kill them is refused with its reason, what is allowed goes.

load helpers

setup() {
	requires root victim:safe_seccomp
	[ "$(uname -m)" = x86_64 ] || skip "threads are borrowed on x86-64 only"
	[ "$(status_field self Seccomp)" = 0 ] ||
		skip "the tests run under a seccomp filter: no filter can be read"
	INPUT=$BATS_TEST_TMPDIR/input
	export VICTIM_STATUS=$BATS_TEST_TMPDIR/status
}

# start_filtered FILTER WHERE [LIBRARY]: starts a victim under the filter; the library is preloaded.
start_filtered() {
	[ -e "$INPUT" ] || mkfifo "$INPUT"
	head -c 4096 /dev/zero >"$VICTIM_STATUS"
	start_victim /bin/sh -c "export LD_PRELOAD='${3:-}'; exec \"\$@\" <>'$INPUT'" sh "$FLMEM_VICTIMS/safe_seccomp" "$1" "$2"
}

rounds() {
	od -An -tu8 -N8 "$VICTIM_STATUS"
}

has_rounds() {
	[ "$(rounds)" -gt "$1" ]
}

# Checks that the victim still works, with an undamaged heap.
assert_goes_on() {
	local before
	before=$(rounds)
	assert_victim_unharmed
	printf . >"$INPUT"
	wait_until 30 has_rounds "$before"
	assert_victim_unharmed
	[ "$(od -An -tu8 -j8 -N8 "$VICTIM_STATUS")" -eq 0 ] || fail "the victim found damage"
}

# refused FILTER WHERE REASON: checks for a refusal with exit status 5.
refused() {
	start_filtered "$1" "$2"
	flmem trim --pid "$VICTIM"
	assert_goes_on
	assert_error 5 "$3"
	stop_victims
}

# released FILTER WHERE: checks for a successful trim.
released() {
	start_filtered "$1" "$2"
	flmem trim --pid "$VICTIM"
	assert_goes_on
	assert_status 0
	assert_output "[0-9.]+ [KM]iB released"
	stop_victims
}

@test "a filter that kills for a call of malloc_trim" {
	refused kill-madvise all "would kill the process for madvise.*, which malloc_trim makes"
	refused trap-brk all "would raise SIGSYS for brk"
}

@test "a filter that kills for an argument of it" {
	refused kill-dontneed all "would kill the process for madvise\(\?, \?, 4"
	refused thread-dontneed all "would kill the thread for madvise\(\?, \?, 4"
	refused kill-wake all "would kill the process for futex\(\?, 129"
	released kill-hugepage all
}

@test "a filter that decides by an argument that is not known" {
	refused kill-one-length all "could kill the process for madvise"
}

@test "filters that hand the call to another process" {
	refused notify-madvise all "would make the thread wait for another process for madvise"
	refused trace-madvise all "would hand the thread to a tracer for madvise"
}

@test "a filter that makes the call fail, one that writes it to the log" {
	refused error-madvise all "would return an error for madvise"
	released log-madvise all
}

@test "filters that kill for what every borrowed thread makes" {
	refused kill-sleep all "would kill the process for nanosleep"
	refused kill-clock all "would kill the process for clock_gettime"
	refused kill-sigreturn all "would kill the process for rt_sigreturn"
}

@test "a thread that sleeps, whose filter kills for restart_syscall, is let go without it" {
	start_filtered kill-restart sleep
	flmem trim --pid "$VICTIM"
	assert_error 5 "would kill the process for restart_syscall"
	assert_victim_unharmed
	wait_until 60 has_rounds 0
	assert_victim_unharmed
	[ "$(od -An -tu8 -j16 -N8 "$VICTIM_STATUS")" -eq 0 ] || fail "its sleep was interrupted"
}

@test "a filter on one thread only" {
	refused kill-dontneed only "the seccomp filter of thread [0-9]+ of process [0-9]+ would kill the process"
	released kill-dontneed worker
}

@test "what a container engine sets by default" {
	released container all
	released error-swapon all
}

@test "allocators make no other calls than are listed" {
	local library tried=
	released listed only
	for library in libjemalloc.so.2 libtcmalloc_minimal.so.4 libmimalloc.so.2; do
		library=/usr/lib/$(uname -m)-linux-gnu/$library
		[ -e "$library" ] || continue
		tried=yes
		start_filtered listed only "$library"
		flmem trim --pid "$VICTIM"
		assert_status 0
		alive "$VICTIM" || fail "it was killed"
		snapshot_victim # these allocators split and join their mappings
		assert_goes_on
		stop_victims
	done
	[ "$tried" ] || skip "glibc only: no other allocator is installed"
}

@test "system calls that are dispatched to the program" {
	start_filtered dispatch all
	[[ $(uname -r) != 5.* ]] || skip "this kernel does not show it"
	flmem trim --pid "$VICTIM"
	assert_goes_on
	assert_error 5 "PR_SET_SYSCALL_USER_DISPATCH"
}

@test "flmem under a filter of its own cannot know the target's, and says what to do" {
	local wrapped=("$FLMEM_VICTIMS/safe_seccomp" error-swapon run "$FLMEM")
	start_filtered kill-dontneed all
	run_command "${wrapped[@]}" trim --pid "$VICTIM"
	assert_goes_on
	assert_error 4 'flmem itself runs under a seccomp filter.*root on the host.*--assume-seccomp'
	run_command "${wrapped[@]}" trim --pid "$VICTIM" --dry-run
	assert_error 4 '--assume-seccomp'
	stop_victims
	start_filtered container all
	run_command "${wrapped[@]}" trim --pid "$VICTIM"
	assert_error 4 '--assume-seccomp'
	assert_goes_on
	run_command "${wrapped[@]}" trim --pid "$VICTIM" --assume-seccomp
	assert_goes_on
	assert_status 0
	assert_output "[0-9.]+ [KM]iB released"
}

@test "--assume-seccomp that is wrong kills, and the message says what may have killed" {
	start_filtered kill-dontneed all
	run_command "$FLMEM_VICTIMS/safe_seccomp" error-swapon run "$FLMEM" trim --pid "$VICTIM" \
		--assume-seccomp
	assert_error 3 'ended during the call; if one of its seccomp filters killed it, --assume-seccomp'
	! alive "$VICTIM" || fail "the filter was meant to kill it"
}

@test "without CAP_SYS_ADMIN the filter cannot be read" {
	requires setpriv
	start_filtered container all
	run_command setpriv --inh-caps=-sys_admin --bounding-set=-sys_admin "$FLMEM" \
		trim --pid "$VICTIM"
	assert_goes_on
	assert_error 4 'flmem lacks CAP_SYS_ADMIN'
}

@test "a dry run evaluates the filters as the trim does" {
	start_filtered kill-dontneed all
	flmem trim --pid "$VICTIM" --dry-run
	assert_goes_on
	assert_error 5 "would kill the process for madvise"
	flmem trim --pid "$VICTIM"
	assert_error 5 "would kill the process for madvise"
	stop_victims
	start_filtered container all
	flmem trim --pid "$VICTIM" --dry-run
	assert_goes_on
	assert_status 0
	assert_output 'would release'
}

@test "detect advises a dry run where filters may refuse the trim" {
	requires python3 /usr/bin/python3
	start_victim "$FLMEM_VICTIMS/safe_seccomp" container run /usr/bin/python3 -uc '
import time
blocks = [bytes(3000) for _ in range(20000)]
kept = blocks[::64]
del blocks
print("ready", flush=True)
time.sleep(1000)'
	flmem detect --pid "$VICTIM"
	assert_status 0
	assert_output "flmem trim --dry-run --pid $VICTIM"
	refute_output "flmem trim --pid $VICTIM"
}

@test "--assume-seccomp does not overrule a filter that was read" {
	start_filtered kill-dontneed all
	flmem trim --pid "$VICTIM" --assume-seccomp
	assert_goes_on
	assert_error 5 "would kill the process for madvise"
}

# start_python NUMBER ACTION all|main|worker: starts a Python that filters these threads through
# ctypes when everything is loaded.
start_python() {
	start_victim /usr/bin/python3 -uc '
import ctypes, os, struct, sys, threading, time
libc = ctypes.CDLL(None, use_errno=True)
number, action, where = int(sys.argv[1]), int(sys.argv[2], 0), sys.argv[3]
def instruction(code, value, yes=0, no=0):
    return struct.pack("<HBBI", code, yes, no, value)
code = (instruction(0x20, 0) + instruction(0x15, number, 0, 1) + instruction(6, action)
        + instruction(6, 0x7fff0000))
code = ctypes.create_string_buffer(code)
program = struct.pack("<HxxxxxxQ", 4, ctypes.addressof(code))
def install():
    if libc.prctl(38, 1, 0, 0, 0) or libc.prctl(22, 2, program):
        sys.exit("no filter: errno %d" % ctypes.get_errno())
class Cycle:
    def __init__(self):
        self.itself, self.content = self, bytes(20000)
for _ in range(500):
    Cycle()
started = threading.Event()
if where == "all":
    install()
def be_worker():
    if where == "worker":
        install()
    started.set()
    time.sleep(1000)
threading.Thread(target=be_worker, daemon=True).start()
started.wait()
if where == "main":
    install()
print("ready", flush=True)
time.sleep(1000)' "$1" "$2" "$3"
}

KILL=0x80000000
EPERM=0x50001

@test "Python whose filter came when it ran, and kills for openat or what no list names" {
	requires /usr/bin/python3
	allow_victim --code
	start_python 257 $KILL all
	flmem trim --pid "$VICTIM" --gc
	assert_victim_unharmed
	assert_status 8
	assert_stderr "would kill the process for openat\(-100, \?, 524289, ...\), which flmem.s Python code makes"
	start_python 999 $KILL all # nobody makes this call
	flmem trim --pid "$VICTIM" --gc
	assert_victim_unharmed
	assert_status 0
	start_python 167 $KILL all
	flmem trim --pid "$VICTIM" --python /dev/null
	assert_victim_unharmed
	assert_status 8
	assert_stderr "would kill the process for system call 167"
}

@test "Python with a filter on one thread: another one runs the code" {
	requires /usr/bin/python3
	allow_victim --code
	local where
	for where in main worker; do
		start_python 257 $KILL "$where"
		flmem trim --pid "$VICTIM" --gc
		assert_victim_unharmed
		assert_status 0
		start_python 167 $EPERM "$where"
		flmem trim --pid "$VICTIM" --gc --json
		assert_victim_unharmed
		assert_status 0
		# shellcheck disable=SC2016 # Python
		examine 'import json, os, sys
thread = json.load(sys.stdin)["results"][0]["steps"][0]["thread"]
text = open(f"/proc/{thread}/status").read()
sys.exit("Seccomp:\t2" in text)'
	done
}

# Starts a Python all of whose threads have the filter.
start_filtered_python() {
	start_victim "$FLMEM_VICTIMS/safe_seccomp" "$1" run /usr/bin/python3 -uc '
import time
class Cycle:
    def __init__(self):
        self.itself, self.content = self, bytes(20000)
for _ in range(500):
    Cycle()
print("ready", flush=True)
'"${2:-time.sleep(1000)}"
}

@test "all of Python under one filter" {
	requires /usr/bin/python3
	allow_victim --code
	start_filtered_python kill-clone3
	flmem trim --pid "$VICTIM" --gc
	assert_status 8
	assert_stderr "would kill the process for clone3\(...\), which starting a thread makes"
	assert_victim_unharmed
	start_filtered_python error-clone3
	flmem trim --pid "$VICTIM" --gc
	assert_status 8
	assert_stderr "would return an error for clone3"
	assert_victim_unharmed
	start_filtered_python kill-swapon
	flmem trim --pid "$VICTIM" --gc
	assert_status 8
	assert_stderr "kill the process for system call 167.*Python code of the program may make; .*--assume-seccomp"
	assert_victim_unharmed
	flmem trim --pid "$VICTIM" --gc --assume-seccomp
	assert_status 0
	assert_victim_unharmed
	start_filtered_python container
	flmem trim --pid "$VICTIM" --gc
	assert_status 0
	assert_output "gc.collect"
	assert_victim_unharmed
}

@test "a Python that computes, under a filter that kills" {
	requires /usr/bin/python3
	start_filtered_python kill-clone3 '
while True:
    sum(range(100))'
	flmem trim --pid "$VICTIM" --gc
	[ "$status" -ne 0 ] || fail "not refused"
	assert_stderr "would kill the process for clone3"
	assert_victim_unharmed
}

@test "a call that another process makes for a thread is not interrupted" {
	local options
	requires victim:safe_notified
	grep -q seccomp_do_user_notification /proc/kallsyms || skip "the kernel has no symbols"
	mkfifo "$INPUT"
	start_victim /bin/sh -c "exec '$FLMEM_VICTIMS/safe_notified' <>'$INPUT'"
	for options in --dry-run '' --assume-seccomp; do
		# shellcheck disable=SC2086 # an option, or none
		flmem trim --pid "$VICTIM" --timeout 200ms $options
		assert_error 6 'its only thread has its system call made by another process \(seccomp\)'
		assert_victim_unharmed
	done
	printf . >"$INPUT"
	wait_until 30 grep -q '^result' "$VICTIM_LOG"
	grep -q '^result 1$' "$VICTIM_LOG" || fail "the call was made again: $(cat "$VICTIM_LOG")"
}

# kept_waiting HOW TEXT: checks that the thread's wait goes on, whatever flmem does with the thread.
kept_waiting() {
	start_victim /bin/sh -c "exec '$FLMEM_VICTIMS/safe_refiltered' '$1' <>'$INPUT'"
	flmem trim --pid "$VICTIM" --timeout 200ms
	assert_victim_unharmed
	assert_error 5 "$2"
	flmem trim --pid "$VICTIM" --timeout 200ms --dry-run
	assert_victim_unharmed
	[ "$(rounds)" -eq 0 ] || fail "its wait has ended"
	printf . >"$INPUT"
	wait_until 30 has_rounds 0
	[ "$(od -An -tu8 -j8 -N8 "$VICTIM_STATUS")" -eq 0 ] || fail "$(tail -c +25 "$VICTIM_STATUS" | tr -d '\0')"
	stop_victims
	head -c 4096 /dev/zero >"$VICTIM_STATUS"
}

@test "a call that is not allowed any more goes on" {
	requires victim:safe_refiltered
	mkfifo "$INPUT"
	head -c 4096 /dev/zero >"$VICTIM_STATUS"
	kept_waiting kill "would kill the process for read"
	kept_waiting error "would return an error for read"
	kept_waiting trace "would hand the thread to a tracer for read"
	kept_waiting gone "would make the thread wait for another process for read"
	kept_waiting silent "would make the thread wait for another process for read"
}

@test "--assume-seccomp goes with --auto and --ask-runtime" {
	flmem watch --pid 1 --assume-seccomp
	assert_error 2 '--assume-seccomp'
	start_filtered container all
	flmem detect --pid "$VICTIM" --ask-runtime --assume-seccomp
	assert_status 0
	assert_goes_on
}
