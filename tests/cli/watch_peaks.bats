#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Memory that a process takes and releases between two samples.

# shellcheck disable=SC2030,SC2031,SC2153 # each test is a shell of its own; helpers.bash sets VICTIM
load helpers

SPIKE=$((64 << 20))

# Starts a victim that reads commands from a FIFO: "round N" writes a line of the log, "spike" takes
# memory and releases it at once, and each is answered in a file.
start_spiking() {
	log=$BATS_TEST_TMPDIR/log.txt
	: >"$log"
	mkfifo "$BATS_TEST_TMPDIR/orders"
	start_victim /usr/bin/python3 -c '
import mmap, sys
orders, log, answers, size = sys.argv[1:]
print("ready", flush=True)
for order in open(orders):
    if order.startswith("round"):
        with open(log, "a") as out:
            out.write("Round %s started.\n" % order.split()[1])
    else:
        with mmap.mmap(-1, int(size)) as area:
            for at in range(0, int(size), 4096):
                area[at] = 1
    with open(answers, "a") as out:
        out.write(order)
' "$BATS_TEST_TMPDIR/orders" "$log" "$BATS_TEST_TMPDIR/answers" "$SPIKE"
	exec 7>"$BATS_TEST_TMPDIR/orders"
}

order() {
	echo "$1" >&7
	wait_until 120 grep -qx "$1" "$BATS_TEST_TMPDIR/answers"
}

# Waits until the watch has seen the round: its output has samples in it.
await_round() {
	wait_until 120 grep -q "\"type\":\"sample\".*\"round\":$1," "$BATS_TEST_TMPDIR/out"
}

# watch_spike OPTION...: watches three rounds with a spike in the second.
watch_spike() {
	"$FLMEM" watch --pid "$VICTIM" --log "$log" --interval 400ms --rounds 3 --json "$@" \
		>"$BATS_TEST_TMPDIR/out" 2>"$BATS_TEST_TMPDIR/err" 7>&- 3>&- &
	watcher=$!
	wait_until 120 grep -q sample "$BATS_TEST_TMPDIR/out"
	for round in 1 2 3; do
		order "round $round"
		await_round "$round"
		[ "$round" -ne 2 ] || order spike
	done
	order 'round 4'
	wait "$watcher"
}

round_field() {
	grep '"type":"round"' "$BATS_TEST_TMPDIR/out" | /usr/bin/python3 -c '
import json, sys
for line in sys.stdin:
    line = json.loads(line)
    if line["round"] == int(sys.argv[1]):
        print(json.dumps(line[sys.argv[2]]))' "$1" "$2"
}

@test "the kernel counts the peak of a round that no sample sees" {
	start_spiking
	watch_spike --exact-peaks
	exec 7>&-
	output=$(grep '"type":"round"' "$BATS_TEST_TMPDIR/out" | head -n 1)
	assert_schema watch
	for round in 1 2 3; do
		[ "$(round_field "$round" peak_exact)" = true ]
	done
	# The spike belongs to its round alone.
	[ "$(round_field 2 peak_bytes)" -ge "$(($(round_field 1 peak_bytes) + SPIKE / 2))" ]
	[ "$(round_field 3 peak_bytes)" -le "$(($(round_field 2 peak_bytes) - SPIKE / 2))" ]
}

@test "without the option the counter of the process is not reset" {
	start_spiking
	order spike
	before=$(awk '/VmHWM/ { print $2 }' "/proc/$VICTIM/status")
	watch_spike
	[ "$(awk '/VmHWM/ { print $2 }' "/proc/$VICTIM/status")" -ge "$before" ]
	exec 7>&-
	[ "$(round_field 1 peak_exact)" = false ]
}

@test "a peak that may not be reset is said once, and the samples stay" {
	[ "$(id -u)" -eq 0 ] || skip 'needs root, to take CAP_DAC_OVERRIDE away'
	setpriv --reuid 65534 --clear-groups true || skip 'may not change the user'
	start_spiking
	chmod a+x "$BATS_RUN_TMPDIR" "$BATS_RUN_TMPDIR/test" "$BATS_TEST_TMPDIR"
	setpriv --reuid 65534 --clear-groups --bounding-set=-all "$FLMEM" watch --pid "$VICTIM" \
		--log "$log" --interval 400ms --rounds 2 --json --exact-peaks \
		>"$BATS_TEST_TMPDIR/out" 2>"$BATS_TEST_TMPDIR/err" 7>&- 3>&- &
	watcher=$!
	wait_until 120 grep -q sample "$BATS_TEST_TMPDIR/out"
	for round in 1 2 3; do
		order "round $round"
		[ "$round" -gt 2 ] || await_round "$round"
	done
	wait "$watcher"
	exec 7>&-
	[ "$(round_field 1 peak_exact)" = false ]
	[ "$(grep -c 'clear_refs' "$BATS_TEST_TMPDIR/err")" -eq 1 ]
}

@test "exact peaks need a log" {
	flmem watch --pid $$ --exact-peaks
	assert_error 2 'give --log'
	flmem watch --replay nowhere.rec --exact-peaks
	assert_error 2 '--exact-peaks'
}
