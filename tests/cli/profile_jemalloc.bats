#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# flmem profile attach and detach --engine jemalloc: the profiling of a process's own jemalloc.

# shellcheck disable=SC2030,SC2031 # each test is a shell of its own
load helpers

setup() {
	JEMALLOC=$(find /usr/lib -name 'libjemalloc.so.2' | head -n 1)
	[ -n "$JEMALLOC" ] || skip "needs libjemalloc2"
	DUMP=$BATS_TEST_TMPDIR/victim.heap
	# A thread allocates, keeps and checks blocks; the main one waits.
	cat >"$BATS_TEST_TMPDIR/victim.py" <<-'END'
		import os, threading, time

		reader, writer = os.pipe()
		blocks = [bytearray([i]) * 99999 for i in range(200)]

		def turn_over(i):
		    if blocks[i].count(i) != 99999:
		        os.abort()
		    blocks[i] = bytearray([i]) * 99999

		def work():
		    for number in range(10**9):
		        turn_over(number % 200)
		        time.sleep(0.0005)

		for i in range(200):
		    turn_over(i)
		threading.Thread(target=work, daemon=True).start()
		print("ready", flush=True)
		os.read(reader, 1)
	END
}

# start_profiled CONF [COMMAND...]: starts the victim with this setting of jemalloc.
start_profiled() {
	local conf=$1
	shift
	allow_victim --code
	start_victim /usr/bin/env LD_PRELOAD="$JEMALLOC" MALLOC_CONF="$conf,lg_prof_sample:14" "$@" \
		/usr/bin/python3 -I "$BATS_TEST_TMPDIR/victim.py"
}

prepared() {
	start_profiled prof:true,prof_active:false "$@"
}

has_two_threads() {
	local threads=("/proc/$VICTIM/task/"*)
	[ "${#threads[@]}" = 2 ]
}

has_sampled() {
	rm -f "$DUMP.part"
	flmem profile detach --engine jemalloc --pid "$VICTIM" -o "$DUMP.part"
	[ "$status" = 0 ] || return
	"$FLMEM" profile attach --engine jemalloc --pid "$VICTIM" >"$BATS_TEST_TMPDIR/again" || return
	"$FLMEM" profile stats --json "$DUMP.part" | /usr/bin/python3 -c '
import json, sys
sys.exit(json.load(sys.stdin)["total"]["live_bytes"] < 10 << 20)'
}

@test "sampling is switched on, the dump written and read, and sampling switched off" {
	prepared
	flmem profile attach --engine jemalloc --pid "$VICTIM" --json
	assert_status 0
	assert_schema profile-attach
	examine 'import json, sys
r = json.load(sys.stdin)
assert r["engine"] == "jemalloc" and r["entries"] is None and r["profile"] is None
assert r["stopped_us"] > 0 and r["thread"] and r["unknown"]["took_us"]'
	wait_until 60 has_sampled
	flmem profile detach --engine jemalloc --pid "$VICTIM" -o "$DUMP" --json
	assert_status 0
	assert_schema profile-detach
	examine 'import json, sys
r = json.load(sys.stdin)
assert r["profile"].endswith("victim.heap") and r["entry_point"] == "new thread"'
	flmem profile table --json "$DUMP"
	assert_status 0
	assert_schema profile-table
	examine 'import json, sys
r = json.load(sys.stdin)
assert 10 << 20 < r["total"]["live_bytes"] < 40 << 20, r["total"]
assert any((f["function"] or "").startswith("Py") or "PyEval" in (f["function"] or "")
           for f in r["sites"][0]["stack"]), r["sites"][0]'
	flmem profile detach --engine jemalloc --pid "$VICTIM"
	assert_error 5 'is not sampled by its jemalloc'
	assert_victim_unharmed
}

