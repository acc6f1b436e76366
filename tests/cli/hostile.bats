#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Live processes that change under flmem's hands, or whose files lie: a report or an error, never a
# crash, never a hang, and no harm to the process. The readers themselves are fuzzed (tests/fuzz/).

# The helpers set the variables; every test has its own VICTIMS.
# shellcheck disable=SC2030,SC2031,SC2154
load helpers

setup() {
	requires python3 /usr/bin/python3
	LIBRARIES=/usr/lib/$(uname -m)-linux-gnu
	WAYS=(no-header huge-header huge-segments endless-chains wild-names noise truncate)
}

# Runs flmem with a limit. No signal may end it, and no sanitizer may report anything.
bounded() {
	unnoted run_apart "flmem $*" timeout -k 5 "${LIMIT:-180}" "$FLMEM" "$@"
	case $status in
	0 | 3 | 4 | 5 | 6 | 8) ;;
	*) fail "exit status $status" ;;
	esac
	[[ $stderr != *Sanitizer* && $stderr != *'runtime error'* ]] || fail "a sanitizer spoke"
}

garble() {
	python "$FLMEM_TESTS/harness/garble.py" "$@"
}

# Starts a process with a copy of a library that it has opened and no longer uses. $COPY is the
# copy's path.
start_with_copy() {
	COPY=$BATS_TEST_TMPDIR/$(basename "$1").$RANDOM
	cp "$1" "$COPY"
	start_victim /usr/bin/python3 -uc '
import ctypes, sys, threading
library = ctypes.CDLL(sys.argv[1])
threading.Thread(target=threading.Event().wait, daemon=True).start()
blocks = [bytes(3000) for _ in range(8000)]
live = blocks[::64]
del blocks
print("ready", flush=True)
threading.Event().wait()' "$COPY"
}

@test "a library that is spoilt where it stands" {
	local way
	requires "$LIBRARIES/libz.so.1"
	for way in "${WAYS[@]}"; do
		start_with_copy "$LIBRARIES/libz.so.1"
		garble "$way" "$COPY"
		bounded detect --pid "$VICTIM" --json
		assert_status 0
		assert_schema detect
		assert_output '"glibc"'
		bounded trim --pid "$VICTIM" --timeout 2s
		assert_status 0
		assert_victim_unharmed
	done
}

@test "a library of an allocator that that serves nobody, spoilt where it stands" {
	local way
	requires "$LIBRARIES/libmimalloc.so.2"
	for way in "${WAYS[@]}"; do
		start_with_copy "$LIBRARIES/libmimalloc.so.2"
		garble "$way" "$COPY"
		bounded detect --pid "$VICTIM" --json
		assert_status 0
		assert_schema detect
		bounded trim --pid "$VICTIM" --timeout 2s
		assert_victim_unharmed
	done
}

@test "the serving allocator's library is spoilt where it stands" {
	local way
	requires "$LIBRARIES/libjemalloc.so.2" victim:allocators/glibc
	for way in no-header huge-header huge-segments endless-chains wild-names; do
		mkdir "$BATS_TEST_TMPDIR/$way"
		cp "$LIBRARIES/libjemalloc.so.2" "$BATS_TEST_TMPDIR/$way/"
		LD_PRELOAD=$BATS_TEST_TMPDIR/$way/libjemalloc.so.2 start_victim /usr/bin/python3 -uc '
import time
print("ready", flush=True)
time.sleep(1000)'
		garble "$way" "$BATS_TEST_TMPDIR/$way/libjemalloc.so.2"
		bounded detect --pid "$VICTIM" --json
		assert_status 0
		assert_schema detect
		bounded trim --pid "$VICTIM" --timeout 2s
		assert_victim_unharmed
	done
}

# start_spoilt WAY LIBRARY [preloaded]: starts a process that spoils WAY in its own memory, of a
# copy of the library whose file is gone.
start_spoilt() {
	COPY=$BATS_TEST_TMPDIR/$(basename "$2").$RANDOM
	cp "$2" "$COPY"
	start_victim /usr/bin/env ${3:+"LD_PRELOAD=$COPY"} "$FLMEM_VICTIMS/hostile/hostile" "$1" "$COPY"
}

