#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Programs whose allocator calls functions of theirs (hooks): a borrowed thread must not run them.

load helpers

LIBRARIES=/usr/lib/x86_64-linux-gnu

# start_hooked PRELOADED PROGRAM ARENA: starts the victim with hooks.
start_hooked() {
	INPUT=$BATS_TEST_TMPDIR/input
	[ -e "$INPUT" ] || mkfifo "$INPUT"
	start_victim /bin/sh -c "export LD_PRELOAD='$1' MALLOC_CONF='$CONF'; exec \"\$@\" <>'$INPUT'" \
		sh "$FLMEM_VICTIMS/allocators/$2" "$3"
}

# start_forking PROGRAM PRELOADED LIBRARY WHO: starts the victim that forks.
start_forking() {
	INPUT=$BATS_TEST_TMPDIR/input
	[ -e "$INPUT" ] || mkfifo "$INPUT"
	GLIBC_TUNABLES=glibc.rtld.optional_static_tls=16384 start_victim /bin/sh -c \
		"LD_PRELOAD=$2 exec \"\$@\" <>'$INPUT'" sh "$FLMEM_VICTIMS/$1" "$3" "$4"
}

says_go_on() {
	grep -q '^go on' "$VICTIM_LOG"
}

assert_goes_on() {
	printf . >"$INPUT"
	wait_until 20 says_go_on
	assert_victim_unharmed
}

# refused REASON: checks that trim and query are refused, and that the program continues.
refused() {
	flmem trim --pid "$VICTIM" --timeout 1s
	assert_error 5 "$1"
	flmem detect --ask-runtime --pid "$VICTIM"
	[[ $stderr =~ $1 ]] || fail "the query says: $stderr"
	assert_goes_on
	stop_victims
}

released() {
	flmem trim --pid "$VICTIM"
	assert_status 0
	assert_goes_on
	stop_victims
}

@test "no thread runs the extent hooks of a program with jemalloc" {
	local jemalloc=$LIBRARIES/libjemalloc.so.2 reason='has set arena\.[0-9]+\.extent_hooks of jemalloc'
	requires "$jemalloc" victim:allocators/hooked
	CONF=narenas:1 start_hooked "$jemalloc" hooked 0
	# A dry run makes no calls, and reports what it therefore does not know.
	flmem trim --pid "$VICTIM" --dry-run
	assert_status 0
	assert_output 'only calls of jemalloc show whether the program has set its hooks'
	refused "$reason"
	# The arena is not among those of the first query.
	CONF=narenas:40 start_hooked "$jemalloc" hooked 33
	refused 'has set arena\.33\.extent_hooks of jemalloc'
	CONF=narenas:40 start_hooked "$jemalloc" hooked none
	released
}

@test "the hooks of a jemalloc that is built in are distinguished from its own functions by their symbols" {
	requires victim:allocators/hooked-built-in victim:allocators/hooked-built-in-stripped
	CONF='' start_hooked '' hooked-built-in 0
	refused 'has set arena\.0\.extent_hooks of jemalloc'
	CONF='' start_hooked '' hooked-built-in none
	released
	CONF='' start_hooked '' hooked-built-in-stripped none
	flmem trim --pid "$VICTIM" --timeout 1s
	assert_error 5 'whether arena\.0\.extent_hooks of jemalloc .* is unknown'
	assert_goes_on
}

@test "no thread runs what a program frees later by mimalloc" {
	local mimalloc=$LIBRARIES/libmimalloc.so.2
	requires "$mimalloc" victim:allocators/hooked
	CONF='' start_hooked "$mimalloc" hooked 0
	flmem trim --pid "$VICTIM" --dry-run
	assert_error 5 'mi_register_deferred_free'
	refused 'has set a function \(mi_register_deferred_free\) of mimalloc'
	CONF='' start_hooked "$mimalloc" hooked none
	released
}

@test "no thread runs the system allocator that a program gave tcmalloc" {
	local tcmalloc=$LIBRARIES/libtcmalloc_minimal.so.4
	requires "$tcmalloc" victim:allocators/hooked
	CONF='' start_hooked "$tcmalloc" hooked 0
	refused 'has set a system allocator \(SysAllocator\) of tcmalloc'
	CONF='' start_hooked "$tcmalloc" hooked none
	released
}

