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
	python - <<-'END'
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

# The page has the difference between both ways: the collected and joined messages. The bytes that
# the original receives are exact, as each message is larger than many intervals of the sampler.
@test "profiles of both ways name the place that collects and joins" {
	experiment mnist-cnn --rounds 2 --steps 1 --profile --output out
	assert_output 'heap of the client-1 at its peak, original'
	assert_output 'appfl: not run, the profiles compare'
	for way in server client-1; do
		"$FLMEM" profile table --json --by allocated "out/mnist-cnn-original-$way.prof" >"$way.json"
	done
	"$FLMEM" profile diff --json --by allocated out/mnist-cnn-{original,flmem}-client-1.prof >diff.json
	python - "$FLMEM_TESTS/experiments/original.py" <<-'END'
		import json, sys
		size = json.load(open("out/mnist-cnn.json"))["model_bytes"]
		lines = open(sys.argv[1]).read().splitlines()
		copied = 1 + next(number for number, line in enumerate(lines) if "return bytes(data)" in line)
		# Two clients, two rounds: the server receives four updates, and each client two models.
		for process, models in ("server", 4), ("client-1", 2):
		    rows = [row for row in json.load(open(process + ".json"))["lines"]
		            if (row["frame"] or {}).get("function") == "_receive" and row["frame"]["line"] == copied]
		    print(process, rows)
		    assert 0.95 < rows[0]["own"]["allocated_bytes"] / (models * size) < 1.05, (process, size)
		row, = [row for row in json.load(open("diff.json"))["functions"]
		        if (row["frame"] or {}).get("function") == "_receive"]
		print(row)
		assert row["first"]["allocated_bytes"] > 2 * size and row["second"]["allocated_bytes"] == 0, row
	END
	grep -q '_receive' out/mnist-cnn-diff-client-1.html
	[ ! -e out/mnist-cnn-flmem-server.prof ] || grep -q '_receive' out/mnist-cnn-diff-server.html
}

@test "an experiment that does not fit is refused" {
	run_command "$FLMEM_TESTS/experiments/run" "$(dirname "$(dirname "$FLMEM")")" llama-3.1-70b --cut --disk 1
	[ "$status" -ne 77 ] || skip "${output#SKIP: }"
	assert_status 1
	assert_stderr "not even one layer"
}

# The way of a model that fits on no disk, with a small model.
@test "a generated model: every element is verified, and nothing is written" {
	run_command python "$FLMEM_TESTS/experiments/one.py" flmem llama-3.1-70b --clients 2 \
		--rounds 1 --steps 1 --layers 80 --flmem "$FLMEM" --first 'generate:resnet18?seed=1'
	assert_status 0
	python - <<-'END'
		import json
		result = json.load(open("result.json"))
		assert " 11699132 elements are their exact mean" in result["verified"], result
		assert set(result["resident"]) == {"server", "client 1", "client 2"}, result
		assert all(set(times) == {"pull", "push"} for times in result["times"]), result
	END
	[ -z "$(find . -size +1M)" ]
}
