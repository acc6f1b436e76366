#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# flmem start --profile-socket: attaching without tracing, through a socket of the process.

# Every test has its own status.
# shellcheck disable=SC2030,SC2031,SC2153
load helpers
load profile_attach

OTHER=$((50000 + $$ % 15000)) # a user whose directory no other test uses

teardown() {
	stop_attachable
	[ -z "${MADE:-}" ] || rm -rf "/tmp/flmem-$OTHER" "$MADE"
}

peer() {
	python "$FLMEM_TESTS/harness/order_socket.py" "$@"
}

start_listening() {
	start_attachable "$@" "$FLMEM" start --profile-socket --role client --
	PLACE=$(peer name "$VICTIM")
}

# start_other: starts a victim of another user, in whose directory the test may do anything.
start_other() {
	requires root
	rm -rf "/tmp/flmem-$OTHER"
	export PYTHON=/usr/bin/python3
	MADE=$(mktemp -d /tmp/flmem-test.XXXXXX)
	chown "$OTHER" "$MADE"
	PROFILE=$MADE/p.prof
	start_listening setpriv --reuid "$OTHER" --clear-groups
}

# untraced WORDS: runs a flmem that may not trace; AddressSanitizer traces to find leaks.
untraced() {
	ASAN_OPTIONS=${ASAN_OPTIONS:-}:detect_leaks=0 run_command peer untraced "$FLMEM" "$@"
}

# start_peer WORDS: starts a peer in the background, and waits until it is ready.
start_peer() {
	local log=$BATS_TEST_TMPDIR/peer.${#VICTIMS[@]}
	/usr/bin/python3 -B "$FLMEM_TESTS/harness/order_socket.py" "$@" >"$log" 2>&1 3>&- &
	VICTIMS+=($!)
	wait_until 60 victim_ready_or_gone "${VICTIMS[-1]}" "$log"
	alive "${VICTIMS[-1]}" || fail "$(cat "$log")"
}

# assert_way WAY [REASON]: checks the last run, with --json.
assert_way() {
	assert_status 0
	[ "$(field 'r["channel"]')" = "$1" ] || fail "$output"
	[[ $(field 'r["no_socket"] or ""') =~ ${2:-^$} ]] || fail "$output"
}

# Prints the thread of the socket.
listener() {
	grep -lx flmem-sampler "/proc/${1:-$VICTIM}"/task/*/comm | cut -d/ -f5
}

# Prints the processor time of the thread, and the time of day.
listener_ticks() {
	awk '{ print $14 + $15 }' "/proc/$VICTIM/task/$(listener)/stat"
}

uptime_ticks() {
	awk -v rate="$(getconf CLK_TCK)" '{ print int($1 * rate) }' /proc/uptime
}

@test "a variable that was left to a process without a preloaded sampler makes no socket" {
	start_attachable env FLMEM_PROFILE_SOCKET=assume-seccomp
	attach
	[[ "$(cat "/proc/$VICTIM/task/"*/comm)" != *flmem-sampler* ]]
	detach
	assert_sound
}

@test "a process with a socket is switched on and off without a borrowed thread, and again" {
	local before
	start_listening
	before=$(ls "/proc/$VICTIM/fd")
	for _ in 1 2; do
		flmem profile attach --pid "$VICTIM" -o "$PROFILE" --force --interval 64KiB --json
		assert_way socket
		assert_schema profile-attach
		[ "$(field '[r["thread"], r["stopped_us"], r["entries"]["redirected"] > 0, r["loaded_by"]]')" = \
			"[None, None, True, 'profile-ready']" ] || fail "$output"
		order round
		flmem profile attach --pid "$VICTIM" -o "$BATS_TEST_TMPDIR/other.prof"
		assert_error 6 'is already sampled, into'
		detach --json
		assert_way socket
		assert_schema profile-detach
		flmem profile detach --pid "$VICTIM"
		assert_error 5 'is not sampled'
		flmem profile stats "$PROFILE"
		assert_output ': ended'
		assert_output 'keep_update'
		assert_sound
	done
	attach
	assert_output 'through its socket; no thread is borrowed'
	assert_output 'was there from the start: flmem start --profile-socket'
	refute_output 'borrowed thread'
	[ "$(ls "/proc/$VICTIM/fd")" = "$before" ]
	[ "$(awk '$1 == "SigBlk:" { print $2 }' "/proc/$VICTIM/status")" = 0000000000000000 ]
	[ "$(listener | wc -l)" = 1 ]
}

