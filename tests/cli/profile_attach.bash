# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# A Python process that nobody prepared, to attach to: its profile in $PROFILE, itself in VICTIM.

setup() {
	requires python3 victim:sampled/sampled
	[ "$(uname -m)" = x86_64 ] || skip "attaching needs x86-64"
	PROFILE=$BATS_TEST_TMPDIR/p.prof
	export ATTACHED_PAUSE_S=0.004 # make soak lets its threads allocate more
	allow_victim --code
	allow_victim --moved
}

stop_attachable() {
	[ -z "${ORDERS:-}" ] || exec {ORDERS}>&-
	stop_victims
}

# A file with a separate teardown calls stop_attachable there.
teardown() {
	stop_attachable
}

# The victim obeys lines of a pipe, and answers in its log.
start_attachable() {
	local pipe=$BATS_TEST_TMPDIR/orders.$RANDOM$RANDOM
	[ -z "${ORDERS:-}" ] || exec {ORDERS}>&-
	mkfifo "$pipe"
	exec {ORDERS}<>"$pipe"
	VICTIM_LOG=$BATS_TEST_TMPDIR/victim.${#VICTIMS[@]}
	: >"$VICTIM_LOG"
	"$@" "${PYTHON:-python3}" -B "$FLMEM_TESTS/victims/sampled/attached.py" \
		<"$pipe" >"$VICTIM_LOG" 2>&1 3>&- &
	VICTIM=$!
	VICTIMS+=("$VICTIM")
	wait_until 60 victim_ready_or_gone "$VICTIM" "$VICTIM_LOG"
	alive "$VICTIM" || fail "it ended early: $(cat "$VICTIM_LOG")"
	ANSWERS=1
}

has_answered() {
	[ "$(wc -l <"$VICTIM_LOG")" -gt "$ANSWERS" ] || ! alive "$VICTIM"
}

# order WORDS: sends an order and prints the answer.
order() {
	echo "$*" >&"$ORDERS"
	wait_until 60 has_answered
	alive "$VICTIM" || fail "it died: $(cat "$VICTIM_LOG")"
	ANSWERS=$((ANSWERS + 1))
	ANSWER=$(sed -n "${ANSWERS}p" "$VICTIM_LOG")
}

assert_sound() {
	order check
	[ "$ANSWER" = sound ] || fail "the process is not sound: $ANSWER"
}

got() {
	python "$FLMEM_TESTS/harness/got.py" "$@"
}

field() {
	python -c 'import json, sys; print(eval(sys.argv[1], {"r": json.load(sys.stdin)}))' "$1" <<<"$output"
}

attach() {
	flmem profile attach --pid "$VICTIM" -o "$PROFILE" --force "$@"
	assert_status 0
}

detach() {
	flmem profile detach --pid "$VICTIM" "$@"
	assert_status 0
}