@test "without --output detach only ends the sampling, which another flmem began" {
	prepared
	"$FLMEM" profile attach --engine jemalloc --pid "$VICTIM"
	flmem profile attach --engine jemalloc --pid "$VICTIM"
	assert_error 6 'already sampled by its jemalloc'
	flmem profile detach --engine jemalloc --pid "$VICTIM"
	assert_status 0
	assert_output 'no longer sampled by its jemalloc'
	refute_output 'its dump is'
	assert_output 'note: no dump was written; .*attach again, then detach with --output FILE'
	flmem profile attach --engine jemalloc --pid "$VICTIM"
	flmem profile detach --engine jemalloc --pid "$VICTIM" -o "$DUMP"
	assert_status 0
	refute_output 'no dump was written'
	assert_victim_unharmed
}

@test "one that samples from its start is detached from" {
	start_profiled prof:true
	flmem profile attach --engine jemalloc --pid "$VICTIM"
	assert_error 6 'already sampled'
	flmem profile detach --engine jemalloc --pid "$VICTIM" -o "$DUMP"
	assert_status 0
	flmem profile stats "$DUMP"
	assert_status 0
	assert_victim_unharmed
}

@test "a process that was not started for it, or has another allocator, is refused with the reason" {
	start_profiled prof:false
	flmem profile attach --engine jemalloc --pid "$VICTIM"
	assert_error 5 'started without profiling by its jemalloc; start it with MALLOC_CONF=prof:true'
	flmem profile detach --engine jemalloc --pid "$VICTIM" -o "$DUMP"
	assert_error 5 'started without profiling'
	[ ! -e "$DUMP" ]
	assert_victim_unharmed
	start_victim /usr/bin/python3 -I "$BATS_TEST_TMPDIR/victim.py"
	flmem profile attach --engine jemalloc --pid "$VICTIM"
	assert_error 5 'is served by glibc, not by jemalloc'
	assert_victim_unharmed
}

@test "a dry run makes no call" {
	prepared
	flmem profile attach --engine jemalloc --pid "$VICTIM" --dry-run
	assert_status 0
	assert_output 'would be sampled by its jemalloc; nothing was changed'
	assert_output 'would borrow thread [0-9]+ from '
	assert_output 'only calls show whether it can profile'
	flmem profile detach --engine jemalloc --pid "$VICTIM"
	assert_error 5 'is not sampled by its jemalloc'
	"$FLMEM" profile attach --engine jemalloc --pid "$VICTIM"
	flmem profile detach --engine jemalloc --pid "$VICTIM" --dry-run
	assert_output 'would no longer be sampled by its jemalloc; nothing was changed'
	flmem profile detach --engine jemalloc --pid "$VICTIM"
	assert_status 0
	assert_victim_unharmed
}

@test "where the dump cannot be written, sampling goes on" {
	prepared
	"$FLMEM" profile attach --engine jemalloc --pid "$VICTIM"
	echo mine >"$DUMP"
	flmem profile detach --engine jemalloc --pid "$VICTIM" -o "$DUMP"
	assert_error 2 'exists; use --force'
	[ "$(cat "$DUMP")" = mine ]
	flmem profile detach --engine jemalloc --pid "$VICTIM" -o "$BATS_TEST_TMPDIR/no/such.heap"
	assert_error 2 'cannot write'
	flmem profile detach --engine jemalloc --pid "$VICTIM" -o "$DUMP" --force
	assert_status 0
	grep -q '^MAPPED_LIBRARIES:' "$DUMP"
	assert_victim_unharmed
}

@test "a limit for the size of files of the process does not kill it" {
	prepared /bin/sh -c 'ulimit -f 1; exec "$@"' sh
	"$FLMEM" profile attach --engine jemalloc --pid "$VICTIM"
	flmem profile detach --engine jemalloc --pid "$VICTIM" -o "$DUMP"
	assert_error 7 'is truncated.*it continues sampling'
	[ ! -e "$DUMP" ]
	echo mine >"$DUMP"
	flmem profile detach --engine jemalloc --pid "$VICTIM" -o "$DUMP" --force
	assert_error 7 'is truncated'
	[ "$(cat "$DUMP")" = mine ]
	flmem profile detach --engine jemalloc --pid "$VICTIM"
	assert_status 0
	assert_victim_unharmed
}

