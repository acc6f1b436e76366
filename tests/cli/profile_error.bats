#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# How exact a line is, as `flmem profile table` says it, against what was allocated.

load helpers

setup() {
	PROFILE=$BATS_TEST_TMPDIR/p.prof
}

@test "the standard error of each line is that of its estimate, over 200 lines of blocks of two sizes" {
	python -c '
for i in range(100):
    print(f"kept{i} = [(bytearray(4095), bytearray(16383))[0] for _ in range(256)]")
for i in range(100):
    print(f"more{i} = [(bytearray(40959), bytearray(4096 * (k % 7)))[0] for k in range(32)]")
print("large = bytearray(64 << 20)")' >"$BATS_TEST_TMPDIR/lines.py"
	# The program is killed, as one that ends frees all of it.
	echo 'import os, signal; os.kill(os.getpid(), signal.SIGKILL)' >>"$BATS_TEST_TMPDIR/lines.py"
	"$FLMEM" profile run --interval 64KiB -o "$PROFILE" -- /usr/bin/python3 "$BATS_TEST_TMPDIR/lines.py" 3>&- || true
	flmem profile table --json --limit 1000 "$PROFILE"
	assert_status 0
	assert_schema profile-table
	python -c '
import json, math, sys
# largest row of each line: a comprehension is a separate function, whose caller may have a row
# there, too
largest = {}
for row in json.load(sys.stdin)["lines"]:
    if row["frame"] and row["frame"]["file"].endswith("lines.py") and row["own"]["live_bytes"]:
        other = largest.get(row["frame"]["line"])
        if not other or other["own"]["live_bytes"] < row["own"]["live_bytes"]:
            largest[row["frame"]["line"]] = row
rows = list(largest.values())
def error(row):
    return row["own_live_error_bytes"]
for first, exact in (1, 1 << 20), (101, 40960 * 32):
    z = [(r["own"]["live_bytes"] - exact) / error(r) for r in rows if first <= r["frame"]["line"] < first + 100]
    assert len(z) >= 98, len(z)
    within = sum(abs(x) <= 2 for x in z) / len(z)
    mean = math.sqrt(sum(x * x for x in z) / len(z))
    # A line whose blocks follow each other is more exact than independent samples.
    assert within >= 0.9 and 0.4 <= mean <= 1.5, (within, mean)
large = [r for r in rows if r["frame"]["line"] == 201]
assert error(large[0]) == 0 and large[0]["own"]["live_bytes"] >= 64 << 20, large' <<<"$output"
	flmem profile table "$PROFILE"
	assert_output 'live \+-  line \(by '
}

@test "the standard error of a stack is that of its line, and of selected rounds" {
	"$FLMEM" profile run --interval 64KiB -o "$PROFILE" -- /usr/bin/python3 -c '
import ctypes, os, signal
round = ctypes.CDLL(None).flmem_sampler_round_set
kept = []
for i in range(3):
    round(i)
    kept.append([bytearray(4095) for _ in range(1024)])
for i in range(3, 40):
    round(i)
    bytearray(i << 20 if i == 20 else 1 << 20)
os.kill(os.getpid(), signal.SIGKILL)' 3>&- || true
	flmem profile table --json --by live "$PROFILE"
	python -c '
import json, sys
r = json.load(sys.stdin)
assert r["lines"][0]["own_live_error_bytes"] == r["sites"][0]["live_error_bytes"] > 0' <<<"$output"
	cat >"$BATS_TEST_TMPDIR/all" <<<"$output"
	flmem profile table --json --by live --round 1..1 "$PROFILE"
	python -c '
import json, sys
one, whole = json.load(sys.stdin), json.load(open(sys.argv[1]))
assert 0 < one["lines"][0]["own_live_error_bytes"] < whole["lines"][0]["own_live_error_bytes"]' \
		"$BATS_TEST_TMPDIR/all" <<<"$output"
	# Of many rounds, the first and the last ones are shown, and the largest.
	flmem profile stats "$PROFILE"
	assert_output 'rounds: [0-9]+ more between them, without a larger peak; --json has all'
	[ "$(grep -cE '^ *([0-9]+|before)( +[0-9.]+ [KM]?i?B){3}$' <<<"$output")" = 12 ] || fail "not 12 rounds"
	assert_output ' 20 +20 MiB'
	flmem profile stats --json "$PROFILE"
	python -c 'import json, sys
assert json.dumps(json.load(sys.stdin)).count("peak_bytes") > 40' <<<"$output"
	flmem profile stats --round 10..20 "$PROFILE"
	refute_output 'more between them'
}

@test "recommend reports a profile that it cannot read" {
	{
		printf 'FLMEMHP\0'
		head -c 10000 /dev/zero
	} >"$BATS_TEST_TMPDIR/garbled.prof"
	flmem recommend "$BATS_TEST_TMPDIR/garbled.prof"
	assert_error 2 'garbled.prof'
}
