#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Help, man pages and the option reference, for every command in the table.

load helpers

# Generates the tables with flmem-gen; check.generated compares them with the committed files.
setup_file() {
	mkdir -p "$BATS_FILE_TMPDIR/completions" "$BATS_FILE_TMPDIR/docs/man"
	"$FLMEM_GEN" "$BATS_FILE_TMPDIR"
}

options_of() {
	awk -v head="## flmem $1" '$0 == head { on = 1; next } /^## / { on = 0 } on' \
		"$BATS_FILE_TMPDIR/docs/options.md" | grep '^| .-' | cut -d'|' -f2 |
		grep -oE -- '--[a-z0-9-]+'
}

@test "the overview lists commands" {
	flmem help
	assert_status 0
	local overview=$output
	flmem --help
	assert_status 0
	[ "$output" = "$overview" ]
	[ "$(all_commands | wc -l)" -ge 1 ]
	assert_output 'topics:.*exit-codes .*conditions '
	[ "$(grep -c '^topics:' <<<"$output")" -eq 1 ]
}

@test "every command explains each of its options" {
	local command option
	while read -ra command; do
		flmem "${command[@]}" --help
		assert_status 0
		[ -z "$stderr" ]
		assert_output "^usage: flmem ${command[*]} "
		[ -n "$(options_of "${command[*]}")" ]
		for option in $(options_of "${command[*]}"); do
			grep -qE -- "^ .* $option([ =]|\$)" <<<"$output" || fail "no $option"
		done
	done < <(all_commands)
}

@test "help and --help are the same text" {
	local command
	while read -ra command; do
		flmem help "${command[@]}"
		local text=$output
		flmem "${command[@]}" -h
		[ "$output" = "$text" ]
	done < <(all_commands)
}

@test "no help line is wider than 80 columns or ends in a space" {
	local topic
	while read -ra topic; do
		flmem help "${topic[@]}"
		! grep -nE '.{81}| $' <<<"$output" || fail "too wide or a trailing space"
	done < <(printf '\nexit-codes\nconditions\nvalues\nenvironment\n' && all_commands)
}

@test "the description of help names every topic" {
	flmem help
	local overview=$output topic count=0
	flmem help help
	local text=$output
	while read -r topic; do
		grep -q "$topic" <<<"$text" || fail "'flmem help help' does not name $topic"
		count=$((count + 1))
	done < <(sed -n '/^topics:/,/^$/s/^  \([^ ]*\) .*/\1/p' <<<"$overview")
	[ "$count" -ge 4 ]
}

@test "the exit codes are those of the contract" {
	flmem help exit-codes
	assert_status 0
	[ "$(grep -c '^  [0-9] ' <<<"$output")" = 10 ]
}

@test "the README lists the same exit codes" {
	flmem help exit-codes
	local codes=$output
	run_command sed -n 's/^| \([0-9]*\) | \(.*\) |$/  \1  \2/p' "$FLMEM_TESTS/../README.md"
	[ "exit status:"$'\n'"$output" = "$codes" ]
}

@test "every command has an unknown-option error that names the nearest" {
	local command option count=0
	while read -ra command; do
		option=$(options_of "${command[*]}" | grep -vx -- --help | grep -E '.{6}' | head -1)
		[ -n "$option" ] || continue
		count=$((count + 1))
		flmem "${command[@]}" "${option%?}_"
		assert_error 2 "flmem ${command[*]}: unknown option '${option%?}_'; did you mean '--"
	done < <(all_commands)
	[ "$count" -gt 0 ]
}

@test "man pages are free of warnings" {
	requires man mandoc
	local page warnings
	for page in "$BATS_FILE_TMPDIR"/docs/man/*.1; do
		warnings=$(LC_ALL=C.UTF-8 MANWIDTH=80 man --warnings -E UTF-8 -l "$page" 2>&1 >/dev/null)
		[ -z "$warnings" ] || fail "$page: $warnings"
		# A date would make the page differ with every build.
		warnings=$(mandoc -Tlint -W warning "$page" | grep -v 'missing date' || true)
		[ -z "$warnings" ] || fail "$page: $warnings"
	done
}

@test "man pages show quotes as a shell needs them" {
	requires man
	local page
	for page in "$BATS_FILE_TMPDIR"/docs/man/*.1; do
		# In the argument of a macro roff drops ", and it may print ' as a curly quote.
		! grep -nE "^([^.]|\.B ).*['\"]" "$page" || fail "$page: a quote that is not escaped"
	done
	page=$BATS_FILE_TMPDIR/docs/man/flmem-env.1
	[ -e "$page" ] || return 0 # in a table without this command
	run_command env LC_ALL=C.UTF-8 MANWIDTH=200 man -l "$page"
	grep -qF "eval \"\$(flmem env --role client)\"" <<<"$output" || fail "not as in --help"
}

@test "the man page lists all exit statuses" {
	local status
	flmem help exit-codes
	while read -r status _; do
		grep -qx "\.B $status" "$BATS_FILE_TMPDIR/docs/man/flmem.1" || fail "no $status"
	done < <(sed 1d <<<"$output")
}

@test "every man page has the sections that a reader looks for" {
	local command section page
	while read -ra command; do
		page=$BATS_FILE_TMPDIR/docs/man/flmem-$(IFS=- && echo "${command[*]}").1
		for section in NAME SYNOPSIS DESCRIPTION OPTIONS 'EXIT STATUS' EXAMPLES 'SEE ALSO'; do
			grep -qx "\.SH $section" "$page" || fail "$page: no $section"
		done
	done < <(all_commands)
}

@test "the version is one line" {
	flmem --version
	assert_status 0
	assert_output '^flmem [0-9]+\.[0-9]+\.[0-9]+$'
	local version=$output
	flmem -V
	[ "$output" = "$version" ]
}
