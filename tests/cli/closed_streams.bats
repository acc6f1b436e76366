#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# flmem as a daemon or a careless script starts it: without standard descriptors.

load helpers

# A socket is the last that it opens.
listens() {
	[[ $(readlink "/proc/$1/fd"/*) == *socket:* ]]
}

@test "what is printed to a closed descriptor goes into no file that was opened since" {
	start_victim safe_blocked pause
	# shellcheck disable=SC2153 # start_victim sets it
	"$FLMEM" watch --pid "$VICTIM" --quiet --listen 127.0.0.1:0 <&- >&- 2>&- 3>&- &
	VICTIMS+=("$!")
	wait_until 60 listens "$!"
	[ "$(readlink "/proc/$!/fd/0" "/proc/$!/fd/1" "/proc/$!/fd/2" | uniq)" = / ]
	assert_victim_unharmed
}

@test "a result that cannot be written is an error, and a started program finds them closed" {
	# shellcheck disable=SC2016 # for that shell
	run_command sh -c '"$0" --version >&-' "$FLMEM"
	assert_error 7 "cannot write the result to standard output: Bad file descriptor"
	# shellcheck disable=SC2016
	run_command sh -c '"$0" start --role client --no-gpu -- \
		/bin/sh -c "readlink /proc/self/fd/0; echo ended \$?" <&-' "$FLMEM"
	[ "$output" = "ended 1" ]
}
