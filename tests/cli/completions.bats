#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# The completions, asked in the shells that they are for.

load helpers
load shells

setup_file() {
	mkdir -p "$BATS_FILE_TMPDIR/completions" "$BATS_FILE_TMPDIR/docs/man"
	"$FLMEM_GEN" "$BATS_FILE_TMPDIR"
}

setup() {
	COMPLETIONS=$BATS_FILE_TMPDIR/completions
}

@test "bash offers commands, options, topics" {
	in_bash flmem he
	[ "$output" = help ]
	in_bash flmem --
	has_word --version
	in_bash flmem help --
	[ "$output" = --help ]
	in_bash flmem help exit
	[ "$output" = exit-codes ]
	in_bash flmem nosuchcommand ''
	[ -z "$output" ]
}

@test "fish offers commands, options, topics" {
	in_fish 'flmem he'
	has_word help
	in_fish 'flmem --'
	has_word --version
	in_fish 'flmem help --'
	has_word --help
	has_no_word --version
	in_fish 'flmem help exit'
	has_word exit-codes
}

@test "zsh offers commands, options, topics" {
	in_zsh 'flmem he'
	has_word help
	in_zsh 'flmem --'
	has_word --version
	in_zsh 'flmem help --'
	has_word --help
	has_no_word --version
	in_zsh 'flmem help exit'
	has_word exit-codes
}

@test "bash offers choices, also behind an equals sign, and files" {
	in_bash flmem env --
	has_word --role
	has_word --format
	in_bash flmem env --role ''
	has_word server
	has_word trainer
	in_bash flmem env -r cl
	[ "$output" = client ]
	in_bash flmem env --format = sys
	[ "$output" = systemd ]
	in_bash flmem env --format =
	has_word docker
	in_bash flmem env --framework-version ''
	[ -z "$output" ]
	in_bash flmem env --jemalloc-library /etc/hos
	has_word /etc/hosts
}

@test "fish offers choices, also behind an equals sign, and files" {
	in_fish 'flmem env --role '
	has_word server
	has_word trainer
	has_no_word help
	in_fish 'flmem env -r cl'
	has_word client
	in_fish 'flmem env --format=sys'
	has_word --format=systemd
	in_fish 'flmem env --jemalloc-library /etc/hos'
	has_word /etc/hosts
}

@test "zsh offers choices, also behind an equals sign, and files" {
	in_zsh 'flmem env --role '
	has_word server
	has_word trainer
	in_zsh 'flmem env -r cl'
	has_word client
	in_zsh 'flmem env --format=sys'
	has_word systemd
	in_zsh 'flmem env --jemalloc-library /etc/hos'
	has_word hosts
}

@test "the shells offer pids where a pid is meant" {
	in_bash flmem trim --pid ''
	has_word "$$"
	in_bash flmem trim -p ''
	has_word "$$"
	in_fish 'flmem trim --pid '
	has_word "$$"
	in_zsh 'flmem trim --pid '
	has_word "$$"
}

@test "bash completes the command line that start takes" {
	in_bash flmem start --
	has_word --role
	in_bash flmem start --role server bas
	has_word bash
	in_bash flmem start --role = server -- bas
	has_word bash
	in_bash flmem start --role server bash --
	has_no_word --role
	in_bash flmem start --role server bash /etc/hos
	has_word /etc/hosts
}

@test "fish completes the command line that start takes" {
	in_fish 'flmem start --'
	has_word --role
	in_fish 'flmem start --role server bas'
	has_word bash
	in_fish 'flmem start --role=server -- bas'
	has_word bash
	in_fish 'flmem start --role server bash /etc/hos'
	has_word /etc/hosts
	in_fish 'flmem start -r server fish --no-conf'
	has_word --no-config
	in_fish 'flmem start --role server fish --'
	has_word --no-config
	has_no_word --role
	in_fish 'flmem start --role server -- --'
	has_no_word --role
}

@test "zsh completes the command line that start takes" {
	in_zsh 'flmem start --'
	has_word --role
	in_zsh 'flmem start --role server bas'
	has_word bash
	in_zsh 'flmem start --role=server -- bas'
	has_word bash
	in_zsh 'flmem start --role server bash /etc/hos'
	has_word hosts
	in_zsh 'flmem start --role server bash --'
	has_no_word --role
}

@test "zsh searches the directory that its completions are installed in" {
	requires zsh cmake
	local prefix
	cat >"$BATS_TEST_TMPDIR/ask.cmake" <<-END
		include("$FLMEM_TESTS/../cmake/ZshDirectory.cmake")
		flmem_zsh_directory("\${PREFIX}" directory)
		execute_process(COMMAND \${CMAKE_COMMAND} -E echo "\${PREFIX}/share/\${directory}")
	END
	for prefix in /usr /usr/local; do
		cmake -DPREFIX=$prefix -P "$BATS_TEST_TMPDIR/ask.cmake" >"$BATS_TEST_TMPDIR/directory"
		zsh -fc 'print -l $fpath' | grep -qxFf "$BATS_TEST_TMPDIR/directory" ||
			fail "$(cat "$BATS_TEST_TMPDIR/directory") is not in zsh's fpath"
	done
}
