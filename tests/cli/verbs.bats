#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Commands with verbs below them, in a flmem with a table of its own (tests/verbs).

load helpers
load shells

setup_file() {
	mkdir -p "$BATS_FILE_TMPDIR/completions" "$BATS_FILE_TMPDIR/docs/man"
	"$FLMEM_VERBS/flmem-gen" "$BATS_FILE_TMPDIR"
}

setup() {
	FLMEM=$FLMEM_VERBS/flmem
	COMPLETIONS=$BATS_FILE_TMPDIR/completions
	cd "$BATS_TEST_TMPDIR" || return
	touch model.npz
}

has_line() {
	grep -qE -- "$1" <<<"$output" || fail "no line like '$1'"
}

prints() {
	assert_status 0
	[ "$output" = "$1" ] || fail "not '$1'"
}

@test "the word after a command selects its verb" {
	flmem pack inspect a b
	prints 'pack inspect: output=- kind=- [a] [b]'
	flmem probe run --kind heap ls --kind stack
	prints 'probe run: output=- kind=heap [ls] [--kind] [stack]'
}

@test "any other word is an argument of a command that has them" {
	flmem pack a inspect
	prints 'pack: output=- kind=- [a] [inspect]'
	flmem pack -o inspect a
	prints 'pack: output=inspect kind=- [a]'
	flmem pack -- inspect
	prints 'pack: output=- kind=- [inspect]'
	flmem pack
	prints 'pack: output=- kind=-'
}

@test "an unknown verb is an error that names the nearest" {
	flmem probe tabel --json
	assert_error 2 "flmem probe: unknown subcommand 'tabel'; did you mean 'table'?"
	flmem probe tabel --help
	assert_error 2 "flmem probe: unknown subcommand 'tabel'; did you mean 'table'?"
	flmem probe xyz
	assert_error 2 "flmem probe: unknown subcommand 'xyz'; see 'flmem help probe'"
	flmem probe
	assert_error 2 "flmem probe: no subcommand is given; see 'flmem help probe'"
	flmem probe --kind heap run
	assert_error 2 "flmem probe: unknown option '--kind'"
}

@test "a misspelt verb is not taken for a file, unless there is one of that name" {
	flmem pack inspct a
	assert_error 2 "flmem pack: unknown subcommand 'inspct'; did you mean 'inspect'?"
	touch inspct
	flmem pack inspct a
	prints 'pack: output=- kind=- [inspct] [a]'
}

@test "an error of a verb names both words" {
	flmem probe run --knd
	assert_error 2 "flmem probe run: unknown option '--knd'; did you mean '--kind'?"
	flmem probe table
	assert_error 7 "flmem probe table: cannot make a table"
	flmem probe table --json
	assert_status 7
	grep -qF '"flmem.probe-table/1"' <<<"$output" || fail "the schema is not of the verb"
}

