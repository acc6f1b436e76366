#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# The verbs of `flmem profile` that read files, on heap dumps of a real jemalloc.

# shellcheck disable=SC2030,SC2031 # each test is a shell of its own
load helpers

# Makes two dumps of a program that holds 24 MiB, and then 64 MiB; without and with totals.
make_dumps() {
	mkdir -p "$1" && cd "$1" || return
	LD_PRELOAD=$JEMALLOC MALLOC_CONF=prof:true,prof_prefix:unused,lg_prof_sample:16,$2 \
		/usr/bin/python3 -I -c '
import ctypes

library = ctypes.CDLL(None)

def dump(name):
    path = ctypes.c_char_p(name)
    assert library.mallctl(b"prof.dump", None, None, ctypes.byref(path), ctypes.c_size_t(8)) == 0

kept = [bytearray((1 << 20) - 1) for _ in range(24)]
dump(b"first.heap")
kept += [bytearray((1 << 20) - 1) for _ in range(40)]
dump(b"second.heap")' </dev/null 3>&-
	cd "$BATS_FILE_TMPDIR" || return
}

setup_file() {
	JEMALLOC=$(find /usr/lib -name 'libjemalloc.so.2' | head -n 1)
	export JEMALLOC
	[ -n "$JEMALLOC" ] || return 0
	cd "$BATS_FILE_TMPDIR" || return
	make_dumps live prof_accum:false && make_dumps total prof_accum:true
}

setup() {
	[ -n "$JEMALLOC" ] || skip "needs libjemalloc2"
	cd "$BATS_FILE_TMPDIR" || return
}

@test "stats of a dump has its live bytes, and what it lacks is unknown and not 0" {
	flmem profile stats live/first.heap
	assert_status 0
	assert_output 'first.heap: dumped'
	assert_output 'samples: one per 64 KiB on average'
	assert_output 'bytes +[0-9.]+ MiB +- +- +-'
	refute_output 'process: '
	flmem profile stats --json live/first.heap
	assert_status 0
	assert_schema profile-stats
	examine 'import json, sys
r = json.load(sys.stdin)
p = r["profile"]
assert 24 << 20 < r["total"]["live_bytes"] < 36 << 20, r["total"]
assert p["state"] == "dumped" and p["allocator"] == "jemalloc" and p["rounds"] == []
assert p["interval_bytes"] == 65536 and not p["truncated"] and not p["skipped_records"]
for name in ("pid", "started_s", "duration_s", "samples", "peak_bytes", "peak_at_s"):
    assert p[name] is None and p["unknown"][name], name
for name in ("peak_bytes", "allocated_bytes", "freed_bytes", "freed_count"):
    assert r["total"][name] is None and r["total"]["unknown"][name], name'
}

@test "functions have names, and those of jemalloc itself are left out" {
	flmem profile table --json live/second.heap
	assert_status 0
	assert_schema profile-table
	examine 'import json, sys
r = json.load(sys.stdin)
site = r["sites"][0]
assert 60 << 20 < site["amounts"]["live_bytes"] < 72 << 20, site["amounts"]
assert all(f["kind"] == "native" for f in site["stack"])
assert any((f["function"] or "").startswith("Py") for f in site["stack"]), site["stack"][:5]
assert not any("jemalloc" in (f["module"] or "") for f in site["stack"]), site["stack"][:5]'
	flmem profile summary live/second.heap
	assert_status 0
	assert_output 'PyByteArray_Resize|bytearray'
	flmem profile tree live/second.heap
	assert_status 0
}

@test "totals are known where jemalloc counts them" {
	flmem profile stats --json total/second.heap
	assert_status 0
	assert_schema profile-stats
	examine 'import json, sys
total = json.load(sys.stdin)["total"]
assert total["peak_bytes"] is None
assert total["allocated_bytes"] >= total["live_bytes"] > 60 << 20
assert total["freed_bytes"] == total["allocated_bytes"] - total["live_bytes"]'
	flmem profile table --by allocated total/second.heap
	assert_status 0
}

@test "a measure that a dump lacks is refused, as are rounds and leaks" {
	flmem profile stats --by peak live/first.heap
	assert_error 2 'peak cannot be answered: a dump of jemalloc is a snapshot'
	flmem profile stats --by freed live/first.heap
	assert_error 2 'freed cannot be answered: .*prof_accum:true'
	flmem profile stats --round 1 live/first.heap
	assert_error 2 'no rounds'
	flmem profile leaks live/first.heap
	assert_error 2 'a snapshot without rounds or ages; compare two dumps'
}

