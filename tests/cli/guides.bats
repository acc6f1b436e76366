#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# The programs in docs/guides are programs.

load helpers

# Writes every block of one language into a file of its own; prints how many there are.
extract() {
	awk -v fence="\`\`\`$1" -v stem="$BATS_TEST_TMPDIR/block" -v suffix="$1" '
		$0 == fence { file = stem (++count) "." suffix; next }
		/^```/ { if (file) close(file); file = ""; next }
		file { print > file }
		END { print count + 0 }' "$FLMEM_TESTS"/../docs/guides/*.md
}

@test "the C in the guides compiles without a warning" {
	requires cc
	[ "$(extract c)" -ge 2 ]
	local block
	for block in "$BATS_TEST_TMPDIR"/block*.c; do
		run_command cc -std=c11 -Wall -Wextra -Werror -fsyntax-only \
			-I "$FLMEM_TESTS/../libcore/include" "$block"
		assert_status 0
	done
}

@test "the Python in the guides runs" {
	requires /usr/bin/python3
	[ "$(extract python)" -ge 2 ]
	local block
	for block in "$BATS_TEST_TMPDIR"/block*.python; do
		run_command env "PYTHONPATH=$FLMEM_TESTS/../libcore/bindings/python" \
			FLMEM_LIBRARY=/nonexistent /usr/bin/python3 -B "$block"
		assert_status 0
	done
}