@test "a dry run asks the process, and changes nothing" {
	start_listening
	flmem profile attach --pid "$VICTIM" -o "$PROFILE" --dry-run --json
	assert_way socket
	[ ! -e "$PROFILE" ]
	flmem profile detach --pid "$VICTIM"
	assert_error 5 'is not sampled'
}

@test "without the right to trace it is attached to through its socket, and else refused" {
	start_attachable "$FLMEM" start --profile-ready --role client --
	untraced profile attach --pid "$VICTIM" -o "$PROFILE"
	assert_error 4
	start_listening
	untraced profile attach --pid "$VICTIM" -o "$PROFILE" --interval 64KiB --json
	assert_way socket
	order round
	untraced profile detach --pid "$VICTIM" --json
	assert_way socket
	flmem profile stats "$PROFILE"
	assert_output 'keep_update'
	rm "$PLACE"
	untraced profile attach --pid "$VICTIM" -o "$PROFILE" --force
	assert_error 4 'not through its socket \(it has none; a child of fork\(\) .*\), and not by tracing it'
	assert_sound
}

@test "a program without Python is sampled, too" {
	"$FLMEM" start --profile-socket --role client -- sleep 1000 3>&- &
	VICTIM=$!
	VICTIMS+=("$VICTIM")
	wait_until 60 listener
	wait_until 60 test -S "$(peer name "$VICTIM")"
	attach --json
	assert_way socket
	detach --json
	assert_way socket
	alive "$VICTIM"
}

@test "only its user and root may send requests" {
	start_other
	[ "$(setpriv --reuid 65534 --clear-groups /usr/bin/python3 -B "$FLMEM_TESTS/harness/order_socket.py" \
		speak "${PLACE/\/proc\/$VICTIM\/root/}" state)" = PermissionError ]
	chmod 755 "/tmp/flmem-$OTHER"
	chmod 666 "$PLACE"
	run_command setpriv --reuid 65534 --clear-groups /usr/bin/python3 -B \
		"$FLMEM_TESTS/harness/order_socket.py" speak "${PLACE/\/proc\/$VICTIM\/root/}" "attach $PROFILE"
	[ "$output" = "flmem: refused only its user and root may send requests" ] || fail "$output"
	chmod 700 "/tmp/flmem-$OTHER"
	flmem profile detach --pid "$VICTIM"
	assert_error 5 'is not sampled'
	attach --json
	assert_way socket
	[ "$(stat -c %u "$PROFILE")" = "$OTHER" ]
	assert_sound
}

@test "a process that has taken the name of another gets no order" {
	start_other
	start_peer squat "$PLACE"
	attach --json
	assert_way traced 'another process answers in its place'
	assert_sound
}

# start_hostile KIND: starts a process of another user that answers at a socket of its own.
start_hostile() {
	start_victim "$(command -v setpriv)" --reuid "$OTHER" --clear-groups \
		/usr/bin/python3 -B "$FLMEM_TESTS/harness/order_socket.py" hostile "$1"
}

# refused_in_time WAYS VERB WORDS: checks for one of these statuses, soon, without control
# characters; the process must live.
refused_in_time() {
	local started=$SECONDS
	run_command timeout -s KILL 60 "$FLMEM" profile "$2" --pid "$VICTIM" --timeout 1s "${@:3}"
	[[ $status =~ ^($1)$ ]] || fail "$status"
	[ $((SECONDS - started)) -lt 40 ] || fail "took $((SECONDS - started)) s"
	[[ $output$stderr != *[$'\x1b\u202e']* ]]
	alive "$VICTIM"
}

