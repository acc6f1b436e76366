# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Common to the tests of code that is brought into an interpreter: `load helpers`, `load python`.

# Starts a process with 2000 cycles of 20 KB that nothing refers to any more, and two threads that
# wait.
start_litterer() {
	start_victim "${PYTHON:-/usr/bin/python3}" -uc '
import gc, sys, threading, time
gc.disable()
class Cycle:
    pass
for _ in range(2000):
    one = Cycle()
    one.itself = one
    one.content = bytes(20000)
del one
for _ in range(2):
    threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()
'"${1:-}"'
print("ready", flush=True)
'"${2:-time.sleep(1000)}"
}

json() {
	python -c 'import json, sys; print(eval(sys.argv[1], {"r": json.load(sys.stdin)["results"][0]}))' \
		"$1" <<<"$output"
}

# trim_until CONDITION ARGS...: trims the victim with increasing timeouts until CONDITION, a
# command, holds. flmem waits for an idle thread up to its timeout, while a victim that computes
# takes a whole processor.
trim_until() {
	local condition=$1 time
	shift
	for time in 300ms 1s 4s 15s; do
		flmem trim --pid "$VICTIM" "$@" --timeout "$time" --json
		if "$condition"; then
			return
		fi
	done
	fail "not '$condition' in time: $output"
}

# Checks that the victim has printed nothing but its line "ready".
assert_silent() {
	[ "$(cat "$VICTIM_LOG")" = ready ] || fail "it said: $(cat "$VICTIM_LOG")"
}

setup() {
	requires python3 /usr/bin/python3
	allow_victim --code
}

has_threads() {
	[ "$(status_field "$1" Threads)" = "$2" ]
}