# look_both_ways [TEXT]: checks two reports, which must have the text. Without CAP_SYS_ADMIN a
# deleted file cannot be opened: flmem then reads the mapped part.
look_both_ways() {
	bounded detect --pid "$VICTIM" --json
	assert_status 0
	assert_output "${1:-}"
	bounded trim --pid "$VICTIM" --dry-run
	if [ "$(id -u)" = 0 ]; then
		printf '#!/bin/sh\nexec setpriv --bounding-set -sys_admin,-checkpoint_restore %s "%s" "$@"\n' \
			'--inh-caps -all' "$FLMEM" >"$BATS_TEST_TMPDIR/plain"
		chmod +x "$BATS_TEST_TMPDIR/plain"
		FLMEM=$BATS_TEST_TMPDIR/plain bounded detect --pid "$VICTIM" --json
		assert_status 0
		assert_output "${1:-}"
	fi
	assert_victim_unharmed
}

@test "a library without a file that is spoilt in memory" {
	local way
	requires victim:hostile/hostile "$LIBRARIES/libmimalloc.so.2"
	for way in header segments dynamic hash symbols; do
		start_spoilt "$way" "$LIBRARIES/libmimalloc.so.2"
		look_both_ways '"glibc"'
		stop_victims
	done
}

@test "the serving allocator without a file is spoilt in memory" {
	local way
	requires victim:hostile/hostile "$LIBRARIES/libjemalloc.so.2"
	for way in header segments dynamic hash symbols; do
		start_spoilt "$way" "$LIBRARIES/libjemalloc.so.2" preloaded
		look_both_ways
		stop_victims
	done
}

@test "the loader's list of objects goes astray" {
	local way
	requires victim:hostile/hostile "$LIBRARIES/libz.so.1"
	for way in list-{turns-back,bites-its-tail,leads-nowhere,is-endless,begins-nowhere}; do
		start_spoilt "$way" "$LIBRARIES/libz.so.1"
		look_both_ways '"glibc"'
		stop_victims
	done
}

@test "a library that is mapped thirty thousand times" {
	requires victim:hostile/hostile "$LIBRARIES/libz.so.1"
	start_spoilt mappings "$LIBRARIES/libz.so.1"
	look_both_ways '"glibc"'
}

# Such a process can no longer use its heap, only keep it. malloc_trim would never return from rings
# and loops, and on the others it would abort the process or empty pages in use.
@test "a heap of glibc that is damaged is not given to malloc_trim" {
	local state options
	requires victim:heaps/heaps
	for state in corrupted top-absurd ring-apart fast-loop bin-loop bin-stray bin-size; do
		start_reader "$FLMEM_VICTIMS/heaps/heaps" "$state"
		bounded detect --pid "$VICTIM" --json
		assert_status 0
		assert_schema detect
		# The chunks follow each other, whatever the lists contain.
		[[ $state == bin-* ]] || assert_output '"trimmable_bytes":	null'
		for options in '' --dry-run --no-predict; do
			# shellcheck disable=SC2086
			bounded trim --pid "$VICTIM" $options --json
			assert_status 6
			assert_output 'is damaged, and malloc_trim could crash it or corrupt memory: a list of'
			assert_victim_unharmed
		done
		stop_victims
	done
}

# Makes a control group with a hundredth of a processor, and the least that flmem accepts in a
# period: $GROUP.
make_starved_group() {
	make_control_group cpu
	if [ -e "$GROUP/cpu.max" ]; then
		echo "10000 1000000" >"$GROUP/cpu.max"
	elif [ -e "$GROUP/cpu.cfs_quota_us" ]; then
		echo 1000000 >"$GROUP/cpu.cfs_period_us"
		echo 10000 >"$GROUP/cpu.cfs_quota_us"
	else
		skip "needs a controller of processors"
	fi
}

run_in_group() {
	(echo "$BASHPID" >"$GROUP/cgroup.procs" && exec "$@")
}

teardown() {
	stop_victims
	remove_control_group
}

# With a limit of 0.1 s for the check, which began before the arenas were found, such a program was
# ended.
@test "nor where flmem has hardly any processor time to find that out" {
	requires root victim:heaps/heaps
	start_reader "$FLMEM_VICTIMS/heaps/heaps" top-absurd
	make_starved_group
	run_command run_in_group timeout -k 5 300 "$FLMEM" trim --pid "$VICTIM" --no-predict
	assert_error 6 'malloc_trim (could|would) crash'
	assert_victim_unharmed
}

@test "nor is one that the program has protected from being written" {
	local options
	requires victim:heaps/heaps
	start_reader "$FLMEM_VICTIMS/heaps/heaps" protected
	for options in '' --dry-run --no-predict; do
		# shellcheck disable=SC2086
		bounded trim --pid "$VICTIM" $options
		assert_error 6 'has protected memory of its heap \(mprotect\) at 0x'
		assert_victim_unharmed
	done
}