# After an answer that no sampler gives, the process is traced, as without a socket; on a busy
# machine that may be refused (6).
@test "a process that answers as no sampler would gets no order" {
	local kind
	requires root
	MADE=$(mktemp -d /tmp/flmem-test.XXXXXX)
	chown "$OTHER" "$MADE"
	for kind in deaf silent garbage long short refuses version phase; do
		start_hostile "$kind"
		refused_in_time '0|6' attach -o "$MADE/$kind"
		[ "$status" = 6 ] || assert_output 'borrowed thread'
		kill -KILL "$VICTIM"
	done
}

@test "a process that lies about its sampler is believed for itself only" {
	local kind
	requires root
	MADE=$(mktemp -d /tmp/flmem-test.XXXXXX)
	chown "$OTHER" "$MADE"
	for kind in unending kernel device fifo; do
		start_hostile "$kind"
		refused_in_time 6 attach -o "$MADE/$kind"
		assert_stderr 'is already sampled, into'
		refused_in_time 7 detach
		assert_stderr 'may still be sampled'
		[ ! -e "$MADE/$kind" ]
		kill -KILL "$VICTIM"
	done
	for kind in cleared garbled late turns; do
		start_hostile "$kind"
		refused_in_time 7 attach -o "$MADE/$kind"
		refused_in_time 5 detach
		assert_stderr 'is not sampled'
		kill -KILL "$VICTIM"
	done
}

@test "a directory that others may enter is not used, on either side" {
	start_other
	chmod 755 "/tmp/flmem-$OTHER"
	attach --json
	assert_way traced 'or others may enter it'
	stop_attachable
	mkdir -p "/tmp/flmem-$OTHER"
	chown 0 "/tmp/flmem-$OTHER"
	rm -rf "/tmp/flmem-$OTHER/"*
	chmod 700 "/tmp/flmem-$OTHER"
	start_attachable setpriv --reuid "$OTHER" --clear-groups "$FLMEM" start --profile-socket --role client --
	[ -z "$(listener)" ]
	attach --json
	assert_way traced 'belongs to another user'
	assert_sound
}

# The namespace's root is the other user here, and this test's root has no number there.
@test "the socket of a process in other namespaces is found, by the same user" {
	requires root
	setpriv --reuid "$OTHER" --clear-groups unshare --user --map-root-user true 2>/dev/null ||
		skip "needs user namespaces"
	MADE=$(mktemp -d /tmp/flmem-test.XXXXXX)
	start_victim "$(command -v setpriv)" --reuid "$OTHER" --clear-groups unshare --user --map-root-user --pid --fork --mount \
		--kill-child sh -c 'mount -t proc proc /proc && mount -t tmpfs none /tmp && exec "$@"' sh \
		"$FLMEM" start --profile-socket --role client -- /usr/bin/python3 -uc 'print("ready")
import time
time.sleep(1000)'
	VICTIM=$(pgrep -P "$VICTIM")
	[ -n "$(listener)" ]
	flmem profile attach --pid "$VICTIM" --dry-run --json
	assert_way traced 'it answers: only its user and root'
	setpriv --reuid "$OTHER" --clear-groups "$FLMEM" profile attach --pid "$VICTIM" --json \
		-o "/proc/$VICTIM/root/tmp/p.prof" >"$MADE/report" || fail "$(cat "$MADE/report")"
	output=$(cat "$MADE/report")
	assert_way socket
	setpriv --reuid "$OTHER" --clear-groups "$FLMEM" profile detach --pid "$VICTIM" >"$MADE/report" || fail "$(cat "$MADE/report")"
	grep -q "/proc/$VICTIM/root/tmp/p.prof is complete" "$MADE/report" || fail "$(cat "$MADE/report")"
}

@test "a child of fork has no socket, and does not keep that of its parent" {
	local child
	start_listening
	order fork
	child=$ANSWER
	VICTIMS+=("$child")
	[ -z "$(listener "$child")" ]
	flmem profile attach --pid "$child" -o "$PROFILE" --json
	assert_way traced 'a child of fork\(\) has none'
	kill -KILL "$VICTIM"
	wait "$VICTIM" || true
	[ "$(peer speak "${PLACE/\/proc\/$VICTIM\/root/}" state)" = ConnectionRefusedError ]
	alive "$child"
}

@test "a program that the process executes makes a socket again" {
	start_listening
	attach --json
	assert_way socket
	order exec
	attach --json
	assert_way socket
	assert_sound
}