@test "no thread runs the extension that a program gave tcmalloc" {
	local tcmalloc=$LIBRARIES/libtcmalloc_minimal.so.4
	requires "$tcmalloc" victim:allocators/hooked
	CONF='' start_hooked "$tcmalloc" hooked extension
	refused 'has set an extension \(MallocExtension::Register\) of tcmalloc'
}

@test "the classes of a tcmalloc that is built in are distinguished from those of the program" {
	requires victim:allocators/hooked-tcmalloc
	CONF='' start_hooked '' hooked-tcmalloc extension
	refused 'has set an extension \(MallocExtension::Register\) of tcmalloc'
	CONF='' start_hooked '' hooked-tcmalloc 0
	refused 'has set a system allocator \(SysAllocator\) of tcmalloc'
	CONF='' start_hooked '' hooked-tcmalloc none
	released
}

# start_held PRELOADED SETTER [later]: starts a victim whose malloc() waits while its only thread
# waits for input. `later`: it sets the hook after a byte of input, for which it waits with the
# interpreter's lock.
start_held() {
	INPUT=$BATS_TEST_TMPDIR/input
	[ -e "$INPUT" ] || mkfifo "$INPUT"
	start_victim /bin/sh -c "export LD_PRELOAD='$1'; exec \"\$@\" <>'$INPUT'" sh /usr/bin/python3 -uc '
import ctypes, sys
held = ctypes.CDLL(sys.argv[1])
if sys.argv[3:]:
    print("ready", flush=True)
    ctypes.PyDLL(None).read(0, ctypes.create_string_buffer(1), 1)
assert not sys.argv[2] or held.held_hook(sys.argv[2].encode())
sys.argv[3:] or print("ready", flush=True)
while held.held_read(0) == 1:
    print("go on", flush=True)' "$FLMEM_VICTIMS/allocators/held.so" "${@:2}"
}

@test "no thread is started where malloc() would run a function of the program" {
	local tcmalloc=$LIBRARIES/libtcmalloc_minimal.so.4 setter
	requires "$tcmalloc" /usr/bin/python3 "$FLMEM_VICTIMS/allocators/held.so"
	for setter in MallocHook_AddNewHook MallocHook_AddDeleteHook; do
		start_held "$tcmalloc" "$setter"
		flmem_in_time trim --gc --pid "$VICTIM" --timeout 1s
		assert_status 8
		assert_output "gc\.collect +refused: .* has set $setter of tcmalloc"
		assert_goes_on
		stop_victims
	done
	start_held "$tcmalloc" ''
	allow_victim --code
	allow_victim --moved
	flmem_in_time trim --gc --pid "$VICTIM"
	assert_status 0
	assert_goes_on
}

# refused_late COMMAND OPTIONS: checks a refusal where the hook is set while flmem waits.
refused_late() {
	local running
	start_held "$LIBRARIES/libtcmalloc_minimal.so.4" MallocHook_AddNewHook later
	"$FLMEM" "$@" --pid "$VICTIM" --timeout 5s >"$BATS_TEST_TMPDIR/late" 2>&1 &
	running=$!
	sleep 1 # the first check is over; flmem waits for the interpreter's lock
	printf x >"$INPUT"
	wait "$running" || true
	run cat "$BATS_TEST_TMPDIR/late"
	assert_output 'has set MallocHook_AddNewHook of tcmalloc'
	allow_victim --moved
	assert_goes_on
	stop_victims
}

@test "nor is one where the program sets the hook while flmem waits for a thread" {
	requires "$LIBRARIES/libtcmalloc_minimal.so.4" /usr/bin/python3 "$FLMEM_VICTIMS/allocators/held.so"
	refused_late trim --gc
	[ "$(uname -m)" != x86_64 ] || refused_late profile attach -o "$BATS_TEST_TMPDIR/late.prof"
	[ ! -e "$BATS_TEST_TMPDIR/late.prof" ]
}

@test "no thread is started where malloc() is a function that flmem does not know" {
	local own=$FLMEM_VICTIMS/allocators/wrapped.so
	requires /usr/bin/python3 "$own" "$FLMEM_VICTIMS/allocators/held.so"
	start_held "$own" ''
	flmem trim --gc --pid "$VICTIM" --timeout 1s
	assert_error 5 "starting a thread in process [0-9]+ calls malloc\(\) of '.*wrapped\.so'"
	if [ "$(uname -m)" = x86_64 ]; then
		flmem profile attach -o "$BATS_TEST_TMPDIR/own.prof" --pid "$VICTIM" --timeout 1s
		assert_error 5 "starting a thread in process [0-9]+ calls malloc\(\) of '.*wrapped\.so'"
		[ ! -e "$BATS_TEST_TMPDIR/own.prof" ]
	fi
	assert_goes_on
}

