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

# 0 stands for an option that was not given, so it would switch off the limit that it names.
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

@test "options of detect that would do nothing are refused" {
	flmem detect --ask-runtime
	assert_error 2 'about targets; add --pid'
	flmem detect --pid $$ --timeout 1s
	assert_error 2 'need --ask-runtime'
	flmem detect --pid $$ --assume-seccomp
	assert_error 2 'need --ask-runtime'
	flmem detect --pid $$ --no-heap --budget 1s
	assert_error 2 'exclude each other'
}

@test "a selection given twice is refused, and not replaced" {
	flmem detect --tree 1 --tree "$$"
	assert_error 2 '--tree accepts one value, and two were given'
	flmem trim --name one --name other
	assert_error 2 '--name accepts one value, and two were given'
}

# refuses_number OPTION WORDS: checks that the option's number is out of range, and that the message
# names it.
refuses_number() {
	flmem "${@:2}" </dev/null
	assert_error 2 "$1"
}

@test "a number that is out of range is refused with the name of its option" {
	local p=$BATS_TEST_TMPDIR/p url=http://127.0.0.1:1
	refuses_number --limit profile run -o "$p" --limit 8GiB -- true
	refuses_number --limit profile run -o "$p" --limit 1K -- true
	refuses_number --interval profile run -o "$p" --interval 2TiB -- true
	refuses_number --limit profile attach -o "$p" --pid $$ --limit 8GiB
	refuses_number --interval profile attach -o "$p" --pid $$ --interval 2TiB
	refuses_number --threads aggregate -o "$p" --threads 5000 a
	refuses_number --threads aggregate generate --shape resnet18 -o "$p" --threads 5000
	refuses_number --chunk aggregate -o "$p" --chunk 2GiB a
	refuses_number --retries aggregate -o "$p" --retries 101 "$url/a"
	refuses_number --timeout aggregate -o "$p" --timeout 2h "$url/a"
	refuses_number --retries exchange status --retries 9999999 "$url"
	refuses_number --timeout exchange status --timeout 9999h "$url"
	refuses_number --interval watch --pid $$ --interval 1us
	refuses_number --every-rounds watch --pid $$ --auto --every-rounds 9999999
	refuses_number --max-ineffective watch --pid $$ --auto --max-ineffective 9999999
	refuses_number --max-ineffective trim --pid $$ --every 1h --max-ineffective 9999999
	refuses_number --tasks start --role server --emit slurm --tasks 9999999 -- true
	refuses_number --clients recommend --params 8B --clients 9999999
	refuses_number --simulator recommend --params 8B --clients 2 --simulator 3
	touch "$BATS_TEST_TMPDIR/model"
	refuses_number --clients exchange serve --model "$BATS_TEST_TMPDIR/model" \
		--state "$BATS_TEST_TMPDIR/state" --clients 10001
	refuses_number --rounds exchange serve --model "$BATS_TEST_TMPDIR/model" \
		--state "$BATS_TEST_TMPDIR/state" --clients 2 --rounds 1000001
}

@test "what may not be read or written is not permitted (4), whichever command needs it" {
	requires root setpriv
	local -a nobody=(setpriv --reuid 65534 --regid 65534 --clear-groups "$FLMEM")
	"${nobody[@]}" --version || skip "nobody may not run $FLMEM"
	local closed=$BATS_TEST_TMPDIR/closed shards=$BATS_TEST_TMPDIR/shards
	chmod go+x "$BATS_RUN_TMPDIR" "${BATS_TEST_TMPDIR%/*}" "$BATS_TEST_TMPDIR"
	mkdir -m 700 "$closed"
	mkdir -m 777 "$shards"
	install -m 600 /dev/null "$shards/model.safetensors.index.json"
	run_command "${nobody[@]}" start --role client --supervise --workspace "$closed" -- true
	assert_error 4 "cannot use the workspace '$closed': Permission denied"
	run_command "${nobody[@]}" aggregate inspect "$shards"
	assert_error 4 "cannot read '$shards/model.safetensors.index.json': Permission denied"
	run_command "${nobody[@]}" watch --pid 1 --profile "$closed/a" --report "$shards/page"
	assert_error 4 "cannot read '$closed/a': Permission denied"
	run_command "${nobody[@]}" watch --pid 1 --log "$closed/log"
	assert_error 4 "cannot read the log '$closed/log': Permission denied"
}
