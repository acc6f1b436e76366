#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# flmem profile diff: what is a change, and whose.

# shellcheck disable=SC2030,SC2031 # each test is a shell of its own
load helpers

setup() {
	requires python3
	cd "$BATS_TEST_TMPDIR" || return
}

# allocate_small PROFILE NUMBER: allocates so many small objects, in two functions by turns, beside
# 8 MiB.
allocate_small() {
	"$FLMEM" profile run -f --interval 4K --limit 4MiB -o "$1" -- /usr/bin/python3 -I -c '
import sys
def one(kept):
    for _ in range(30000):
        kept = (kept,)
    return kept
def other(kept):
    for _ in range(30000):
        kept = (kept,)
    return kept
kept, block = (), bytearray(8 << 20)
for number in range(int(sys.argv[1])):
    kept = (other if number % 2 else one)(kept)
' "$2" 3>&-
}

@test "diff: which line needs a new arena of Python is chance, and all arenas have one line" {
	allocate_small first.prof 4
	allocate_small second.prof 6
	flmem profile diff --by allocated first.prof second.prof
	assert_status 0
	assert_output ' \+[0-9.]+ MiB .* of allocated: arenas of Python.s small objects \(\+- [0-9.]+ [KM]?i?B'
	flmem profile diff --by allocated first.prof first.prof
	assert_output '\+0 B .*  total live \(\+- [0-9.]+ [KM]?i?B\)'
	flmem profile diff --by allocated first.prof second.prof
	refute_output ' (one|other) \('
	flmem profile diff --by allocated --json first.prof second.prof
	assert_schema profile-diff
	examine 'import json, sys
rows = json.load(sys.stdin)["functions"]
arenas = [sum(r[side + "_arena_bytes"] for r in rows) / (1 << 20) for side in ("first", "second")]
assert arenas[0] >= 2 and arenas[1] > arenas[0], arenas
assert all(r["first_arena_bytes"] <= r["first"]["allocated_bytes"] for r in rows), rows
changed = {r["frame"]["function"] for r in rows if r["beyond_error"] and r["frame"]}
assert not changed & {"one", "other"}, changed'
	# A difference of many arenas is not chance.
	allocate_small second.prof 60
	flmem profile diff --by allocated first.prof second.prof
	assert_output 'mostly small objects of Python: --python-allocators'
}

@test "diff has the own line where a library allocates" {
	mkdir -p lib/python3/site-packages
	echo 'def ones(size): return bytearray(size)' >lib/python3/site-packages/array_.py
	cat >train.py <<-'END'
		import sys
		sys.path.insert(0, "lib/python3/site-packages")
		import array_

		def load(count): return [array_.ones(1 << 20) for _ in range(count)]
		def model(): return bytearray(int(sys.argv[1]) << 20)
		kept = load(int(sys.argv[1])), model()
	END
	local count
	for count in 4 40; do
		"$FLMEM" profile run --interval 64K --limit 4MiB -o "$count.prof" -- \
			/usr/bin/python3 -I train.py "$count" 3>&-
	done
	flmem profile diff 4.prof 40.prof
	assert_status 0
	examine 'import re, sys
lines = sys.stdin.read().splitlines()
at = next(i for i, line in enumerate(lines) if re.search(r"  ones \([^ ]*array_.py:1\)$", line))
assert re.fullmatch(r" +own line: (load|load\..*|<listcomp>) \([^ ]*train.py:5\)", lines[at + 1])
at = next(i for i, line in enumerate(lines) if re.search(r"  model \(", line))
assert at + 1 == len(lines) or "own line" not in lines[at + 1], lines'
	flmem profile diff --json 4.prof 40.prof
	assert_schema profile-diff
	examine 'import json, sys
diff = json.load(sys.stdin)
rows = {r["frame"]["function"]: r for r in diff["functions"] if r["frame"]}
# Each block of 16 intervals has a sample: only the small blocks are not exact.
assert diff["total_change_errors"]["allocated_bytes"] > rows["ones"]["change_error_bytes"] == 0, diff
assert rows["ones"]["own_frame"]["line"] == 5 and rows["ones"]["beyond_error"], rows["ones"]
assert rows["model"]["own_frame"]["line"] == 6, rows["model"]'
	mkdir all && mv 4.prof 40.prof all/
	flmem profile analyze --baseline 4.prof --json all
	assert_schema profile-analyze
	flmem profile analyze --baseline 4.prof all
	assert_output ' {38}own line: '
	local text=$output
	flmem profile analyze --baseline all/4.prof all
	[ "$output" = "$text" ] || fail "by its path: $output"
	flmem profile analyze --baseline ./all/../all/4.prof all
	[ "$output" = "$text" ] || fail "by another path: $output"
	mv all/4.prof before.prof
	for text in before.prof ./before.prof "$PWD/before.prof"; do
		flmem profile analyze --baseline "$text" all
		assert_status 0
		assert_output $'  profile\n[^\n]*  before.prof \\(ended\\), the baseline\n[^\n]*  40.prof'
		assert_output ' {38}own line: '
	done
	flmem profile analyze --baseline all/4.prof all
	assert_error 2 "--baseline: no profile of the folder is called 'all/4.prof', and there is no such file"
	head -c 100 before.prof >cut.prof
	flmem profile analyze --baseline cut.prof all
	assert_error 2 "--baseline: cannot read the profile 'cut.prof': not a heap profile of flmem, or truncated"
	mv cut.prof all
	flmem profile analyze --baseline cut.prof all
	assert_error 2 "--baseline: .*cut.prof"
}

@test "diff has a change of large blocks, whose error is small, at a large interval" {
	cat >"$BATS_TEST_TMPDIR/blocks.py" <<-'END'
		import sys

		def hold(count):
		    return [bytearray(16 << 20) for _ in range(count)]

		kept = hold(int(sys.argv[1]))
	END
	local count
	for count in 1 2; do
		flmem profile run --interval 2MiB --limit 1MiB -o "$BATS_TEST_TMPDIR/$count" -- \
			/usr/bin/python3 -I "$BATS_TEST_TMPDIR/blocks.py" "$count"
		assert_status 0
	done
	flmem profile diff "$BATS_TEST_TMPDIR/1" "$BATS_TEST_TMPDIR/2"
	assert_output '\+16 MiB +16 MiB +32 MiB  hold[^ ]* \('
	flmem profile diff --by allocated "$BATS_TEST_TMPDIR/1" "$BATS_TEST_TMPDIR/2"
	assert_output '\+16 MiB +16 MiB +32 MiB  hold[^ ]* \('
}