@test "help lists the verbs of a command" {
	flmem pack --help
	assert_status 0
	[ "$(head -2 <<<"$output")" = "usage: flmem pack [options] IN...
       flmem pack inspect [options] FILE..." ] || fail "usage"
	has_line '^  inspect +shows what a file has in it$'
	local text=$output
	flmem help pack
	prints "$text"
	flmem probe -h
	[ "$(head -2 <<<"$output")" = "usage: flmem probe run [options] COMMAND...
       flmem probe table [options]" ] || fail "usage"
}

@test "help describes a verb" {
	flmem probe run --help
	assert_status 0
	[ "$(head -1 <<<"$output")" = "usage: flmem probe run [options] COMMAND..." ] || fail "usage"
	has_line '^  -k, --kind=heap\|stack'
	local text=$output
	flmem help probe run
	prints "$text"
	flmem help probe rnu
	assert_error 2 "flmem help: no help on 'probe rnu'; see 'flmem help probe'"
	flmem help probe run it
	assert_error 2 "flmem help: help accepts one command or topic"
	flmem help exit-codes run
	assert_error 2 "flmem help: help accepts one command or topic"
}

@test "help below a command with verbs is the help of that command, or of its verb" {
	local text
	flmem help probe
	text=$output
	flmem probe help
	prints "$text"
	flmem help probe run
	text=$output
	flmem probe help run
	prints "$text"
	flmem probe help rnu
	assert_error 2 "flmem help: no help on 'probe rnu'; see 'flmem help probe'"
	flmem help pack
	text=$output
	flmem pack help
	prints "$text"
	touch help # the word means a file now
	flmem pack help
	[ "$output" != "$text" ]
}

@test "a verb has a man page, and its command names it" {
	requires man mandoc
	local page warnings pages=$BATS_FILE_TMPDIR/docs/man
	for page in "$pages"/*.1; do
		warnings=$(mandoc -Tlint -W warning "$page" | grep -v 'missing date' || true)
		[ -z "$warnings" ] || fail "$page: $warnings"
	done
	run_command env LC_ALL=C MANWIDTH=80 man -l "$pages/flmem-probe-run.1"
	has_line '^FLMEM-PROBE-RUN\(1\)'
	has_line '^ +flmem probe run \[options\] COMMAND'
	has_line 'flmem\(1\), flmem-probe\(1\), flmem-probe-table\(1\)$'
	run_command env LC_ALL=C MANWIDTH=80 man -l "$pages/flmem-pack.1"
	has_line '^ +flmem pack inspect \[options\] FILE'
	has_line '^ +flmem-pack-inspect\(1\)$'
	run_command env LC_ALL=C MANWIDTH=80 man -l "$pages/flmem.1"
	has_line '^ +flmem-probe\(1\)$'
}

@test "the option reference has a section for each verb" {
	run_command grep '^## flmem\|^`flmem' "$BATS_FILE_TMPDIR/docs/options.md"
	# shellcheck disable=SC2016
	[ "$output" = '## flmem pack
`flmem pack [options] IN...`: packs files.
## flmem pack inspect
`flmem pack inspect [options] FILE...`: shows what a file has in it.
## flmem probe
`flmem probe <subcommand>`: probes commands.
## flmem probe run
`flmem probe run [options] COMMAND...`: probes a command: all of it.
## flmem probe table
`flmem probe table [options]`: prints the result as a table.
## flmem help
`flmem help [options] [command [subcommand] | topic]`: explains a command or a topic.' ] ||
		fail "not these sections"
}

# Checks a shell's completions of verbs; `$1` queries the shell.
offers_verbs() {
	local ask=$1
	"$ask" flmem probe ''
	has_word run
	has_word table
	has_no_word inspect
	"$ask" flmem pack ''
	has_word inspect
	has_word model.npz
	"$ask" flmem help probe ''
	has_word run
	has_no_word inspect
	has_no_word pack
	"$ask" flmem help trim ''
	has_no_word pack
}

offers_of_a_verb() {
	local ask=$1
	"$ask" flmem probe run --
	has_word --kind
	has_no_word --json
	"$ask" flmem probe table --
	has_word --json
	has_no_word --kind
	"$ask" flmem pack --
	has_word --output
	"$ask" flmem pack inspect --
	has_no_word --output
	"$ask" flmem pack inspect mod
	has_word model.npz
	"$ask" flmem probe run --kind ''
	has_word stack
	has_no_word run
	"$ask" flmem probe run --kind stack bas
	has_word bash
	"$ask" flmem probe run bash --
	has_no_word --kind
}

# Completes a line as typed; fish and zsh have the line in one piece.
in_fish_words() {
	in_fish "$*"
}

in_zsh_words() {
	in_zsh "$*"
}

@test "bash completes verbs" {
	offers_verbs in_bash
}

@test "bash completes the options and arguments of verbs" {
	offers_of_a_verb in_bash
}

@test "fish completes verbs" {
	offers_verbs in_fish_words
}

@test "fish completes the options and arguments of verbs" {
	offers_of_a_verb in_fish_words
}

@test "zsh completes verbs" {
	offers_verbs in_zsh_words
}

@test "zsh completes the options and arguments of verbs" {
	offers_of_a_verb in_zsh_words
}

@test "the completions are clean scripts" {
	requires shellcheck
	run_command shellcheck -s bash "$COMPLETIONS/flmem.bash"
	[ -z "$output" ]
}
