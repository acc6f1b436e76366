#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# The smallest experiment of docs/experiments.md, with real processes.

load helpers

setup() {
	mkdir "$BATS_TEST_TMPDIR/work" && cd "$BATS_TEST_TMPDIR/work" || return
	unset http_proxy https_proxy all_proxy HTTPS_PROXY ALL_PROXY
}

experiment() {
	run_command "$FLMEM_TESTS/experiments/run" "$(dirname "$(dirname "$FLMEM")")" "$@"
	[ "$status" -ne 77 ] || skip "${output#SKIP: }"
	assert_status 0
}

@test "two rounds of training, by flmem and by whole models" {
	experiment mnist-cnn --rounds 2 --steps 2 --output out
	assert_output 'flmem +server'
	assert_output 'original +client 2'
	/usr/bin/python3 -B - <<-'END'
		import json
		found = json.load(open("out/mnist-cnn.json"))
		assert found["left_out"]["flmem"] is found["left_out"]["original"] is None, found
		assert found["largest_difference"] < 1e-4, found
		ways = found["results"]
		assert set(ways["flmem"]["anonymous"]) == {"server", "client 1", "client 2"}, ways
		assert ways["flmem"]["anonymous"]["server"] < ways["original"]["anonymous"]["server"], ways
	END
	for way in flmem original; do
		grep -q '<html' "out/mnist-cnn-$way.html"
		"$FLMEM" watch --replay "out/mnist-cnn-$way.rec" --quiet
	done
}

@test "an experiment that does not fit is refused" {
	run_command "$FLMEM_TESTS/experiments/run" "$(dirname "$(dirname "$FLMEM")")" llama-3.1-70b --disk 1
	[ "$status" -ne 77 ] || skip "${output#SKIP: }"
	assert_status 1
	assert_stderr "not even one layer"
}