@test "names that killed processes have left are removed or replaced; a process that ends removes its own" {
	local stale
	start_listening
	stale=${PLACE/\/proc\/$VICTIM\/root/}
	kill -KILL "$VICTIM"
	wait "$VICTIM" || true
	[ -S "$stale" ]
	start_listening
	[ ! -e "$stale" ]
	attach --json
	assert_way socket
	"$FLMEM" start --profile-socket --role client -- /usr/bin/python3 -c \
'import glob, os, sys; child = os.fork(); child or sys.exit(0); os.waitpid(child, 0)
print(len(glob.glob(f"/tmp/flmem-{os.geteuid()}/sampler-*-{os.getpid()}")) == 1, os.getpid())' >"$BATS_TEST_TMPDIR/short" 3>&-
	[[ $(cat "$BATS_TEST_TMPDIR/short") == True* ]]
	run -1 compgen -G "/tmp/flmem-$(id -u)/sampler-*-$(cut -d' ' -f2 "$BATS_TEST_TMPDIR/short")"
}

# Containers that share one /tmp: the numbers of their processes mean nothing in each other.
@test "names of PID namespaces that have ended are removed, and no others" {
	local folder ready
	start_listening
	folder=$(dirname "${PLACE/\/proc\/$VICTIM\/root/}")
	exec {ready}< <(exec /usr/bin/python3 -c '
import os, socket, sys, time
def make(name, listens, age):
    s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    s.bind(f"{sys.argv[1]}/sampler-{name}")
    if listens:
        s.listen()
    os.utime(f"{sys.argv[1]}/sampler-{name}", (0, time.time() - age))
    return s
live = make("1-1", True, 3600)
make("1-2", False, 3600).close()
make("1-3", False, 0).close()
make("plain", False, 3600).close()
print(os.getpid(), flush=True)
time.sleep(1000)' "$folder")
	VICTIMS+=("$(head -1 <&"$ready")")
	start_listening
	[ -S "$folder/sampler-1-1" ]
	[ ! -e "$folder/sampler-1-2" ]
	[ -S "$folder/sampler-1-3" ]
	rm -f "$folder"/sampler-1-[13] "$folder/sampler-plain"
}

# A shell ends by _exit(), which runs no destructors. One program after the other starts and ends
# beside a live one.
@test "programs that leave without their destructors do not fill the directory" {
	local pid left=()
	start_listening
	"$FLMEM" start --profile-socket --role client -- sh -c \
		'for i in 1 2 3 4 5 6 7 8 9 10; do sh -c "echo \$\$"; done; true' >"$BATS_TEST_TMPDIR/pids" 3>&-
	while read -r pid; do
		left+=("/tmp/flmem-$(id -u)/"sampler-*-"$pid")
	done <"$BATS_TEST_TMPDIR/pids"
	[ "${#left[@]}" = 10 ]
	[ "$(find "${left[@]}" 2>/dev/null | wc -l)" -le 1 ] || fail "${left[*]}"
	[ -S "$PLACE" ]
	attach --json
	assert_way socket
	assert_sound
}

# Process 1 of a PID namespace has a child that is process 1 of the next one.
@test "a child that has the PID of its parent in another namespace does not remove its name" {
	requires root
	unshare --pid --fork true 2>/dev/null || skip "needs PID namespaces"
	start_victim "$(command -v unshare)" --pid --fork --kill-child \
		"$FLMEM" start --profile-socket --role client -- /usr/bin/python3 -uc '
import ctypes, os, signal, time
libc = ctypes.CDLL(None)
child = libc.syscall(56, 0x20000000 | signal.SIGCHLD, 0, 0, 0, 0)  # clone, CLONE_NEWPID (x86-64)
if child == 0:
    libc.exit(1 if libc.getpid() == 1 else 2)
status = os.waitpid(-1, 0x40000000)[1]
print("ready" if os.waitstatus_to_exitcode(status) == 1 else status)
time.sleep(1000)'
	VICTIM=$(pgrep -P "$VICTIM")
	[ "$(awk '$1 == "NSpid:" { print $NF }' "/proc/$VICTIM/status")" = 1 ]
	[ -S "$(peer name "$VICTIM")" ]
	attach --json
	assert_way socket
}

@test "a umask that takes all rights leaves the user those to the directory" {
	start_other
	stop_attachable
	rm -rf "/tmp/flmem-$OTHER"
	start_listening setpriv --reuid "$OTHER" --clear-groups sh -c 'umask 0777 && exec "$@"' sh
	[ "$(stat -c %a "/tmp/flmem-$OTHER")" = 700 ]
	peer name "$VICTIM"
	[ -S "$PLACE" ]
	flmem profile attach --pid "$VICTIM" --dry-run --json
	assert_way socket
}

@test "clients that say nothing delay the next one, and a flood costs the process little" {
	local before cpu
	start_listening
	start_peer silent "$PLACE" 4
	flmem profile attach --pid "$VICTIM" -o "$PROFILE" --timeout 120s --json
	assert_way socket
	cpu=$(listener_ticks)
	before=$(uptime_ticks)
	start_peer flood "$PLACE"
	[ $((($(listener_ticks) - cpu) * 10)) -lt $(($(uptime_ticks) - before)) ] || fail "$cpu, $(listener_ticks)"
	flmem profile detach --pid "$VICTIM" --timeout 120s --json
	assert_way socket
	assert_sound
}

@test "clients that do not wait for an answer, and orders that are none, do no harm" {
	"$FLMEM" start --profile-socket --role client -- sleep 1000 3>&- &
	VICTIM=$!
	VICTIMS+=("$VICTIM")
	wait_until 60 test -S "$(peer name "$VICTIM")"
	PLACE=$(peer name "$VICTIM")
	peer leave "$PLACE" 50 state
	[ "$(peer speak "$PLACE" nonsense)" = 'flmem: refused the request is not known' ]
	[ "$(peer speak "$PLACE" "attach $(printf '%05000d' 0)")" = 'flmem: refused the request is too long' ]
	[[ $(peer speak "$PLACE" "attach /nowhere/at/all") == 'flmem: refused the process cannot open'* ]]
	peer leave "$PLACE" 50 "attach $(printf '%04000d' 0)"
	attach --json --timeout 120s
	assert_way socket
	alive "$VICTIM"
}

@test "a process that has no descriptor left is attached to" {
	start_victim "$FLMEM" start --profile-socket --role client -- prlimit --nofile=64:64 /usr/bin/python3 -uc '
import os, time
held = []
try:
    while True:
        held.append(os.dup(0))
except OSError:
    print("ready")
time.sleep(1000)'
	attach --json
	assert_way socket
	detach --json
	assert_way socket
	assert_victim_unharmed
}

@test "functions of the program that have the names of POSIX are not called" {
	start_victim "$FLMEM" start --profile-socket --role client -- "$FLMEM_VICTIMS/sampled/own_names"
	attach --json
	assert_way socket
	detach --json
	assert_way socket
	[ "$(cat "$VICTIM_LOG")" = ready ] || fail "$(cat "$VICTIM_LOG")"
	alive "$VICTIM"
}

@test "functions of a program that have the names of POSIX are not called by profile run" {
	start_victim "$FLMEM" profile run -o "$BATS_TEST_TMPDIR/run.prof" --interval 64KiB -- "$FLMEM_VICTIMS/sampled/own_names"
	flmem profile stats "$BATS_TEST_TMPDIR/run.prof" --json
	assert_status 0
	[ "$(field 'r["profile"]["samples"] > 10')" = True ] || fail "$output"
	alive "$VICTIM"
}

@test "a program with much thread-local data is attached to, and lives" {
	local bytes
	for bytes in 253000 254500 2000000; do
		start_victim "$FLMEM" start --profile-socket --role client -- "$FLMEM_VICTIMS/sampled/thread_data_$bytes"
		attach --json
		assert_way socket
		detach --json
		assert_way socket
		alive "$VICTIM"
	done
}

@test "of two flmem at once one attaches" {
	start_listening
	local i pids=() good=0
	for i in 1 2; do
		"$FLMEM" profile attach --pid "$VICTIM" -o "$PROFILE.$i" --json >"$BATS_TEST_TMPDIR/$i" 2>&1 3>&- &
		pids+=($!)
	done
	for i in 0 1; do
		wait "${pids[i]}" && good=$((good + 1))
	done
	[ "$good" = 1 ] || fail "$(cat "$BATS_TEST_TMPDIR/1" "$BATS_TEST_TMPDIR/2")"
	[ "$(find "$BATS_TEST_TMPDIR" -name 'p.prof.*' | wc -l)" = 1 ]
	assert_sound
}

@test "seccomp filters: no socket unless they are assumed to allow it" {
	requires root
	[ "$(status_field self Seccomp)" = 0 ] || skip "the tests run under a seccomp filter"
	start_listening /usr/bin/python3 -B "$FLMEM_TESTS/harness/order_socket.py" filtered
	[ -z "$(listener)" ]
	attach --json
	assert_way traced 'seccomp filters may forbid it'
	start_attachable /usr/bin/python3 -B "$FLMEM_TESTS/harness/order_socket.py" filtered \
		"$FLMEM" start --profile-socket --assume-seccomp --role client --
	attach --json
	assert_way traced 'has seccomp filters, which may kill'
	detach --assume-seccomp --json
	assert_way socket
	assert_sound
}

@test "no Python code runs with the descriptors of the thread that has the socket" {
	local borrowed
	start_victim "$FLMEM" start --profile-socket --role client -- /usr/bin/python3 -uc '
print("ready")
while True:
    pass'
	flmem trim --gc --pid "$VICTIM" --json
	assert_status 0
	borrowed=$(/usr/bin/python3 -c 'import re, sys
print(*re.findall("\"gc.collect\".*?\"thread\":\\s*([0-9]+)", sys.stdin.read(), re.S))' <<<"$output")
	[ "$borrowed" = "$VICTIM" ] || fail "borrowed $borrowed, the socket is that of $(listener)"
}

@test "a stopped process gets no order, and an order that was not waited for is not carried out" {
	start_listening
	attach --json
	assert_way socket
	kill -STOP "$VICTIM"
	wait_until 60 grep -q '^State:.T' "/proc/$VICTIM/status"
	flmem profile detach --pid "$VICTIM"
	assert_error 6 'is stopped'
	peer leave "$PLACE" 1 detach
	kill -CONT "$VICTIM"
	[[ $(peer speak "$PLACE" nonsense) == *"not known" ]] # it is behind the first in the queue
	detach --json
	assert_way socket
	assert_sound
}

@test "CPython from 3.12 on warns of a fork where the process has the socket" {
	local version python=
	for version in "$HOME"/.pyenv/versions/3.1[2-9]*/bin/python3; do
		[ ! -x "$version" ] || python=$version
	done
	[ -n "$python" ] || skip "no CPython 3.12 or later"
	run_command "$FLMEM" start --profile-socket --role client -- "$python" -Walways -c \
		'import os; child = os.fork(); child or os._exit(0); os.waitpid(child, 0)'
	assert_status 0
	assert_stderr 'DeprecationWarning: .* is multi-threaded, use of fork\(\)'
	run_command "$FLMEM" start --profile-ready --role client -- "$python" -Walways -c \
		'import os; child = os.fork(); child or os._exit(0); os.waitpid(child, 0)'
	assert_status 0
	[ -z "$stderr" ] || fail "$stderr"
}

@test "--assume-seccomp of start needs a socket, which a script cannot have" {
	flmem start --role client --assume-seccomp -- true
	assert_error 2 '--assume-seccomp needs --profile-socket'
	flmem start --role client --profile-socket --dry-run -- true
	assert_error 2 '--profile-socket cannot be combined'
}

# bats test_tags=unsanitised
@test "a program of profile run below start --profile-socket is not said to be not sampled" {
	! sanitized || skip "AddressSanitizer has to be loaded first"
	start_attachable "$FLMEM" start --profile-socket --role client -- "$FLMEM" profile run -o "$PROFILE" --
	run_command "$FLMEM" profile detach --pid "$VICTIM"
	assert_status 0
	assert_output "process $VICTIM: no longer sampled"
}
