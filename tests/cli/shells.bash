# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Asks the shells what they offer: `load helpers`, `load shells`. $COMPLETIONS holds the completions.

# Words of the command line as readline splits them; the last one is being completed.
in_bash() {
	# shellcheck disable=SC2016
	run_command bash --norc -c 'source "$1"; shift
		COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
		_flmem 2>/dev/null
		printf "%s\n" "${COMPREPLY[@]}"' -- "$COMPLETIONS/flmem.bash" "$@"
}

in_fish() {
	requires fish
	# With fish's own completions, without those of the user.
	run_command env "XDG_CONFIG_HOME=$BATS_TEST_TMPDIR" "XDG_DATA_HOME=$BATS_TEST_TMPDIR" \
		fish -c "source $COMPLETIONS/flmem.fish; complete -C'$1'"
	[ -z "$stderr" ] || fail "fish complains"
}

in_zsh() {
	requires zsh
	run_command "$FLMEM_TESTS/cli/zsh-complete" "$COMPLETIONS" "$1"
}

has_word() {
	grep -qE -- "^$1([[:space:]]|\$)" <<<"$output" || fail "'$1' is not offered"
}

has_no_word() {
	! grep -qE -- "^$1([[:space:]]|\$)" <<<"$output" || fail "'$1' is offered"
}
