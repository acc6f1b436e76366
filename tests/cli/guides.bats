#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# The programs in docs/guides are programs.

load helpers

# Writes every block of one language into a separate file; prints the number of blocks.
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
	local block library
	# Makes the input of the examples: a model with one tensor of one value.
	cd "$BATS_TEST_TMPDIR" || return
	for block in 1 2; do
		/usr/bin/python3 -c 'import json, struct, sys
header = json.dumps({"w": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}).encode()
sys.stdout.buffer.write(struct.pack("<Q", len(header)) + header + struct.pack("<f", 1))
' >"client-$block.safetensors"
	done
	for block in block*.python; do
		# These blocks are parts of a job, or need a framework; tests/python and
		# exchange_rounds.bats run them.
		if grep -qE 'flmem\.(nvflare|flower|appfl)|^(from|import) (flwr|appfl)' "$block"; then
			run_command /usr/bin/python3 -B -c \
				'import sys; compile(open(sys.argv[1]).read(), sys.argv[1], "exec")' \
				"$block"
			assert_status 0
			continue
		fi
		# A program that only cleans up continues without the library.
		library=/nonexistent
		! grep -qE 'flmem\.(aggregate|inspect)' "$block" || library=$FLMEM_PLAIN
		run_command env "PYTHONPATH=$FLMEM_TESTS/../libcore/bindings/python" \
			"FLMEM_LIBRARY=$library" /usr/bin/python3 -B "$block"
		assert_status 0
	done
}
