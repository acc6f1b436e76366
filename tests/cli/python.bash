# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Common to the tests of code that is brought into an interpreter: `load helpers`, `load python`.

# Anonymous memory is Python's own and comes and goes with its objects; and of a thread that has
# ended, glibc keeps the stack and the arena for the next one.
count_lines() {
	awk '$2 ~ /x/ || $6 ~ /^\// { n++ } END { print n }' "/proc/$1/maps"
}

# 2000 cycles of 20 KB that nothing refers to any more, and two threads that wait.
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
	python3 -c 'import json, sys; print(eval(sys.argv[1], {"r": json.load(sys.stdin)["results"][0]}))' \
		"$1" <<<"$output"
}

# Said nothing of its own accord: its output is that it is ready.
assert_silent() {
	[ "$(cat "$VICTIM_LOG")" = ready ] || fail "it said: $(cat "$VICTIM_LOG")"
}

setup() {
	requires python3 /usr/bin/python3
}

# Every version from 3.8 on that is installed, one by one.
each_python() {
	local python count=0
	for python in "$HOME"/.pyenv/versions/3.{8,9,10,11,12,13,14}.*/bin/python3 /usr/bin/python3; do
		[ -x "$python" ] || continue
		count=$((count + 1))
		echo "with $python"
		PYTHON=$python "$@"
		stop_victims
	done
	[ "$count" -gt 0 ] || skip "no Python from 3.8 on is installed"
}

has_threads() {
	[ "$(status_field "$1" Threads)" = "$2" ]
}