@test "nor is an allocator called beside it, which may need memory for the thread" {
	local own=$FLMEM_VICTIMS/allocators/wrapped.so jemalloc=$LIBRARIES/libjemalloc.so.2
	requires /usr/bin/python3 "$own" "$jemalloc"
	GLIBC_TUNABLES=glibc.rtld.optional_static_tls=16384 LD_PRELOAD=$own start_victim \
		/usr/bin/python3 -c '
import ctypes, sys, time
block = ctypes.CDLL(sys.argv[1]).malloc(100)
print("ready", flush=True)
time.sleep(1000)' "$jemalloc"
	flmem trim --pid "$VICTIM" --timeout 1s
	assert_error 5 "calling the jemalloc of process [0-9]+ calls malloc\(\) of '.*wrapped\.so'"
	flmem trim --dry-run --pid "$VICTIM"
	assert_error 5 "calling the jemalloc of process [0-9]+ calls malloc\(\) of '.*wrapped\.so'"
	assert_victim_unharmed
}

# Checks the library as malloc() (`forking_first`), and beside it.
each_fork() {
	local who jemalloc=$LIBRARIES/libjemalloc.so.2 program=allocators/$1 preload=$2
	requires "$jemalloc" "victim:$program"
	for who in own other before; do
		start_forking "$program" "$preload" "$jemalloc" "$who"
		if [ $who = before ]; then
			released
			continue
		fi
		flmem trim --dry-run --pid "$VICTIM"
		assert_error 6 'thread [0-9]+ of process [0-9]+ is inside fork\(\)'
		flmem trim --pid "$VICTIM" --timeout 1s
		assert_error 6 'thread [0-9]+ of process [0-9]+ is inside fork\(\)'
		allow_victim --moved
		assert_goes_on
		stop_victims
	done
}

@test "no thread takes the locks that handlers of fork() hold" {
	each_fork forking ""
}

@test "nor those of malloc(), where the program registers a handler before all libraries" {
	each_fork forking_first "$LIBRARIES/libjemalloc.so.2"
}

@test "no Python thread is started where the allocation for it might run a hook" {
	local jemalloc=$LIBRARIES/libjemalloc.so.2
	requires "$jemalloc" /usr/bin/python3
	LD_PRELOAD=$jemalloc start_victim /usr/bin/python3 -c '
import ctypes, time
class Hooks(ctypes.Structure):
    _fields_ = [("functions", ctypes.c_void_p * 9)]
mallctl = ctypes.CDLL(None).mallctl
own, given, length = Hooks(), ctypes.POINTER(Hooks)(), ctypes.c_size_t(8)
mallctl(b"arena.0.extent_hooks", ctypes.byref(given), ctypes.byref(length), None, ctypes.c_size_t(0))
ctypes.memmove(ctypes.byref(own), given, ctypes.sizeof(own))
now = ctypes.pointer(own)
mallctl(b"arena.0.extent_hooks", None, None, ctypes.byref(now), ctypes.c_size_t(8))
print("ready", flush=True)
time.sleep(1000)'
	flmem trim --gc --pid "$VICTIM" --timeout 1s
	assert_error 5 'has set arena\.0\.extent_hooks of jemalloc'
	assert_victim_unharmed
}

@test "nor malloc_trim beside a thread of the program that moves the break itself" {
	requires victim:safe_break
	start_victim safe_break
	flmem trim --pid "$VICTIM" --timeout 1s
	assert_error 5 'calls sbrk\(\) or brk\(\) itself'
	assert_victim_unharmed
}

@test "no thread runs the madvise() of a preloaded library" {
	local own=$FLMEM_VICTIMS/sampled/own_madvise.so library name
	requires "$own" victim:allocators/hooked
	for name in jemalloc.so.2 mimalloc.so.2 tcmalloc_minimal.so.4; do
		library=$LIBRARIES/lib$name
		[ -e "$library" ] || continue
		CONF='' start_hooked "$own:$library" hooked none
		refused "the ${name%%[._]*} of process [0-9]+ calls madvise\(\) of '.*own_madvise\.so'"
	done
	# The C library's own malloc does not call it.
	CONF='' start_hooked "$own" hooked none
	released
}