@test "nor is one that it protects while flmem waits for a thread" {
	requires victim:heaps/heaps
	start_reader "$FLMEM_VICTIMS/heaps/heaps" protected-later
	bounded trim --pid "$VICTIM" --no-predict --timeout 20s
	assert_error 6 'has protected memory of its heap \(mprotect\) at 0x'
	alive "$VICTIM" || fail "the victim died"
}

# A trim would wait there as long as the program lives.
@test "nor is one with an arena that stays locked, behind a hundred others or made while flmem waits" {
	local state
	requires victim:heaps/locked-arena
	for state in first later; do
		start_reader "$FLMEM_VICTIMS/heaps/locked-arena" "$state"
		bounded trim --pid "$VICTIM" --no-predict --timeout 5s
		assert_error 6 'a lock of the allocator of process [0-9]+ stays held'
		alive "$VICTIM" || fail "the victim died"
		stop_victims
	done
}

# The page is neither in the page tables nor swapped out, so flmem does not read it.
@test "nor is one with an arena that is not in memory" {
	requires victim:heaps/locked-arena
	start_reader "$FLMEM_VICTIMS/heaps/locked-arena" absent
	bounded trim --pid "$VICTIM" --no-predict --timeout 2s
	assert_error 6 "whether a lock of the allocator .* stays held: malloc's data was not found"
	alive "$VICTIM" || fail "the victim died"
}

@test "a program whose file was replaced by something else" {
	local program=$BATS_TEST_TMPDIR/program content
	requires victim:allocators/glibc-pie
	for content in '' garbage "$(head -c 100 /bin/true | tr '\0' x)"; do
		cp "$FLMEM_VICTIMS/allocators/glibc-pie" "$program"
		start_reader "$program"
		rm "$program"
		printf '%s' "$content" >"$program"
		bounded detect --pid "$VICTIM" --json
		assert_status 0
		assert_schema detect
		assert_output '"glibc"'
		bounded trim --pid "$VICTIM" --timeout 2s
		assert_victim_unharmed
		rm "$program"
	done
}

# Starts a process whose mappings change all the time: blocks, files and libraries; threads come and
# go.
start_restless() {
	VICTIM_LOG=$BATS_TEST_TMPDIR/restless
	/usr/bin/python3 -uc '
import _ctypes, mmap, sys, threading
def map_memory():
    while True:
        blocks = [mmap.mmap(-1, 4096 * (i % 7 + 1), prot=mmap.PROT_READ if i % 2 else mmap.PROT_WRITE)
                  for i in range(300)]
        del blocks
def map_files():
    with open(sys.executable, "rb") as file:
        while True:
            blocks = [mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) for _ in range(50)]
            del blocks
def open_libraries():
    while True:
        for name in sys.argv[1:]:
            _ctypes.dlclose(_ctypes.dlopen(name, 2))
def start_threads():
    while True:
        thread = threading.Thread(target=lambda: None)
        thread.start()
        thread.join()
for work in (map_memory, map_files, open_libraries, start_threads):
    threading.Thread(target=work, daemon=True).start()
threading.Thread(target=threading.Event().wait, daemon=True).start()
print("ready", flush=True)
threading.Event().wait()' "$@" >"$VICTIM_LOG" 2>&1 3>&- </dev/null &
	VICTIM=$!
	VICTIMS+=("$VICTIM")
	wait_until 60 victim_ready_or_gone "$VICTIM" "$VICTIM_LOG"
}

@test "mappings, libraries and threads that change all the time" {
	local libraries=() library round touched=0
	for library in libz.so.1 libexpat.so.1 libbz2.so.1.0; do
		[ ! -e "$LIBRARIES/$library" ] || libraries+=("$LIBRARIES/$library")
	done
	[ "${#libraries[@]}" -gt 0 ] || skip "needs libz.so.1, libexpat.so.1 or libbz2.so.1.0"
	start_restless "${libraries[@]}"
	for round in {1..15}; do
		bounded detect --pid "$VICTIM" --json
		assert_status 0
		bounded trim --pid "$VICTIM" --timeout 500ms
		[ "$status" -ne 0 ] || touched=$((touched + 1))
		alive "$VICTIM" || fail "round $round: the victim died: $(cat "$VICTIM_LOG")"
		[ "$(status_field "$VICTIM" TracerPid)" = 0 ]
	done
	[ "$(cat "$VICTIM_LOG")" = ready ] || fail "it complains: $(cat "$VICTIM_LOG")"
	# the machine is busy; a trim that waits for its moment finds one
	if [ "$touched" = 0 ]; then
		bounded trim --pid "$VICTIM" --timeout 60s
		assert_status 0
	fi
	alive "$VICTIM" || fail "the victim died: $(cat "$VICTIM_LOG")"
}

