#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# flmem trim as scripts see it; tests/soak/ has what must never happen to a target.
# shellcheck disable=SC2030,SC2031 # bats' run sets output here

load helpers

# Starts a Python process with 64 MiB of freed small blocks below some live ones, and idle threads.
start_retainer() {
	start_victim /usr/bin/python3 -uc '
import threading, time
for _ in range(3):
    threading.Thread(target=threading.Event().wait, daemon=True).start()
blocks = [bytes(3000) for _ in range(24000)]
live = blocks[::64]
del blocks
print("ready", flush=True)
while True:
    time.sleep(0.5)' "$@"
}

json() {
	python -c 'import json, sys; print(eval(sys.argv[1], {"r": json.load(sys.stdin)}))' "$1" \
		<<<"$output"
}

setup() {
	requires python3 /usr/bin/python3
}

@test "memory goes back, and the numbers agree with each other" {
	start_retainer
	flmem trim --pid "$VICTIM" --json
	assert_status 0
	assert_schema trim
	[ "$(json 'r["schema"]')" = flmem.trim/1 ]
	[ "$(json 'r["results"][0]["pid"]')" = "$VICTIM" ]
	[ "$(json 'r["results"][0]["outcome"]')" = released ]
	[ "$(json '(lambda x: x["rss_before_bytes"] - x["rss_after_bytes"] == x["released_bytes"]
		and x["released_bytes"] > 30 << 20)(r["results"][0])')" = True ]
	[ "$(json '(lambda x: x["stopped_us"] >= x["overhead_us"] >= 0
		and x["steps"][0]["name"] == "malloc_trim" and x["thread"] > 0)(r["results"][0])')" = True ]
	[ "$(json '(lambda x: abs(x["predicted_bytes"] - x["released_bytes"])
		<= max(4 << 20, x["released_bytes"] // 50))(r["results"][0])')" = True ]
	assert_victim_unharmed
	flmem trim --pid "$VICTIM"
	assert_status 0
	assert_output "process $VICTIM: (nothing to release|[0-9.]+ KiB released)"
	assert_victim_unharmed
}

# Starts a process that retains memory again as soon as it was released.
start_taker() {
	start_victim /usr/bin/python3 -uc '
import threading, time
kept = []
def rss():
    return int(open("/proc/self/statm").read().split()[1]) * 4096
def retain():
    blocks = [bytes(3000) for _ in range(24000)]
    kept.append(blocks[::200])
    del blocks
def take_again():
    while True:
        if rss() < most - (30 << 20):
            retain()
        time.sleep(0.001)
retain()
most = rss()
threading.Thread(target=take_again, daemon=True).start()
print("ready", flush=True)
threading.Event().wait()'
}

sees_taken_again() {
	flmem trim --pid "$VICTIM" --settle 500ms
	[[ $output =~ process\ $VICTIM:\ at\ least\ [0-9.]+\ MiB\ released,\ RSS\ .*:\ the\ program\ has\ taken\ [0-9.]+\ MiB ]]
}

logs_taken_again() {
	flmem trim --pid "$VICTIM" --settle 500ms --every 10ms --count 1
	[[ $stderr =~ \ at\ least\ [0-9.]+\ MiB\ released,\ RSS\ .*\ has\ taken\ [0-9.]+\ MiB\ meanwhile,\ borrowed ]]
}

reports_taken_again() {
	flmem trim --pid "$VICTIM" --settle 500ms --json
	[ "$(json '(lambda x: x["returned_bytes"] - x["released_bytes"] > 20 << 20 and
		x["taken_bytes"] > 20 << 20 and x["outcome"] == "released")(r["results"][0])')" = True ]
}

# On a machine that is not busy each try waits for the program long enough.
@test "what a program has taken again was released" {
	start_taker
	wait_until 2 sees_taken_again
	assert_status 0
	wait_until 2 logs_taken_again
	assert_status 0
	wait_until 2 reports_taken_again
	assert_status 0
	assert_schema trim
}

@test "a dry run names the thread and touches nothing" {
	start_retainer
	local before after
	before=$(awk '/VmRSS/ { print $2 }' "/proc/$VICTIM/status")
	flmem trim --pid "$VICTIM" --dry-run --json
	assert_status 0
	assert_schema trim
	[ "$(json 'r["results"][0]["predicted_bytes"] > 30 << 20')" = True ]
	[ "$(json 'r["results"][0]["outcome"]')" = planned ]
	[ -d "/proc/$VICTIM/task/$(json 'r["results"][0]["thread"]')" ]
	[ "$(json 'r["results"][0]["released_bytes"]')" = None ]
	flmem trim --pid "$VICTIM" --dry-run
	assert_output "malloc_trim +on thread [0-9]+, blocked in "
	after=$(awk '/VmRSS/ { print $2 }' "/proc/$VICTIM/status")
	[ "$((before - after))" -lt 4096 ] || fail "RSS fell from $before to $after kB"
	assert_victim_unharmed
}

# Both commands borrow the only thread. Statuses: 0: released; 6: none could be borrowed; 7: the
# calls returned, but the other command had the thread by then; 8: as 7, after a step that was made.
@test "two trims of one process at once" {
	local number one other made=0
	start_victim /usr/bin/python3 -uc '
import time
print("ready", flush=True)
while True:
    time.sleep(0.5)'
	for ((number = 0; number < 20; number++)); do
		one=0
		"$FLMEM" trim --pid "$VICTIM" --no-predict --timeout 2s >/dev/null 2>&1 &
		other=$!
		"$FLMEM" trim --pid "$VICTIM" --no-predict --timeout 2s >/dev/null 2>&1 || one=$?
		[[ $one == [0678] ]] || fail "exit status $one"
		[ "$one" != 0 ] || made=$((made + 1))
		one=0
		wait "$other" || one=$?
		[[ $one == [0678] ]] || fail "exit status $one"
		[ "$one" != 0 ] || made=$((made + 1))
	done
	[ "$made" -gt 0 ] || fail "no trim was made"
	[ "$(status_field "$VICTIM" TracerPid)" = 0 ]
	assert_victim_unharmed
}

@test "a plain Python that sleeps in its only thread" {
	start_victim /usr/bin/python3 -uc '
import time
blocks = [bytearray(3000) for _ in range(30000)]
live = blocks[-1]
del blocks
print("ready", flush=True)
time.sleep(1000)'
	flmem trim --pid "$VICTIM"
	assert_status 0
	assert_output "process $VICTIM: [0-9.]+ MiB released"
	assert_victim_unharmed
}

@test "a program that flmem samples: its allocator is that behind the sampler" {
	start_victim "$FLMEM" profile run -o "$BATS_TEST_TMPDIR/p.prof" -- /usr/bin/python3 -uc '
import time
blocks = [bytes(3000) for _ in range(8000)]
live = blocks[::64]
del blocks
print("ready", flush=True)
time.sleep(1000)'
	flmem detect --json --pid "$VICTIM"
	[ "$(json '[a["name"] for a in r["processes"][0]["allocators"] if a["serves_malloc"]]')" = "['glibc']" ]
	flmem trim --json --pid "$VICTIM"
	assert_status 0
	[ "$(json 'r["results"][0]["outcome"]')" = released ]
	assert_victim_unharmed
}

@test "several targets, of which some fail" {
	start_retainer
	local first=$VICTIM
	start_retainer
	flmem trim --pid "$first" --pid "$VICTIM"
	assert_status 0
	assert_output "process $first: .*process $VICTIM: "
	flmem trim --pid "$first,4194303"
	assert_status 8
	assert_stderr "^flmem trim: no process 4194303$"
	flmem trim --pid 4194303,4194302
	assert_status 3
	flmem trim --pid "$first,4194303" --json
	assert_status 8
	assert_schema trim
	[ "$(json '[x["exit_status"] for x in r["results"]]')" = "[0, 3]" ]
	assert_victim_unharmed "$first"
	assert_victim_unharmed
}

@test "targets by name and by tree" {
	start_retainer "name-of-$BATS_TEST_NUMBER-$$"
	flmem trim --name "name-of-$BATS_TEST_NUMBER-$$"
	assert_status 0
	assert_output "process $VICTIM: "
	flmem trim --tree "$VICTIM" --min-rss 1TiB
	assert_error 3
	flmem trim --tree "$VICTIM"
	assert_status 0
	assert_output "process $VICTIM: "
	assert_victim_unharmed
}

@test "bad targets touch nothing and say why" {
	flmem trim
	assert_error 2 'no target; use --pid, --name, --tree or --all'
	flmem trim --pid 1 --all
	assert_error 2 'exclude each other'
	for pid in 0 -1 4194305 x 99999999999999999999 ''; do
		flmem trim "--pid=$pid"
		assert_error 2 'invalid process ID'
	done
	flmem trim --pid 4194304
	assert_error 3 'no process 4194304'
	flmem trim --name ''
	assert_status 2
	flmem trim --name 'no such command line, surely'
	assert_error 3
	flmem trim --name '('
	assert_error 2
	flmem trim --pid 1 --timeout 5Q
	assert_error 2 "invalid duration '5Q' for --"
	flmem trim --pid 1 --min-rss 5Q
	assert_error 2 "invalid size '5Q' for --"
	flmem trim --pid 1 surplus
	assert_error 2 "unexpected argument 'surplus'"
}

@test "a kernel thread, a zombie and a thread are not targets" {
	local zombie
	if [ -d /proc/2 ] && [ ! -e /proc/2/exe ]; then
		flmem trim --pid 2
		assert_error 5 'is a kernel thread'
	else
		skip_part "$BATS_TEST_DESCRIPTION: process 2 is not a kernel thread here"
	fi
	start_victim /usr/bin/python3 -uc '
import os, time
pid = os.fork()
if pid == 0:
    os._exit(0)
print("ready", pid, flush=True)
time.sleep(1000)'
	zombie=$(awk '{ print $2 }' "$VICTIM_LOG")
	flmem trim --pid "$zombie"
	assert_error 3 'is a zombie: it has exited'
	flmem trim --pid "$zombie" --every 1h
	assert_status 3
	assert_stderr 'no further attempts: process [0-9]+ is a zombie: it has exited'
	start_retainer
	flmem trim --pid "$(find "/proc/$VICTIM/task" -mindepth 1 -maxdepth 1 -printf '%f\n' | sort -n | tail -1)"
	assert_error 2 'is a thread, not a process'
}

@test "a stopped target is refused once the time is over, and works when it goes on" {
	start_retainer
	kill -STOP "$VICTIM"
	wait_until 60 grep -q '^State:.T' "/proc/$VICTIM/status"
	flmem trim --pid "$VICTIM" --timeout 100ms
	assert_error 6 "is stopped; continue it first \(kill -CONT $VICTIM\)"
	grep -q '^State:.T' "/proc/$VICTIM/status"
	kill -CONT "$VICTIM"
	flmem trim --pid "$VICTIM"
	assert_status 0
	assert_victim_unharmed
}

@test "a closed stdout is an error, after the trim was made" {
	start_retainer
	# shellcheck disable=SC2016 # expanded by the inner shell
	run_command bash -c '"$FLMEM" trim --pid "$1" >&-' -- "$VICTIM"
	assert_status 7
	assert_victim_unharmed
}
