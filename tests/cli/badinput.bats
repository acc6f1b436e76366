#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# What goes wrong before any command does its work, the same for all of them.

load helpers

@test "a PID without --pid is pointed out" {
	flmem trim 1234
	assert_error 2 "flmem trim: unexpected argument '1234'; did you mean '--pid 1234'?"
	flmem detect 12a
	assert_error 2 "flmem detect: unexpected argument '12a'"
	[[ $stderr != *--pid* ]]
	flmem env 1234
	assert_error 2 "flmem env: unexpected argument '1234'"
	[[ $stderr != *--pid* ]]
}

@test "an unknown command is refused with the nearest name" {
	flmem hlep
	assert_error 2 "unknown command 'hlep'; did you mean 'help'"
	flmem zzzzzzzz
	assert_error 2 "unknown command 'zzzzzzzz'; see 'flmem help'"
	flmem --versoin
	assert_error 2 "unknown option '--versoin'; did you mean '--version'"
	flmem -x
	assert_error 2 "unknown option '-x'; see 'flmem help'"
}

@test "a subcommand without its command is named with it" {
	flmem leaks
	assert_error 2 "unknown command 'leaks'; did you mean 'profile leaks'?"
	flmem diff
	assert_error 2 "unknown command 'diff'; did you mean 'profile diff' or 'aggregate diff'?"
	flmem help flamegraph
	assert_error 2 "no help on 'flamegraph'; did you mean 'profile flamegraph'?"
	flmem help detekt
	assert_error 2 "no help on 'detekt'; did you mean 'detect'?"
	flmem help nothing-near
	assert_error 2 "no help on 'nothing-near'; see 'flmem help'"
}

@test "an unknown option is refused" {
	flmem help --unknown
	assert_error 2 "flmem help: unknown option '--unknown'"
	flmem help -Z
	assert_error 2 "unknown option '-Z'"
}

@test "with --json a bad option gives the error as an object too" {
	requires python3
	local arguments
	for arguments in '--unknown --json' '--json --unknown' '--json --timeout soon' '--pid --json'; do
		# shellcheck disable=SC2086 # words
		flmem trim $arguments
		assert_status 2
		[ "${arguments#--pid}" != "$arguments" ] || assert_schema error
	done
	[ -z "$output" ] || fail "here --json is the value of --pid"
	flmem start --role client --bad --json -- true
	assert_status 2
	assert_schema error
	flmem start --role client --bad -- true --json
	assert_error 2 "unknown option '--bad'"
}

@test "control characters of the command line do not reach the terminal" {
	flmem $'\e[31mred'
	assert_error 2
	[[ $stderr == *'\x1b[31mred'* ]]
}

@test "no command at all explains itself on stderr" {
	flmem
	assert_status 2
	[ -z "$output" ]
	assert_stderr '^usage: flmem'
}

@test "help on something that is not there" {
	flmem help nothing
	assert_error 2 "no help on 'nothing'"
}

every_help() {
	"$FLMEM" help | awk '/^commands:/ { on = 1; next } /^$/ { on = 0 }
		on && /^  [a-z]/ { print $1 " --help" }'
}

@test "a closed stdout is an error" {
	local arguments lines
	mapfile -t lines < <(every_help)
	[ "${#lines[@]}" -ge 1 ]
	for arguments in --version --help help 'help exit-codes' "${lines[@]}"; do
		# shellcheck disable=SC2086,SC2016 # words; expanded by the inner shell
		run_command bash -c '"$FLMEM" "$@" >&-' -- $arguments
		assert_error 7 'cannot write the result to standard output'
	done
}

@test "a full device is an error" {
	local arguments lines
	mapfile -t lines < <(every_help)
	[ "${#lines[@]}" -ge 1 ]
	for arguments in --version --help help 'help exit-codes' "${lines[@]}"; do
		# shellcheck disable=SC2086,SC2016
		run_command bash -c '"$FLMEM" "$@" >/dev/full' -- $arguments
		assert_error 7 'No space left on device'
	done
}

@test "a reader that went away is an error, not a signal" {
	# shellcheck disable=SC2016
	run_command bash -c '{ sleep 0.2; "$FLMEM" help; echo $? >"$BATS_TEST_TMPDIR/status"; } | true'
	[ "$(cat "$BATS_TEST_TMPDIR/status")" = 7 ]
}

@test "a closed stdin and stderr do no harm" {
	# shellcheck disable=SC2016
	run_command bash -c '"$FLMEM" --version <&- 2>&-'
	assert_status 0
	assert_output '^flmem [0-9]'
}

# 0 is what an option has that was not given: it would switch the limit off that it names.
@test "0 is refused where it would mean that the option was not given" {
	local arguments
	for arguments in 'watch --pid 1 --fail-above 0' 'watch --pid 1 --duration 0' \
		'watch --pid 1 --rounds 0' 'trim --pid 1 --timeout 0' 'detect --pid 1 --budget 0' \
		'recommend --params 0' 'aggregate --threads 0'; do
		# shellcheck disable=SC2086 # words
		flmem $arguments
		assert_error 2 'it must be more than 0'
	done
	flmem detect --all --min-rss 0 --no-heap --json
	assert_status 0
}

@test "a selection given twice is refused, and not replaced" {
	flmem detect --tree 1 --tree "$$"
	assert_error 2 '--tree accepts one value, and two were given'
	flmem trim --name one --name other
	assert_error 2 '--name accepts one value, and two were given'
}
