#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# README.md and docs/ show what flmem prints: docs.py says how.

# shellcheck disable=SC2016 # backquotes are Markdown's
load helpers

DOCS=$FLMEM_TESTS/cli/docs.py

# tree: makes a copy of the documents, beside the rest of the source tree, in which faults are
# planted.
tree() {
	TREE=$BATS_TEST_TMPDIR/tree
	mkdir -p "$TREE/tests"
	cp -r "$FLMEM_TESTS/../docs" "$FLMEM_TESTS"/../*.md "$FLMEM_TESTS/../LICENSE" \
		"$FLMEM_TESTS/../demo" "$TREE"
	cp -r "$FLMEM_TESTS/cli" "$FLMEM_TESTS/fixtures" "$FLMEM_TESTS/recordings" \
		"$FLMEM_TESTS/victims" "$FLMEM_TESTS/bench" "$TREE/tests"
	# Live processes are left to the other test.
	find "$TREE" -name '*.md' -exec sed -i 's/^```console live=.*/```console recorded/' {} +
}

@test "transcripts, options and links in the documents are right" {
	run_command python "$DOCS" "$FLMEM"
	assert_status 0
	local line
	while read -r line; do
		[[ $line != SKIP:* ]] || skip_part "${line#SKIP: }"
	done <<<"$output"
}

@test "a transcript, an option, a link and a heading that are wrong are found" {
	tree
	sed -i 's/^export MALLOC_ARENA_MAX=2$/export MALLOC_ARENA_MAX=3/' "$TREE/docs/guides/env-and-start.md"
	sed -i 's/--every 5m/--each 5m/' "$TREE/docs/guides/trim.md"
	sed -i 's/(detect.md#select-processes)/(detect.md#selection)/' "$TREE/docs/guides/trim.md"
	rm "$TREE/docs/metrics.md"
	run_command python "$TREE/tests/cli/docs.py" "$FLMEM"
	assert_status 1
	assert_output "env-and-start.md:[0-9]+: 'flmem env --role client --no-gpu' prints"
	assert_output 'trim.md:[0-9]+: flmem trim has no option --each'
	assert_output 'trim.md: no heading for the link detect.md#selection'
	assert_output 'README.md: no file for the link docs/metrics.md'
}

@test "documents without transcripts fail" {
	tree
	find "$TREE" -name '*.md' -exec sed -i 's/^```console.*/```text/' {} +
	run_command python "$TREE/tests/cli/docs.py" "$FLMEM"
	assert_status 1
	assert_output 'no transcript is run: where are they'
	assert_output 'no transcript is live: where are they'
}