@test "options of the other engine are refused" {
	prepared
	flmem profile attach --engine jemalloc --pid "$VICTIM" -o "$DUMP"
	assert_error 2 'detach writes the dump'
	flmem profile attach --engine jemalloc --pid "$VICTIM" --interval 64K
	assert_error 2 'MALLOC_CONF of the process decides'
	flmem profile detach --pid "$VICTIM" -o "$DUMP"
	assert_error 2 'is the dump of --engine jemalloc'
	flmem profile attach --engine other --pid "$VICTIM"
	assert_error 2 "other"
	assert_victim_unharmed
}

@test "a flmem that is killed while the dump is written harms nothing, and another one detaches" {
	local slow=$BATS_TEST_TMPDIR/slow killed
	touch "$slow"
	prepared env LD_PRELOAD="$FLMEM_VICTIMS/sampled/slow_creat.so $JEMALLOC" SLOW_CREAT="$slow"
	"$FLMEM" profile attach --engine jemalloc --pid "$VICTIM"
	"$FLMEM" profile detach --engine jemalloc --pid "$VICTIM" -o "$DUMP" 3>&- &
	killed=$!
	wait_until 60 [ -e "$slow.begun" ]
	kill -KILL "$killed"
	wait "$killed" || true
	rm "$slow"
	# Its thread completes the dump, and has ended then.
	wait_until 60 grep -q '\[vsyscall\]\|\[stack\]' "$DUMP"
	wait_until 60 has_two_threads
	assert_victim_unharmed
	flmem profile attach --engine jemalloc --pid "$VICTIM"
	assert_error 6 'already sampled by its jemalloc'
	flmem profile detach --engine jemalloc --pid "$VICTIM" -o "$DUMP" --force
	assert_status 0
	flmem profile stats "$DUMP"
	assert_status 0
	assert_victim_unharmed
}

@test "a dump that a seccomp filter could end is refused, in the process and not by its death" {
	requires victim:safe_seccomp
	[ "$(status_field self Seccomp)" = 0 ] || skip "the tests run under a seccomp filter"
	start_profiled prof:true "$FLMEM_VICTIMS/safe_seccomp" kill-creat run
	flmem profile detach --engine jemalloc --pid "$VICTIM" -o "$DUMP"
	assert_error 5 'seccomp filter.*would kill the process'
	[ ! -e "$DUMP" ]
	assert_victim_unharmed
	flmem profile detach --engine jemalloc --pid "$VICTIM"
	assert_status 0
	flmem profile attach --engine jemalloc --pid "$VICTIM"
	assert_status 0
	assert_victim_unharmed
	start_profiled prof:true "$FLMEM_VICTIMS/safe_seccomp" error-swapon run
	flmem profile detach --engine jemalloc --pid "$VICTIM" -o "$DUMP"
	assert_status 0
	assert_victim_unharmed
}

@test "in a container the dump is written where the process sees it" {
	requires root unshare
	unshare --mount --pid --fork true || skip "may not make namespaces"
	local inside=$BATS_TEST_TMPDIR/inside outer
	mkdir "$inside"
	# shellcheck disable=SC2016 # expanded by the inner shell
	prepared unshare --mount --pid --fork --kill-child --mount-proc /bin/sh -c \
		'mount -t tmpfs none "$0" && exec "$@"' "$inside"
	outer=$VICTIM
	VICTIM=$(tr -d ' ' <"/proc/$outer/task/$outer/children")
	snapshot_victim
	flmem profile attach --engine jemalloc --pid "$VICTIM"
	assert_status 0
	flmem profile detach --engine jemalloc --pid "$VICTIM" -o "$inside/p.heap"
	assert_error 2 'does not see'
	flmem profile detach --engine jemalloc --pid "$VICTIM" -o "/proc/$VICTIM/root$inside/p.heap"
	assert_status 0
	[ -z "$(ls "$inside")" ]
	flmem profile stats "/proc/$VICTIM/root$inside/p.heap"
	assert_status 0
	assert_victim_unharmed
}