@test "two dumps are compared by live bytes" {
	flmem profile diff --json live/first.heap live/second.heap
	assert_status 0
	assert_schema profile-diff
	examine 'import json, sys
r = json.load(sys.stdin)
assert r["measure"] == "live"
grown = r["second_total"]["live_bytes"] - r["first_total"]["live_bytes"]
assert 38 << 20 < grown < 46 << 20, grown'
	flmem profile diff --html "$BATS_TEST_TMPDIR/page.html" live/first.heap live/second.heap
	assert_status 0
	assert_output 'functions by live:'
	[ -s "$BATS_TEST_TMPDIR/page.html" ]
}

@test "a folder of dumps is analyzed, also beside a profile of flmem" {
	mkdir "$BATS_TEST_TMPDIR/both"
	cp live/first.heap live/second.heap "$BATS_TEST_TMPDIR/both"
	"$FLMEM" profile run --limit 1MiB -o "$BATS_TEST_TMPDIR/both/run.prof" -- /usr/bin/python3 \
		-I -c 'kept = bytearray(8 << 20)' </dev/null 3>&-
	flmem profile analyze --json "$BATS_TEST_TMPDIR/both"
	assert_status 0
	assert_schema profile-analyze
	examine 'import json, sys
r = json.load(sys.stdin)
assert r["measure"] == "live" and not r["unread"]
assert [p["profile"]["state"] for p in r["profiles"]] == ["dumped", "ended", "dumped"]'
	flmem profile analyze --by peak "$BATS_TEST_TMPDIR/both"
	assert_error 2 'first.heap.*peak cannot be answered'
}

@test "a dump becomes a page and the files of other tools" {
	flmem profile flamegraph -o "$BATS_TEST_TMPDIR/page.html" live/second.heap
	assert_status 0
	grep -q 'written by jemalloc, one sample per 64' "$BATS_TEST_TMPDIR/page.html"
	local format
	for format in pprof collapsed speedscope json; do
		flmem profile export --format "$format" -o "$BATS_TEST_TMPDIR/$format" \
			live/second.heap
		assert_status 0
		[ -s "$BATS_TEST_TMPDIR/$format" ]
	done
}

@test "a dump that is cut says so, and one whose first line is damaged is refused" {
	local end
	end=$(grep -abo MAPPED_LIBRARIES live/first.heap | cut -d: -f1)
	head -c $((end - 40)) live/first.heap >"$BATS_TEST_TMPDIR/cut.heap"
	flmem profile stats "$BATS_TEST_TMPDIR/cut.heap"
	assert_status 0
	assert_stderr 'is truncated: amounts that it lacks are not counted'
	head -n 2 live/first.heap >"$BATS_TEST_TMPDIR/cut.heap"
	flmem profile table "$BATS_TEST_TMPDIR/cut.heap"
	assert_status 0
	[[ $output == *' -  total' && $output != *'0 B'* ]] || fail "$output"
	echo 'heap_v2/x' >"$BATS_TEST_TMPDIR/bad.heap"
	flmem profile stats "$BATS_TEST_TMPDIR/bad.heap"
	assert_error 2 "cannot read the dump of jemalloc '.*bad.heap': its first line is damaged"
}

@test "recommend refuses a dump with what it lacks" {
	flmem recommend live/first.heap
	assert_error 2 'first.heap.*no rounds, no peak and no Python code.*flmem profile table'
	echo 'heap_v2/x' >"$BATS_TEST_TMPDIR/bad.heap"
	flmem recommend "$BATS_TEST_TMPDIR/bad.heap"
	assert_error 2 "bad.heap': its first line is damaged"
}

@test "the page of a watch has the stacks of a dump, without a process or a time of it" {
	local page=$BATS_TEST_TMPDIR/page.html
	flmem watch --replay "$FLMEM_TESTS/recordings/flat-glibc-1.rec" --report "$page" --quiet \
		--profile live/second.heap
	assert_status 0
	grep -q '</html>' "$page"
	grep -q 'does not record its process' "$page"
	grep -q 'dumped, native frames' "$page"
	grep -q 'No stack is known to grow: the profile is a snapshot' "$page"
	grep -Eq 'PyByteArray_Resize|bytearray' "$page"
	run ! grep -E 'Heap of process|0 samples|at the end, peak' "$page"
}

@test "a dump above the limit is refused, which the message names" {
	cp live/first.heap "$BATS_TEST_TMPDIR/large.heap"
	truncate -s $(((64 << 20) + 1)) "$BATS_TEST_TMPDIR/large.heap"
	flmem profile stats "$BATS_TEST_TMPDIR/large.heap"
	assert_error 2 'large.heap.*it is larger than 64 MiB'
}