# start_registered WAY [VARIABLE=VALUE...]: starts the victim with registered blocks.
start_registered() {
	start_victim /bin/sh -c "exec env ${*:2} '$FLMEM_VICTIMS/safe_registered' $1 <>'$INPUT'"
}

# Starts a victim that replaces a function as libraries for fast networks do; the new one takes a
# lock that the blocked thread holds.
start_replaced() {
	INPUT=$BATS_TEST_TMPDIR/input
	[ -e "$INPUT" ] || mkfifo "$INPUT"
	start_victim /bin/sh -c "exec \"\$@\" <>'$INPUT'" sh /usr/bin/python3 "$FLMEM_TESTS/victims/safe_replaced.py" "$@"
}

@test "no thread runs what a library put in place of a function of the C library" {
	requires /usr/bin/python3
	[ "$(uname -m)" = x86_64 ] || skip "needs x86-64"
	start_replaced madvise
	flmem trim --pid "$VICTIM" --timeout 1s
	assert_error 5 'the code of madvise\(\) in the C library of process [0-9]+ is not that of its file, .* changed since it was loaded'
	assert_goes_on
	stop_victims
	start_replaced pthread_create
	flmem_in_time trim --pid "$VICTIM" --gc --timeout 1s --json
	assert_status 8
	[[ $output == *"the code of pthread_create() in the C library of process $VICTIM is not that of its file"* ]] || fail "$output"
	assert_goes_on
	stop_victims
	start_replaced
	released
}

# The library overwrites them as libraries do that intercept all system calls of a program: here the
# processor would trap.
@test "no thread makes system calls by instructions that a library has overwritten" {
	requires victim:safe_overwritten
	start_victim safe_overwritten
	flmem trim --pid "$VICTIM" --timeout 1s
	assert_error 5 'the instructions for system calls in the C library of process [0-9]+ have been replaced'
	assert_victim_unharmed
}

@test "memory that a device may still use is not released" {
	local way
	requires victim:safe_registered
	run_command timeout 1 "$FLMEM_VICTIMS/safe_registered"
	[ "$status" != 77 ] || skip "io_uring is not permitted here"
	INPUT=$BATS_TEST_TMPDIR/input
	mkfifo "$INPUT"
	start_registered ''
	flmem trim --pid "$VICTIM" --dry-run
	assert_error 5 'has memory registered with a device \(VmPin'
	flmem trim --pid "$VICTIM" --timeout 1s
	assert_error 5 'has set malloc\(\) to keep freed memory \(M_TRIM_THRESHOLD\)'
	assert_goes_on
	stop_victims
	for way in default busy; do
		start_registered "$way"
		released
	done
}

@test "nor by another allocator that is set to keep freed memory" {
	local library
	requires victim:safe_registered
	run_command timeout 1 "$FLMEM_VICTIMS/safe_registered"
	[ "$status" != 77 ] || skip "io_uring is not permitted here"
	INPUT=$BATS_TEST_TMPDIR/input
	mkfifo "$INPUT"
	library=$LIBRARIES/libjemalloc.so.2
	if [ -e "$library" ]; then
		start_registered '' "LD_PRELOAD=$library" MALLOC_CONF=dirty_decay_ms:-1,narenas:1
		refused 'has set jemalloc to keep freed memory \(dirty_decay_ms\)'
		start_registered arena "LD_PRELOAD=$library" MALLOC_CONF=narenas:40
		refused 'has set jemalloc to keep freed memory \(dirty_decay_ms\)'
		start_registered default "LD_PRELOAD=$library" MALLOC_CONF=narenas:40
		released
		start_registered busy "LD_PRELOAD=$library" MALLOC_CONF=dirty_decay_ms:-1,narenas:1
		released
	fi
	library=$LIBRARIES/libtcmalloc_minimal.so.4
	if [ -e "$library" ]; then
		start_registered '' "LD_PRELOAD=$library" TCMALLOC_RELEASE_RATE=0
		refused 'its tcmalloc may be set to keep freed memory \(TCMALLOC_RELEASE_RATE\)'
		start_registered default "LD_PRELOAD=$library"
		released
		start_registered busy "LD_PRELOAD=$library" TCMALLOC_RELEASE_RATE=0
		released
	fi
	library=$LIBRARIES/libmimalloc.so.2
	if [ -e "$library" ]; then
		start_registered default "LD_PRELOAD=$library"
		refused 'its mimalloc may be set to keep freed memory'
	fi
}
