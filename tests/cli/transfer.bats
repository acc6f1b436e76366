#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# The part "transfer" of the benchmarks with a model of 1 MiB: what arrives is what was sent, in each way that is
# installed here. No time is judged.

load helpers

setup() {
	mkdir "$BATS_TEST_TMPDIR/work" && cd "$BATS_TEST_TMPDIR/work" || return
	unset http_proxy https_proxy all_proxy HTTPS_PROXY ALL_PROXY
	has_module torch || skip "the transfer needs python3-torch"
}

# assert_moves NAME COUNT: checks the ways of NAME, that many, in both directions. The part compares
# the digests of both sides and fails where they differ. Missed limits do not matter here: flmem may
# be a sanitised build.
assert_moves() {
	local build
	build=$(dirname "$(dirname "$FLMEM")")
	run_command /usr/bin/python3 -B "$FLMEM_TESTS/bench/run" "$build" --part transfer --mib 1 --rounds 1 --way "$1" \
		--json found.json
	[[ $stderr != *"NOT INSTALLED"* ]] || skip "$(grep -o 'transfer: .*NOT INSTALLED.*' <<<"$stderr" | head -n 1)"
	/usr/bin/python3 -B - "$2" <<-'END'
		import json, sys
		found = json.load(open("found.json"))
		assert found["failed"] == [], found["failed"]
		for direction in "pull", "push":
		    rows = [row for row in found["rows"] if row["what"].startswith(direction + ", 1 MiB, ")]
		    assert len(rows) == int(sys.argv[1]) and all(row["median"] > 0 for row in rows), rows
	END
}

@test "flmem moves a model, by command and in Python" {
	assert_moves flmem 2
}

@test "APPFL moves it, with and without chunks" {
	assert_moves appfl 2
}

@test "NVFlare moves it, over TCP and gRPC" {
	assert_moves nvflare 2
}

@test "Flower moves it, through SuperLink and SuperNode" {
	assert_moves flower 1
}

@test "a model that differs in one bit, a name or a shape has not arrived" {
	/usr/bin/python3 -B - "$FLMEM_TESTS/bench" "$FLMEM_TESTS" <<-'END'
		import sys
		sys.path[:0] = sys.argv[1:] + [sys.argv[1] + "/transfer"]
		import numpy, peer, stage, transfer_ways
		peer.write("model", 1, 5)
		sent = peer.read("model")
		assert sum(array.nbytes for array in sent.values()) == 1 << 20 and len(sent) >= 4
		report = {"digest": peer.digest(sent), "peak": 1, "began": 1, "ended": 2}
		assert report["digest"] == transfer_ways.digest("model")
		transfer_ways.moved("this", "pull", report, dict(report))
		name = next(iter(sent))
		bit = {**sent, name: sent[name].copy()}
		bit[name].reshape(-1).view("u1")[7] ^= 1
		missing = {key: array for key, array in sent.items() if key != name}
		others = bit, missing, {**missing, "other": sent[name]}, {**sent, name: sent[name].reshape(-1)}
		for received in others:
		    try:
		        transfer_ways.moved("this", "pull", report, {**report, "digest": peer.digest(received)})
		    except stage.Failed as error:
		        assert "is not the one that was sent" in str(error)
		    else:
		        raise AssertionError("the difference was not noticed")
	END
}