@test "a process that becomes another program all the time" {
	local round turns looked=0 touched=0
	cat >"$BATS_TEST_TMPDIR/turn" <<-'END'
		#!/bin/bash
		printf . >>"$0.turns"
		case $1 in
		1) exec /usr/bin/env -i PATH="$PATH" bash "$0" 2 ;;
		2) exec /usr/bin/python3 -S -I -c 'import os, sys; os.execv("/bin/bash", ["bash", sys.argv[1], "1"])' "$0" ;;
		esac
	END
	bash "$BATS_TEST_TMPDIR/turn" 1 >/dev/null 2>&1 3>&- </dev/null &
	VICTIM=$!
	VICTIMS+=("$VICTIM")
	wait_until 60 turned 10
	for round in {1..25}; do
		bounded detect --pid "$VICTIM" --json
		[ "$status" -ne 0 ] || looked=$((looked + 1))
		bounded trim --pid "$VICTIM" --timeout 50ms
		[ "$status" -ne 0 ] || touched=$((touched + 1))
		alive "$VICTIM" || fail "round $round: it ended: $(cat "/proc/$VICTIM/stat" 2>&1)"
		[ "$(status_field "$VICTIM" TracerPid)" = 0 ] || fail "round $round: still traced"
	done
	echo "$looked looks and $touched trims ended between two turns"
	[ "$looked" -gt 0 ] || fail "it was never seen: this tested nothing"
	# The program executes itself again and again, and each begins with the signals that the
	# first had blocked.
	turns=$(wc -c <"$BATS_TEST_TMPDIR/turn.turns")
	wait_until 60 turned "$((turns + 10))"
	wait_until 60 blocks_nothing "$VICTIM"
}

turned() {
	[ "$(wc -c <"$BATS_TEST_TMPDIR/turn.turns")" -ge "$1" ]
}

# True if it blocks no signal; a shell blocks signals for an instant around a fork.
blocks_nothing() {
	[ "$(status_field "$1" SigBlk)" = 0000000000000000 ]
}

@test "processes that end while they are read" {
	local round pids
	for round in {1..10}; do
		pids=()
		for _ in {1..8}; do
			sleep "0.0$((RANDOM % 9 + 1))" 3>&- &
			pids+=("$!")
		done
		bounded detect --tree "$$" --json
		assert_status 0
		bounded trim --tree "$$" --timeout 20ms --dry-run
		wait "${pids[@]}" || true
	done
}

@test "a program whose file has 64 GiB of code, and the C library's behind it" {
	local program=$BATS_TEST_TMPDIR/huge
	requires victim:allocators/glibc-static
	cp "$FLMEM_VICTIMS/allocators/glibc-static" "$program"
	# Turns the program's notes into a segment of code, with holes of the file, before all
	# others.
	python - "$program" <<-'END'
		import os
		import struct
		import sys

		ROW = struct.Struct("<IIQQQQQQ")
		LOAD, NOTE, READ_EXECUTE, SIZE, PLACE = 1, 4, 5, 64 << 30, 1 << 44
		path = sys.argv[1]
		data = bytearray(open(path, "rb").read())
		at, = struct.unpack_from("<Q", data, 32)
		count, = struct.unpack_from("<H", data, 56)
		rows = [ROW.unpack_from(data, at + ROW.size * i) for i in range(count)]
		rows.remove(next(row for row in rows if row[0] == NOTE))
		begin = (len(data) + 0xffff) & ~0xffff
		rows.insert(0, (LOAD, READ_EXECUTE, begin, PLACE, PLACE, SIZE, SIZE, 4096))
		for i, row in enumerate(rows):
		    ROW.pack_into(data, at + ROW.size * i, *row)
		open(path, "wb").write(data)
		os.truncate(path, begin + SIZE)
	END
	start_reader "$program"
	bounded trim --pid "$VICTIM" --timeout 1s
	assert_status 5
	assert_stderr 'lacks the instructions that a borrowed thread needs'
	assert_victim_unharmed
}

@test "a fault that a sanitizer finds has a status that no result has" {
	local pid
	sanitized || skip "flmem is not sanitised"
	"$FLMEM" watch --pid $$ --interval 1s >"$BATS_TEST_TMPDIR/out" 2>&1 3>&- &
	pid=$!
	wait_until 60 [ -s "$BATS_TEST_TMPDIR/out" ]
	kill -ILL "$pid"
	status=0
	wait "$pid" || status=$?
	[ "$status" -gt 8 ]
}
