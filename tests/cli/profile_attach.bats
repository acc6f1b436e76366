#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# flmem profile attach and detach: a Python process that nobody prepared, with threads that allocate.

# Every test has its own status.
# shellcheck disable=SC2030,SC2031,SC2153
load helpers
load profile_attach

teardown() {
	[ -z "${SERVER:-}" ] || kill "$SERVER" || true
	[ -z "${FOLDER:-}" ] || rm -rf "$FOLDER"
	stop_attachable
}

# Checks the library's file that the process has mapped; others belong to other tests.
no_library_left() {
	local file files
	mapfile -t files < <(grep -oE '/[^ ]*/\.flmem-[0-9a-f]+\.so' "/proc/$VICTIM/maps" | sort -u)
	((${#files[@]} > 0)) || fail "no library of flmem is mapped"
	for file in "${files[@]}"; do
		[ ! -e "$file" ] || return 1
	done
}

check_attach() {
	start_attachable
	# The library has an entry that is not bound yet, and nobody calls it.
	order keep "$FLMEM_VICTIMS/sampled/patched.so"
	got snapshot "$VICTIM" >"$BATS_TEST_TMPDIR/got"
	attach --interval 64KiB --json
	assert_schema profile-attach
	[ "$(field 'r["entries"]["redirected"] > 10 and r["stopped_us"] is not None')" = True ]
	# The first attach holds a thread for each of its calls, and only for that time.
	[ "$(field '0 < r["longest_stop_us"] < r["stopped_us"] <= r["stops"] * r["longest_stop_us"]')" = True ]
	[[ $(got redirected "$VICTIM") != 0* ]]
	assert_sound
	flmem profile stats "$PROFILE"
	assert_output ': running'
	detach --json
	assert_schema profile-detach
	got check "$VICTIM" "$BATS_TEST_TMPDIR/got"
	assert_sound
	# Neither the profile nor its tables stay mapped.
	run ! grep -F "$PROFILE" "/proc/$VICTIM/maps"
	flmem profile stats "$PROFILE"
	assert_output ': ended'
	assert_output 'attached\.py'
	# Once more, with the library that is loaded already.
	attach
	assert_sound
	detach
	got check "$VICTIM" "$BATS_TEST_TMPDIR/got"
	assert_sound
	wait_until 60 no_library_left
}

@test "every entry and protection is as it was after detach, in every Python" {
	each_python check_attach
}

# refuse_version HEX ERROR: checks that the newest Python, reporting another version, is refused.
refuse_version() {
	local version python reason home
	read -r version python reason < <(pythons | tail -n 1)
	[ "$python" != - ] || skip "$reason"
	home=$(/usr/bin/python3 -B "$FLMEM_TESTS/harness/renumbered.py" "$python" "$BATS_TEST_TMPDIR/$1" "$1")
	PYTHON=$BATS_TEST_TMPDIR/$1 start_attachable env PYTHONHOME="$home"
	flmem profile attach --pid "$VICTIM" -o "$PROFILE"
	assert_error 5 "$2"
	[ ! -e "$PROFILE" ]
	[[ $(got redirected "$VICTIM") = 0* ]]
	assert_sound
	flmem trim --gc --pid "$VICTIM" --json
	assert_output "gc.collect.*refused.*$2"
	assert_sound
	flmem detect --pid "$VICTIM" --json
	[ "$(field 'r["processes"][0]["python"]["arenas"]')" = None ]
	[ "$(field 'r["processes"][0]["python"]["threads"]')" = None ]
	stop_victims
}

# flmem does not know the arenas, threads and locks of these versions.
@test "a Python that is newer than 3.15, or a pre-release of it, is refused and not touched" {
	refuse_version 31000f0 'runs Python 3.16.0.*3.8 to 3.15'
	refuse_version 30f00c2 'pre-release'
}

make_libraries() {
	local i
	mkdir "$1"
	for i in {1..100}; do
		cp "$FLMEM_VICTIMS/sampled/sampled_one.so" "$1/$i.so"
	done
}

# PyTorch has hundreds of thousands of relocations, and Python opens a library for each module.
# Measured in processor time: twice as long, and 28 times where all libraries are checked again.
@test "only a library that the program opens is read, not all that were there before" {
	local small count
	make_libraries "$BATS_TEST_TMPDIR/libraries.1"
	make_libraries "$BATS_TEST_TMPDIR/libraries.2"
	start_attachable
	attach
	order opens "$BATS_TEST_TMPDIR/libraries.1"
	small=$ANSWER
	order load "$FLMEM_VICTIMS/sampled/relocated.so"
	order opens "$BATS_TEST_TMPDIR/libraries.2"
	((ANSWER < 10 * small)) || fail "$small ms, then $ANSWER ms"
	# Check that all entries are redirected, and put back.
	read -r count _ < <(got redirected "$VICTIM")
	((count > 200)) || fail "$count entries"
	assert_sound
	detach
	[[ $(got redirected "$VICTIM") = 0* ]]
}

@test "a library that comes to the place of one that was closed is redirected" {
	start_attachable
	attach
	order replace "$FLMEM_VICTIMS/sampled/sampled_one.so" "$FLMEM_VICTIMS/sampled/sampled_two.so"
	[ "$ANSWER" = same ] || skip "the second library is elsewhere: $ANSWER"
	[[ $(got redirected "$VICTIM") == *' sampled_two.so'* ]]
	assert_sound
	detach
	[[ $(got redirected "$VICTIM") = 0* ]]
}

@test "a leak of one bytearray per round: leaks names the line" {
	local round
	start_attachable
	attach --interval 64K # whatever a sample costs on this machine now
	flmem profile stats "$PROFILE"
	assert_output 'began after its process'
	for round in 1 2 3 4 5 6; do
		"$FLMEM" profile round "$PROFILE" "$round"
		order round
	done
	detach
	assert_sound
	flmem profile leaks "$PROFILE"
	assert_status 0
	assert_output 'keep_update \(.*/attached\.py:[0-9]+\)'
}

@test "two at once, a second detach, and a dry run" {
	start_attachable
	flmem profile attach --pid "$VICTIM" --dry-run
	assert_output '  would borrow thread [0-9]+ from '
	[[ $(got redirected "$VICTIM") = 0* ]]
	flmem profile detach --pid "$VICTIM"
	assert_error 5 'is not sampled'
	attach
	# flmem sees it in advance and does not ask the process, which does not know the file.
	flmem profile attach --pid "$VICTIM" -o "$BATS_TEST_TMPDIR/second.prof"
	assert_error 6 'already sampled, into '
	[ ! -e "$BATS_TEST_TMPDIR/second.prof" ]
	flmem profile detach --pid "$VICTIM" --dry-run
	assert_output '  would borrow thread [0-9]+ from '
	detach
	flmem profile detach --pid "$VICTIM"
	assert_status 5
	assert_sound
}

@test "of several at the same moment one attaches" {
	local number pids=() pid statuses=""
	start_attachable
	for number in 1 2 3 4; do
		"$FLMEM" profile attach --pid "$VICTIM" -o "$BATS_TEST_TMPDIR/$number.prof" \
			--timeout 60s >/dev/null 2>&1 3>&- &
		pids+=("$!")
	done
	for pid in "${pids[@]}"; do
		wait "$pid" && statuses+="0 " || statuses+="$? "
	done
	[ "$(tr -cd 0 <<<"$statuses")" = 0 ] || fail "exit statuses $statuses"
	[ "$(tr -cd 06 <<<"$statuses" | wc -c)" = 4 ] || fail "exit statuses $statuses"
	[ "$(find "$BATS_TEST_TMPDIR" -name '[1-4].prof' | wc -l)" = 1 ]
	detach
	assert_sound
}

@test "one that was started under the sampler is sampled already" {
	start_attachable "$FLMEM" profile run -o "$BATS_TEST_TMPDIR/run.prof" --
	flmem profile attach --pid "$VICTIM" -o "$PROFILE"
	assert_error 6 'already sampled'
	[ ! -e "$PROFILE" ]
	assert_sound
}

@test "libraries that are loaded while it is attached are redirected, and find their neighbours" {
	start_attachable
	got snapshot "$VICTIM" >"$BATS_TEST_TMPDIR/got"
	attach --interval 1
	# The library is found by the search path of the library that opens it, not by that of the
	# sampler.
	order open "$FLMEM_VICTIMS/sampled/opener.so"
	[ "$ANSWER" = 1 ] || fail "dlopen() of the neighbour: $ANSWER"
	[[ $(got redirected "$VICTIM") == *neighbour.so* ]] || fail "$(got redirected "$VICTIM")"
	detach
	got check "$VICTIM" "$BATS_TEST_TMPDIR/got"
	assert_sound
	flmem profile stats "$PROFILE" --json
	assert_status 0
}

# The block was allocated before, or during the attachment.
check_allocator() {
	local library=$FLMEM_VICTIMS/sampled/$1.so
	start_attachable
	order keep "$library"
	attach
	order drop
	order keep "$library"
	detach
	order drop
	attach
	order drop
	detach
	assert_sound
}

@test "an allocator that one library has for itself keeps its blocks, whatever its tables look like" {
	check_allocator sysv
	check_allocator ifunc
	check_allocator patched
	check_allocator sized
	# The library is loaded when the sampler knows no function of that name.
	start_attachable
	attach
	order keep "$FLMEM_VICTIMS/sampled/sized.so"
	order drop
	detach
	assert_sound
}

blocked_thread() {
	local task
	for task in "/proc/$VICTIM/task"/*; do
		[[ " $TASKS " == *" ${task##*/} "* ]] && continue
		# futex in two checks: the lock is not one that is held for a moment only.
		[ "$(cut -d' ' -f1 "$task/syscall")" = 202 ] || continue
		sleep 0.3
		[ "$(cut -d' ' -f1 "$task/syscall")" = 202 ] && return 0
	done
	return 1
}

list_threads() {
	local tasks=("/proc/$VICTIM/task"/*)
	TASKS=${tasks[*]##*/}
}

@test "a library that takes the interpreter's lock while another thread loads it" {
	local pid
	export SAMPLED_BEGUN=$BATS_TEST_TMPDIR/begun SAMPLED_GO=$BATS_TEST_TMPDIR/go
	start_attachable
	order call "$FLMEM_VICTIMS/sampled/threads.so" open_in_thread \
		"$FLMEM_VICTIMS/sampled/constructed.so"
	wait_until 60 test -e "$SAMPLED_BEGUN"
	list_threads
	"$FLMEM" profile attach --pid "$VICTIM" -o "$PROFILE" --timeout 60s 3>&- &
	pid=$!
	wait_until 60 blocked_thread
	: >"$SAMPLED_GO"
	wait "$pid"
	assert_sound
	detach
	assert_sound
}

@test "dlopen and dlsym on a stack that is just large enough for them" {
	start_attachable
	attach
	order call "$FLMEM_VICTIMS/sampled/threads.so" open_on_small_stack \
		"$FLMEM_VICTIMS/sampled/opener.so"
	[ "$ANSWER" = 0 ]
	detach
	assert_sound
}

@test "a thread that has seccomp filters of its own: refused" {
	start_attachable
	order call "$FLMEM_VICTIMS/sampled/threads.so" start_filtered
	flmem profile attach --pid "$VICTIM" -o "$PROFILE"
	assert_error 5 'has seccomp filters of its own'
	[ ! -e "$PROFILE" ]
	assert_sound
}

is_closed() {
	"$FLMEM" profile stats "$PROFILE" | grep -q ': ended'
}

# A walk over the objects waits for a fork, like the walk that puts entries back.
@test "a thread that searches functions while detach waits redirects nothing afterwards" {
	local round pid threads=$FLMEM_VICTIMS/sampled/threads.so
	start_attachable
	order call "$threads" open_in_thread "$threads"
	# A second malloc(): entries that call one and are not bound yet are left, and checked each
	# time.
	order keep "$FLMEM_VICTIMS/sampled/ifunc.so"
	got snapshot "$VICTIM" >"$BATS_TEST_TMPDIR/got"
	for round in 1 2 3; do
		attach --timeout 60s
		order call "$threads" fork_until "$BATS_TEST_TMPDIR/go$round"
		order call "$threads" find_in_threads
		"$FLMEM" profile detach --pid "$VICTIM" --timeout 60s 3>&- &
		pid=$!
		wait_until 60 is_closed
		: >"$BATS_TEST_TMPDIR/go$round"
		wait "$pid"
		order call "$threads" find_in_threads
		got check "$VICTIM" "$BATS_TEST_TMPDIR/got"
	done
	assert_sound
}

is_stopped() {
	grep -q '^State:.*stopped' "/proc/$VICTIM/status"
}

# Status 5: the late order has done it.
ends_sampling() {
	flmem profile detach --pid "$VICTIM" --timeout 20s
	[ "$status" = 0 ] || [ "$status" = 5 ]
}

# Counts in REFUSED a second detach that came while the first was late. The first one waits for a
# limited time: on a busy machine it may have ended meanwhile.
detach_beside_late() {
	local threads=$FLMEM_VICTIMS/sampled/threads.so go=$BATS_TEST_TMPDIR/go.$1 met
	start_attachable
	# Its handler runs inside that of the sampler, which was loaded later.
	order call "$threads" open_in_thread "$threads"
	got snapshot "$VICTIM" >"$BATS_TEST_TMPDIR/got"
	attach --timeout 60s
	order call "$threads" fork_until "$go"
	wait_until 60 test -e "$go.waits"
	flmem profile detach --pid "$VICTIM" --timeout 500ms
	met=$status
	[ "$met" = 6 ] || [ "$met" = 0 ] || assert_error 7 "process $VICTIM may still be sampled; repeat flmem profile detach .*has not ended within"
	flmem profile detach --pid "$VICTIM" --timeout 500ms
	if [ "$met" = 7 ] && [ "$status" = 6 ]; then
		assert_error 6 'it is not sampled, or another flmem is about to change that'
		REFUSED=$((REFUSED + 1))
	fi
	: >"$go"
	wait_until 60 ends_sampling
	got check "$VICTIM" "$BATS_TEST_TMPDIR/got"
	assert_sound
}

@test "a detach that ends late says so; another one refuses meanwhile, and the process is sound" {
	local try REFUSED=0
	for try in {1..10}; do
		detach_beside_late "$try"
		[ "$REFUSED" = 0 ] || return 0
	done
	fail "the second detach was never refused"
}

@test "a stopped process is not detached from, and is sound once it goes on" {
	start_attachable
	got snapshot "$VICTIM" >"$BATS_TEST_TMPDIR/got"
	attach
	kill -STOP "$VICTIM"
	wait_until 60 is_stopped
	flmem profile detach --pid "$VICTIM"
	assert_error 6 "process $VICTIM is stopped; continue it first"
	is_stopped
	kill -CONT "$VICTIM"
	wait_until 60 ends_sampling
	got check "$VICTIM" "$BATS_TEST_TMPDIR/got"
	assert_sound
}

@test "a child of fork samples nothing, lives, and can be attached to itself" {
	local child
	start_attachable
	attach
	order fork
	child=$ANSWER
	VICTIMS+=("$child")
	assert_sound
	flmem profile detach --pid "$child"
	assert_status 5
	flmem profile attach --pid "$child" -o "$BATS_TEST_TMPDIR/child.prof"
	assert_status 0
	flmem profile detach --pid "$child"
	assert_status 0
	alive "$child"
	detach
	assert_sound
	flmem profile stats "$PROFILE"
	assert_output ': ended'
	[[ $stderr != *'could not be recorded'* ]] || fail "a child is counted: $stderr"
}

@test "what is refused leaves no file: no Python, a place that is not writable, an existing file" {
	start_victim safe_threads
	flmem profile attach --pid "$VICTIM" -o "$PROFILE"
	assert_error 5 'no CPython'
	[ ! -e "$PROFILE" ]
	start_attachable
	local dry
	for dry in "" --dry-run; do
		flmem profile attach --pid "$VICTIM" -o "$BATS_TEST_TMPDIR/none/p.prof" $dry
		assert_error 2 'cannot write .*none/p.prof'
		: >"$PROFILE"
		flmem profile attach --pid "$VICTIM" -o "$PROFILE" $dry
		assert_error 2 'exists; use --force'
		[ ! -s "$PROFILE" ]
	done
	flmem profile attach --pid "$VICTIM" -o "$PROFILE" --force --dry-run
	assert_status 0
	[ ! -s "$PROFILE" ]
	flmem profile attach --pid "$VICTIM"
	assert_status 2
	[[ $(got redirected "$VICTIM") = 0* ]]
	assert_sound
}

@test "--force keeps the old file where the process refuses, and leaves one" {
	start_attachable
	echo mine >"$PROFILE"
	kill -STOP "$VICTIM"
	wait_until 60 grep -q '^State:.T' "/proc/$VICTIM/status"
	flmem profile attach --pid "$VICTIM" -o "$PROFILE" --force
	kill -CONT "$VICTIM"
	assert_error 6 'is stopped'
	[ "$(cat "$PROFILE")" = mine ]
	attach
	run -1 compgen -G "$BATS_TEST_TMPDIR/.flmem-*"
	detach
	assert_sound
}

@test "a dry run finds a place that the process may not write, and a disk that is full" {
	requires root setpriv
	unshare -m true 2>/dev/null || skip "no mount namespaces here"
	local PYTHON=/usr/bin/python3 folder dry user=(setpriv --reuid 65534 --regid 65534 --clear-groups)
	"${user[@]}" test -r "$FLMEM_TESTS/victims/sampled/attached.py" || skip "nobody may not read the tests"
	# A place where every user may search.
	FOLDER=$(mktemp -d /var/tmp/flmem-place.XXXXXX)
	folder=$FOLDER
	chmod 755 "$folder"
	start_attachable "${user[@]}"
	for dry in "" --dry-run; do
		flmem profile attach --pid "$VICTIM" -o "$folder/p.prof" $dry
		assert_error 4 'as the user of the process'
	done
	chmod 777 "$folder"
	flmem profile attach --pid "$VICTIM" -o "$folder/p.prof" --dry-run
	assert_status 0
	[ -z "$(ls "$folder")" ]
	# shellcheck disable=SC2016
	start_attachable unshare -m --propagation private sh -c \
		'mount -t tmpfs -o size=8M none "$1" && shift && exec "$@"' sh "$folder"
	for dry in "" --dry-run; do
		flmem profile attach --pid "$VICTIM" -o "/proc/$VICTIM/root$folder/p.prof" $dry
		assert_error 7 'cannot allocate 64 MiB'
	done
	assert_sound
}

@test "in another mount namespace: the file is one of the process" {
	[ "$(id -u)" = 0 ] || skip "needs root to make a mount namespace"
	unshare -m true 2>/dev/null || skip "no mount namespaces here"
	local inside=$BATS_TEST_TMPDIR/inside
	mkdir "$inside"
	# shellcheck disable=SC2016
	start_attachable unshare -m --propagation private sh -c \
		'mount -t tmpfs none "$1" && shift && exec "$@"' sh "$inside"
	local dry
	for dry in --dry-run ""; do
		flmem profile attach --pid "$VICTIM" -o "$inside/p.prof" $dry
		assert_error 2 'does not see'
		[ ! -e "$inside/p.prof" ]
		flmem profile attach --pid "$VICTIM" -o "/proc/$VICTIM/root$inside/p.prof" $dry
		assert_status 0
		[ -z "$dry" ] || [ ! -e "/proc/$VICTIM/root$inside/p.prof" ]
	done
	order round
	flmem profile stats "/proc/$VICTIM/root$inside/p.prof"
	assert_status 0
	assert_output ': running'
	detach
	assert_output "/proc/$VICTIM/root$inside/p.prof is complete"
	assert_sound
}

@test "in a folder that only the process has, below a link that would lead out of it" {
	[ "$(id -u)" = 0 ] || skip "needs root to make a mount namespace"
	unshare -m true 2>/dev/null || skip "no mount namespaces here"
	local inside=$BATS_TEST_TMPDIR/inside outside=$BATS_TEST_TMPDIR/outside
	mkdir "$inside" "$outside"
	# The same path is another folder in the namespace.
	# shellcheck disable=SC2016
	start_attachable unshare -m --propagation private sh -c \
		'mount -t tmpfs none "$1" && mount -t tmpfs none "$2" && mkdir "$1/own" && ln -s "$2" "$1/link" &&
		shift 2 && exec "$@"' sh "$inside" "$outside"
	flmem profile attach --pid "$VICTIM" -o "/proc/$VICTIM/root$inside/own/p.prof"
	assert_status 0
	detach
	flmem profile attach --pid "$VICTIM" -o "/proc/$VICTIM/root$inside/link/p.prof"
	assert_status 0
	[ -z "$(ls "$outside")" ]
	[ -s "/proc/$VICTIM/root$outside/p.prof" ]
	detach
	assert_sound
}

@test "a process whose address space is nearly used up: refused, since the profile would take the rest" {
	local used
	requires prlimit
	start_attachable
	used=$(($(awk '/^VmSize:/ { print $2 }' "/proc/$VICTIM/status") << 10))
	prlimit --pid "$VICTIM" --as=$((used + (256 << 20))):
	flmem profile attach --pid "$VICTIM" -o "$PROFILE"
	prlimit --pid "$VICTIM" --as=unlimited:
	assert_error 6 'its address space \(ulimit -v\) leaves less than 320 MiB'
	[ ! -e "$PROFILE" ]
	flmem profile attach --pid "$VICTIM" -o "$PROFILE"
	assert_status 0
	assert_sound
}

@test "on a file system of a server: refused, since malloc() would wait for it" {
	local mounted=$BATS_TEST_TMPDIR/mounted served=$BATS_TEST_TMPDIR/served
	command -v bindfs >/dev/null || skip "bindfs is missing"
	[ "$(id -u)" = 0 ] && [ -c /dev/fuse ] || skip "needs root and /dev/fuse"
	mkdir "$mounted" "$served"
	bindfs -f "$served" "$mounted" 3>&- &
	SERVER=$!
	wait_until 60 mountpoint -q "$mounted"
	start_attachable
	flmem profile attach --pid "$VICTIM" -o "$mounted/p.prof"
	assert_error 2 'on a file system of a server'
	flmem profile attach --pid "$VICTIM" -o "$mounted/p.prof" --dry-run
	assert_error 2 'on a file system of a server'
	flmem profile run -o "$mounted/p.prof" -- true
	assert_error 2 'on a file system of a server'
	[ -z "$(ls "$served")" ]
	assert_sound
}

@test "start --profile-ready: nobody calls the sampler until attach, which loads nothing" {
	start_attachable "$FLMEM" start --profile-ready --role client --
	local ready
	ready=$(awk '/libflmem-sampler-ready/ { print $6; exit }' "/proc/$VICTIM/maps")
	nm -D --defined-only "$ready" | grep -qw flmem_sampler_order
	run -1 grep -wE 'malloc|free|mmap' <(nm -D --defined-only "$ready")
	flmem profile detach --pid "$VICTIM"
	assert_error 5 'is not sampled'
	for _ in 1 2; do
		attach --interval 64KiB --json
		[ "$(field '[r["preloaded"], r["entries"]["redirected"] > 0]')" = '[False, True]' ]
		assert_sound
		[ "$(awk '/flmem/ { print $6 }' "/proc/$VICTIM/maps" | sort -u | grep -v '\.prof' |
			grep -c .)" = 1 ]
		detach
		assert_sound
	done
	flmem profile stats "$PROFILE"
	assert_output ': ended'
	assert_output 'attached\.py'
}
