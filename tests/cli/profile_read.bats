#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# The verbs of `flmem profile` that read files, on profiles of real programs.

# shellcheck disable=SC2030,SC2031 # each test is a shell of its own
load helpers

setup_file() {
	cd "$BATS_FILE_TMPDIR" || return
	# The server keeps 3 MiB a round, works with 8 MiB, and stays alive.
	cat >server.py <<-'END'
		import ctypes, sys

		def keep(kept):
		    kept.append(bytearray(3 << 20))

		def work():
		    return len([bytearray(1 << 20) for _ in range(8)])

		def main(step):
		    library, kept = ctypes.CDLL(None), []
		    for number in range(8):
		        library.flmem_sampler_round_set(number)
		        work()
		        step(kept)
		    print("ready", flush=True)
		    sys.stdin.read()

		if __name__ == "__main__":
		    main(keep if sys.argv[1] == "leak" else lambda kept: None)
	END
	local kind
	for kind in leak flat; do
		"$FLMEM" profile run --native --interval 64K --limit 4MiB -o "$kind.prof" -- \
			/usr/bin/python3 -I server.py "$kind" </dev/null >/dev/null 3>&- || return
	done
}

setup() {
	cd "$BATS_FILE_TMPDIR" || return
	PROFILE=$BATS_TEST_TMPDIR/live.prof
}

# Checks that the largest site of the JSON in $output is in the function `$1`.
innermost_is() {
	examine 'import json, sys
stack = json.load(sys.stdin)["sites"][0]["stack"]
python = [f for f in stack if f["kind"] == "python"]
assert python[0]["function"] == sys.argv[1], stack
assert python[0]["file"].endswith("server.py") and python[0]["line"] > 0' "$1"
}

@test "stats has totals, rounds and the largest lines" {
	flmem profile stats leak.prof
	assert_status 0
	assert_output 'leak.prof: ended'
	assert_output 'samples: [0-9]+, one per 64 KiB'
	assert_output 'largest by peak:'
	assert_output 'MiB  keep \([^ ]*server.py:4\)'
	flmem profile stats --json leak.prof
	assert_status 0
	assert_schema profile-stats
	examine 'import json, sys
r = json.load(sys.stdin)
p = r["profile"]
assert [x["number"] for x in p["rounds"]] == [None, *range(8)], p["rounds"]
assert p["state"] == "ended" and p["stacks"] == "python" and not p["skipped_records"]
assert 0 < r["total"]["live_bytes"] <= r["total"]["peak_bytes"] <= r["total"]["allocated_bytes"]
assert 24 << 20 < r["total"]["peak_bytes"] < 60 << 20, r["total"]'
}

@test "summary has functions with what they call" {
	flmem profile summary leak.prof
	assert_status 0
	assert_output '100\.0%|[89][0-9]\.[0-9]%' # estimates of random samples
	assert_output ' main \([^ ]*server.py:14\)' # the line that has most of it, not the first
	flmem profile summary --json --limit 3 leak.prof
	assert_status 0
	assert_schema profile-summary
	examine 'import json, sys
rows = json.load(sys.stdin)["functions"]
assert len(rows) == 3
totals = [r["total"]["peak_bytes"] for r in rows]
assert totals == sorted(totals, reverse=True)
main = next(r for r in rows if r["frame"] and r["frame"]["function"] == "main")
assert main["total"]["peak_bytes"] > 20 << 20 > main["own"]["peak_bytes"]'
}

@test "table has lines and stacks, by any measure and of any kind of frame" {
	flmem profile table --limit 1 leak.prof
	assert_output '  total[[:space:]]and [0-9]+ more; --limit shows them'
	flmem profile table leak.prof
	assert_status 0
	assert_output 'live +peak +allocated +freed'
	flmem profile table --json leak.prof
	assert_schema profile-table
	innermost_is keep
	flmem profile table --json --by allocated leak.prof
	innermost_is 'work.<locals>.<listcomp>' || innermost_is work
	flmem profile table --json --stack native leak.prof
	assert_status 0
	examine 'import json, sys
frames = [f for s in json.load(sys.stdin)["sites"] for f in s["stack"]]
assert frames and all(f["kind"] == "native" for f in frames)
assert any(f["function"] for f in frames), frames[:5]'
}

@test "rounds divide what was allocated, and what cannot be answered is null with its reason" {
	flmem profile table --json --round 2..4 --limit 500 leak.prof
	assert_status 0
	assert_schema profile-table
	examine 'import json, sys
r = json.load(sys.stdin)
assert r["profile"]["selected_rounds"] == {"first": 2, "last": 4}
assert r["total"]["peak_bytes"] is None and "round" in r["total"]["unknown"]["peak_bytes"]
keep = [l for l in r["lines"] if l["frame"] and l["frame"]["function"] == "keep"]
assert 9 << 20 <= keep[0]["own"]["allocated_bytes"] < 10 << 20, keep
assert keep[0]["own"]["freed_bytes"] == 0'
	flmem profile table --round 3 leak.prof
	assert_output ' - +[0-9.]+ MiB +[0-9.]+ (B|KiB|MiB) +[0-9.]+ (B|KiB|MiB)  work'
	[ -z "$stderr" ] || fail "$stderr"
	flmem profile table --round 3 --by peak leak.prof
	assert_error 2 '--by peak cannot be answered: .*peak of a round'
	flmem profile table --round 6..80 leak.prof
	assert_status 0
	[ "$stderr" = 'flmem: the file has the rounds 0 to 7 only' ] || fail "$stderr"
	flmem profile table --round 77..80 leak.prof
	assert_error 2 "'leak.prof' has the rounds 0 to 7 only"
	flmem profile run --interval 64K -o "$PROFILE" -- /usr/bin/python3 -I -c 'import ctypes
for number in 1, 3:
    ctypes.CDLL(None).flmem_sampler_round_set(number)
    x = bytearray(1 << 20)'
	flmem profile table --round 2 "$PROFILE"
	assert_error 2 "no samples of the rounds that --round names; it has others from 1 to 3"
	flmem profile stats --round 2..4 leak.prof
	assert_output ' 2 +[0-9.]+ MiB'
	refute_output '^ +(before|1|5) +[0-9.]+ MiB'
	flmem profile stats --round 4..2 leak.prof
	assert_error 2 'ends before it begins'
	flmem profile stats --round 2-4 leak.prof
	assert_error 2 "invalid rounds '2-4'; expected for example 3 or 3..7"
}

@test "tree has the largest stacks, callers first" {
	flmem profile tree --limit 1 leak.prof
	assert_status 0
	assert_output 'main .*
.* keep '
	flmem profile tree --stack mixed --json leak.prof
	assert_status 0
	assert_schema profile-tree
	examine 'import json, sys
r = json.load(sys.stdin)
depth = 0
for b in r["branches"]:
    assert 1 <= b["depth"] <= depth + 1
    depth = b["depth"]
    assert b["own"]["peak_bytes"] <= b["total"]["peak_bytes"] <= r["total"]["peak_bytes"]
assert {b["frame"]["kind"] for b in r["branches"]} == {"python", "native"}'
}

@test "frames of imports are left out between the line and the module, but for exports" {
	mkdir -p "$BATS_TEST_TMPDIR/one"
	echo 'kept = [bytearray(1 << 20) for _ in range(16)]' >"$BATS_TEST_TMPDIR/one/imported.py"
	echo 'import imported' >"$BATS_TEST_TMPDIR/one/importing.py"
	"$FLMEM" profile run -o "$PROFILE" -- /usr/bin/python3 -B "$BATS_TEST_TMPDIR/one/importing.py" 3>&-
	flmem profile tree -n 1 "$PROFILE"
	assert_status 0
	assert_output 'importing.py:1\)
[^
]*imported.py:1\)'
	flmem profile tree -n 1 --import-frames "$PROFILE"
	assert_output 'importing.py:1\)
[^
]*importlib._bootstrap'
	flmem profile export -f collapsed "$PROFILE"
	assert_output 'importing.py[^
]*importlib._bootstrap[^
]*imported.py'
}

@test "stacks without native frames are noted where only native frames are asked for" {
	echo 'kept = [bytearray(1 << 20) for _ in range(16)]' >"$BATS_TEST_TMPDIR/keeps.py"
	local native
	for native in "" --native; do
		# shellcheck disable=SC2086 # no word, or one
		"$FLMEM" profile run --force $native -o "$PROFILE" -- \
			/usr/bin/python3 "$BATS_TEST_TMPDIR/keeps.py" 3>&-
		flmem profile table --stack native "$PROFILE"
		assert_status 0
		if [ -z "$native" ]; then
			assert_stderr 'Python frames only are shown as one; --native of profile run'
		else
			[ -z "$stderr" ] || fail "stderr: $stderr"
		fi
	done
	flmem profile table "$PROFILE"
	[ -z "$stderr" ] || fail "stderr: $stderr"
}

@test "leaks names what grows with the rounds, and nothing in a program that does not grow" {
	flmem profile leaks --json leak.prof
	assert_status 0
	assert_schema profile-leaks
	examine 'import json, sys
r = json.load(sys.stdin)
assert r["basis"] == "rounds" and r["found"] == 1, r
leak = r["leaks"][0]
assert leak["stack"][0]["function"] == "keep" and leak["confidence"] > 0.95
assert 3 << 20 <= leak["growth"]["bytes"] < 1.1 * (3 << 20), leak["growth"]'
	flmem profile leaks leak.prof
	assert_output 'grows by 3(.0[0-9])? MiB per round'
	flmem profile leaks flat.prof
	assert_status 0
	assert_output '^0 stacks whose live bytes grow'
}

@test "leaks in a profile of too short a time are undecided" {
	flmem profile run -o "$PROFILE" -- /usr/bin/python3 -I -c 'x = [bytearray(1 << 20) for _ in range(9)]'
	flmem profile leaks "$PROFILE"
	assert_status 9
	assert_output '^not enough to conclude: less than 10 s and no rounds'
	flmem profile leaks --json "$PROFILE"
	assert_status 9
	assert_schema profile-leaks
	flmem profile analyze "$BATS_TEST_TMPDIR"
	assert_output '  growth: not enough to conclude: less than 10 s'
	flmem profile analyze --json "$BATS_TEST_TMPDIR"
	assert_schema profile-analyze
	examine 'import json, sys
assert json.load(sys.stdin)["profiles"][0]["too_few"].startswith("less than 10 s")'
	flmem recommend "$PROFILE"
	assert_status 0
	[[ $output$stderr == *"growth was not checked: less than 10 s"* ]] || fail "nobody reports it"
}

@test "leaks says which growth it does not find without rounds" {
	flmem profile run --limit 1MiB -o "$PROFILE" -- /usr/bin/python3 -I -c 'import os, time
kept = []
for _ in range(5):
    kept.append(bytearray(8 << 20))
    time.sleep(2.6)
os._exit(0)'
	flmem profile leaks "$PROFILE"
	assert_status 0
	assert_output '^0 stacks with live allocations'
	assert_output 'less often than every [0-9.]+ ms is not found: sample longer, or announce rounds'
}

@test "a running program is read without harm, with the ages of its survivors" {
	start_reader "$FLMEM" profile run --limit 4MiB --interval 64K -o "$PROFILE" -- \
		/usr/bin/python3 -I server.py leak
	flmem profile leaks --json "$PROFILE"
	assert_status 0
	assert_schema profile-leaks
	[[ $stderr == *'the program is running'* ]] || [ -z "$stderr" ]
	examine 'import json, sys
r = json.load(sys.stdin)
assert r["profile"]["state"] == "running"
leak = r["leaks"][0]
assert leak["stack"][0]["function"] == "keep" and leak["survived_in"] >= 7, leak
assert leak["live_bytes"] >= 24 << 20 and leak["oldest_us"] > 0'
	flmem profile stats "$PROFILE"
	assert_output 'process: [0-9]+, latest sample after [0-9]'
	flmem profile table --json --by live "$PROFILE"
	innermost_is keep
	kill -KILL "$VICTIM"
	wait "$VICTIM" || true
	flmem profile leaks "$PROFILE"
	assert_status 0
	assert_output 'keep \('
	assert_stderr 'the program was killed, ended by _exit'
}

@test "a running program without a sample is not one of 0 s" {
	start_reader "$FLMEM" profile run --interval 1TiB -o "$PROFILE" -- \
		/usr/bin/python3 -I -c 'import time; print("ready", flush=True); time.sleep(1000)'
	flmem profile stats "$PROFILE"
	assert_status 0
	assert_output 'samples: 0,'
	assert_output 'process: [0-9]+, no sample yet'
}

@test "diff has what changed and leaves the error of the samples out" {
	flmem profile diff leak.prof flat.prof
	assert_status 0
	assert_output '-2[0-9](.[0-9]+)? MiB +2[0-9](.[0-9]+)? MiB +0 B  keep '
	refute_output 'MiB  work '
	flmem profile diff --json leak.prof flat.prof
	assert_status 0
	assert_schema profile-diff
	examine 'import json, sys
r = json.load(sys.stdin)
f = r["functions"][0]
assert f["frame"]["function"] == "keep" and f["second"]["peak_bytes"] == 0
assert r["first_total"]["peak_bytes"] - r["second_total"]["peak_bytes"] > 20 << 20'
	flmem profile diff leak.prof leak.prof
	assert_output 'no function differs'
	flmem profile diff leak.prof
	assert_error 2 'name two profiles'
}

@test "the page of diff has the file of each program, also below native frames" {
	mkdir -p "$BATS_TEST_TMPDIR/other"
	cp server.py "$BATS_TEST_TMPDIR/other"
	"$FLMEM" profile run --native --interval 64K --limit 4MiB -o "$BATS_TEST_TMPDIR/other.prof" -- \
		/usr/bin/python3 -I "$BATS_TEST_TMPDIR/other/server.py" leak </dev/null >/dev/null 3>&-
	local stack
	for stack in python mixed; do
		flmem profile diff --by allocated --stack $stack --html "$BATS_TEST_TMPDIR/page" leak.prof \
			"$BATS_TEST_TMPDIR/other.prof"
		assert_status 0
		# Both profiles have the name: the page treats them as the same program.
		[ "$(grep -c '^"program":".*server\.py"' "$BATS_TEST_TMPDIR/page")" = 2 ]
	done
}

@test "analyze compares the profiles of a folder and names what stands out" {
	mkdir -p runs/folder
	cp leak.prof runs/a_original.prof
	cp flat.prof runs/optimized.prof
	head -c 100 leak.prof >runs/cut.prof
	echo text >runs/notes.txt
	cp leak.prof runs/folder/other.prof
	flmem profile analyze runs
	assert_status 0
	assert_output 'MiB  a_original.prof \(ended\), the baseline'
	assert_output 'MiB  optimized.prof \(ended\)'
	assert_output 'grows with the rounds \([0-9.]+ MiB, confidence 9[0-9.]* %\): keep'
	assert_output ' -[0-9.]+ MiB .*  keep '
	refute_output 'other.prof|notes.txt'
	[[ $stderr == *"left out:"*"cut.prof"* ]]
	flmem profile analyze --json --baseline optimized.prof runs
	assert_status 0
	assert_schema profile-analyze
	examine 'import json, sys
d = json.load(sys.stdin)
paths = [p["profile"]["path"].split("/")[-1] for p in d["profiles"]]
assert paths == ["a_original.prof", "optimized.prof"] and d["baseline"] == 1, paths
assert [f["kind"] for f in d["profiles"][0]["findings"]][0] == "grows"
assert d["profiles"][0]["changes"] and not d["profiles"][1]["changes"]
assert [u["name"] for u in d["unread"]] == ["cut.prof"], d["unread"]'
}

@test "analyze refuses what is not a folder, and one without profiles" {
	flmem profile analyze leak.prof
	assert_error 2 'cannot read the folder .*Not a directory'
	mkdir -p empty
	flmem profile analyze empty
	assert_error 2 'no heap profile'
	flmem profile analyze --baseline none.prof .
	assert_error 2 '--baseline: no profile of the folder'
}

@test "native functions of C programs have names" {
	requires victim:sampled/sampled
	"$FLMEM" profile run --native --interval 1K --limit 4MiB -o "$PROFILE" -- \
		"$FLMEM_VICTIMS/sampled/sampled" functions 2000 >/dev/null 3>&-
	flmem profile table --json "$PROFILE"
	assert_status 0
	assert_schema profile-table
	examine 'import json, sys
r = json.load(sys.stdin)
assert r["profile"]["stacks"] == "native" and r["profile"]["no_python"]
named = [s for s in r["sites"] if any(f["function"] == "main" for f in s["stack"])]
assert named, r["sites"][:3]'
}

# stripped_profile: profiles a program whose symbols are in $BATS_TEST_TMPDIR/symbols.
stripped_profile() {
	command -v objcopy >/dev/null || skip "needs objcopy"
	requires victim:sampled/sampled
	local program=$BATS_TEST_TMPDIR/stripped
	objcopy --only-keep-debug "$FLMEM_VICTIMS/sampled/sampled" "$BATS_TEST_TMPDIR/symbols"
	objcopy --strip-all "$FLMEM_VICTIMS/sampled/sampled" "$program"
	objcopy --add-gnu-debuglink="$BATS_TEST_TMPDIR/symbols" "$program"
	"$FLMEM" profile run --interval 1 --limit 4MiB -o "$PROFILE" -- "$program" stack 20 \
		>/dev/null 3>&-
}

names_middle() {
	flmem profile table --json --stack native "$PROFILE"
	assert_status 0
	examine 'import json, sys
names = {f["function"] for s in json.load(sys.stdin)["sites"] for f in s["stack"]}
print(names)
sys.exit("middle" not in names)'
}

@test "symbols that are kept apart: beside the program, and by no other build-id" {
	stripped_profile
	names_middle
	mkdir "$BATS_TEST_TMPDIR/.debug"
	mv "$BATS_TEST_TMPDIR/symbols" "$BATS_TEST_TMPDIR/.debug/symbols"
	names_middle
	objcopy --only-keep-debug "$(command -v bash)" "$BATS_TEST_TMPDIR/symbols"
	cp "$BATS_TEST_TMPDIR/symbols" "$BATS_TEST_TMPDIR/.debug/symbols"
	! names_middle || fail "took symbols of another program"
}

@test "symbols from debuginfod where DEBUGINFOD_URLS is set" {
	/usr/bin/python3 -c 'import ctypes; ctypes.CDLL("libdebuginfod.so.1")' 2>/dev/null ||
		skip "needs libdebuginfod"
	stripped_profile
	local id
	id=$(readelf -n "$BATS_TEST_TMPDIR/stripped" | sed -n 's/.*Build ID: //p')
	mkdir -p "$BATS_TEST_TMPDIR/server/buildid/$id"
	mv "$BATS_TEST_TMPDIR/symbols" "$BATS_TEST_TMPDIR/server/buildid/$id/debuginfo"
	! names_middle || fail "there are symbols without a server"
	export DEBUGINFOD_URLS=file://$BATS_TEST_TMPDIR/server/
	export DEBUGINFOD_CACHE_PATH=$BATS_TEST_TMPDIR/cache
	names_middle
}

@test "pprof is what Go reads, with the sums of the table" {
	flmem profile table --json --stack mixed leak.prof
	printf '%s' "$output" >"$BATS_TEST_TMPDIR/table"
	flmem profile export --format pprof -o "$BATS_TEST_TMPDIR/p.pb.gz" leak.prof
	assert_status 0
	run_command python "$FLMEM_TESTS/harness/pprof.py" "$BATS_TEST_TMPDIR/p.pb.gz"
	assert_status 0
	examine 'import json, sys
p, total = json.load(sys.stdin), json.load(open(sys.argv[1]))["total"]
assert p["sample_types"] == [["alloc_objects", "count"], ["alloc_space", "bytes"],
    ["inuse_objects", "count"], ["inuse_space", "bytes"], ["peak_space", "bytes"],
    ["free_space", "bytes"]], p["sample_types"]
assert p["default"] == "peak_space" and p["period"] == 64 << 10
sums = [sum(s["values"][i] for s in p["samples"]) for i in range(6)]
assert sums == [total["allocated_count"], total["allocated_bytes"], total["live_count"],
    total["live_bytes"], total["peak_bytes"], total["freed_bytes"]], sums
keep = max(p["samples"], key=lambda s: s["values"][4])
assert any(f["name"] == "keep" and f["line"] == 4 for f in keep["stack"]), keep
assert keep["stack"][-1]["name"] == "<module>" or keep["stack"][-1]["module"]' "$BATS_TEST_TMPDIR/table"
	flmem profile export --format pprof -o "$BATS_TEST_TMPDIR/p.pb.gz" leak.prof
	assert_error 2 "'.*p.pb.gz' exists; name another file with --output, or remove it"
	flmem profile export --format pprof -o "$BATS_TEST_TMPDIR/no/p.pb.gz" leak.prof
	assert_error 2 'No such file'
}

@test "collapsed stacks, speedscope and JSON have the same sums" {
	flmem profile table --json --stack mixed leak.prof
	local peak
	peak=$(examine 'import json, sys; print(json.load(sys.stdin)["total"]["peak_bytes"])')
	flmem profile export --format collapsed leak.prof
	assert_status 0
	assert_output '(^|;)main \([^;]*server.py'
	[ "$(awk '{ sum += $NF } END { printf "%.0f\n", sum }' <<<"$output")" = "$peak" ]
	flmem profile export --format speedscope leak.prof
	assert_status 0
	examine 'import json, sys
s = json.load(sys.stdin)
peak = s["profiles"][s["activeProfileIndex"]]
assert peak["name"] == "peak" and sum(peak["weights"]) == peak["endValue"] == int(sys.argv[1])
assert len(peak["samples"]) == len(peak["weights"])
assert all(f < len(s["shared"]["frames"]) for stack in peak["samples"] for f in stack)' "$peak"
	flmem profile export --format json leak.prof
	assert_status 0
	assert_schema profile-table
	flmem profile export leak.prof
	assert_error 2 'give --format'
}

@test "an export that cannot be written is reported once, and leaves no part of a file" {
	run bash -c '"$FLMEM" profile export --format json leak.prof 2>&1 >/dev/full'
	[ "$status" = 7 ]
	[ "${#lines[@]}" = 1 ]
	[[ $output == *'to standard output: No space left'* ]]
	run bash -c 'ulimit -f 1; trap "" XFSZ; "$FLMEM" profile export --format json -o "$1" leak.prof' \
		- "$BATS_TEST_TMPDIR/part.json"
	[ "$status" = 7 ]
	[[ $output == *"part.json': File too large" ]]
	[ ! -e "$BATS_TEST_TMPDIR/part.json" ]
}

@test "other files are refused with their reason" {
	local verb
	head -c 10000 /dev/zero >"$BATS_TEST_TMPDIR/zeros"
	for verb in stats summary table tree leaks flamegraph; do
		flmem profile "$verb" "$BATS_TEST_TMPDIR/zeros"
		assert_error 2 'not a heap profile'
		flmem profile "$verb" "$BATS_TEST_TMPDIR/absent"
		assert_error 2 "cannot open the profile '.*absent'"
		flmem profile "$verb"
		assert_error 2 'name one profile'
	done
	mkfifo "$BATS_TEST_TMPDIR/fifo"
	flmem profile stats --json "$BATS_TEST_TMPDIR/fifo"
	assert_status 2
	assert_schema profile-stats
}

@test "a file that was cut is read as far as it goes" {
	head -c 1000000 leak.prof >"$BATS_TEST_TMPDIR/cut.prof"
	flmem profile stats "$BATS_TEST_TMPDIR/cut.prof"
	assert_status 0
	assert_stderr 'is truncated'
}

@test "recommend has findings from a profile, with their lines" {
	flmem recommend leak.prof
	assert_status 0
	assert_output 'warning: PROFILE-GROWS'
	assert_output 'live: 2[0-9.]+ MiB'
	refute_output '[0-9]{7}'
	examine 'import re, sys
said = " ".join(sys.stdin.read().split())
grows = said.split("PROFILE-GROWS")[1].split("PROFILE-")[0]
assert re.search(r"keep \([^ ]*server.py:4\): 2[0-9.]+ MiB, confidence 9[0-9.]+ %", grows), grows'
	flmem recommend --fail-on warning leak.prof
	assert_status 1
	flmem recommend --fail-on warning flat.prof
	assert_status 0
	refute_output 'PROFILE-GROWS'
	flmem recommend --json leak.prof flat.prof
	assert_status 0
	assert_schema recommend
	examine 'import json, sys
rules = {f["rule"] for f in json.load(sys.stdin)["findings"] if f["file"] == "leak.prof"}
assert "PROFILE-GROWS" in rules, rules'
	# For programs the number is complete.
	examine 'import json, sys
grows = [f for f in json.load(sys.stdin)["findings"] if f["rule"] == "PROFILE-GROWS"]
assert all(int(f["current"]) > 20 << 20 for f in grows), grows'
}

# own_line_of VERB ROWS: where a library allocates, the program's line must be below it.
own_line_of() {
	flmem profile "$1" "$PROFILE"
	assert_status 0
	examine 'import re, sys
lines = sys.stdin.read().splitlines()
at = next(i for i, line in enumerate(lines) if re.search(r"  ones \([^ ]*:1\)$", line))
assert re.fullmatch(r" +own line: remember \([^ ]*train.py:6\)", lines[at + 1]), lines
own = [at for at, line in enumerate(lines) if "own line:" in line]
assert all("train.py" not in lines[at - 1] for at in own), lines'
	flmem profile "$1" --json "$PROFILE"
	assert_schema "profile-$1"
	examine 'import json, sys
rows = json.load(sys.stdin)[sys.argv[1]]
row = next(r for r in rows if r["frame"]["function"] == "ones")
assert row["own_frame"]["line"] == 6 and "own_frame" not in row["unknown"], row
assert all(r["own_frame"] or r["unknown"]["own_frame"] for r in rows), rows' "$2"
}

@test "where a library allocates, the own line is the first one of the program itself" {
	mkdir -p "$BATS_TEST_TMPDIR/lib/python3/site-packages/array" "$BATS_TEST_TMPDIR/app"
	cd "$BATS_TEST_TMPDIR" || return
	echo 'def ones(size): return bytearray(size)' >lib/python3/site-packages/array/__init__.py
	cat >app/train.py <<-'END'
		import ctypes, sys
		sys.path.insert(0, "lib/python3/site-packages")
		import array_ as array

		def remember(kept):
		    kept.append(array.ones(3 << 20))

		library, kept = ctypes.CDLL(None), []
		for number in range(8):
		    library.flmem_sampler_round_set(number)
		    remember(kept)
		spare = array.ones(int(sys.argv[1]) << 20)
	END
	mv lib/python3/site-packages/array lib/python3/site-packages/array_
	"$FLMEM" profile run --interval 64K --limit 4MiB -o "$PROFILE" -- /usr/bin/python3 -I \
		app/train.py 0 </dev/null 3>&-
	# It holds the peak only because it grows.
	flmem recommend "$PROFILE"
	assert_output 'PROFILE-GROWS'
	refute_output 'PROFILE-HOLDS'
	"$FLMEM" profile run --force --interval 64K --limit 4MiB -o "$PROFILE" -- /usr/bin/python3 -I \
		app/train.py 20 </dev/null 3>&-
	flmem profile leaks "$PROFILE"
	assert_status 0
	assert_output '  own line: remember \([^ ]*app/train.py:6\)'
	assert_output '    ones \([^ ]*array_/__init__.py:1\)'
	flmem profile leaks --json "$PROFILE"
	assert_schema profile-leaks
	examine 'import json, sys
leak = json.load(sys.stdin)["leaks"][0]
assert leak["stack"][0]["function"] == "ones", leak
assert leak["own_frame"]["line"] == 6 and "own_frame" not in leak["unknown"], leak'
	flmem recommend "$PROFILE"
	examine 'import re, sys
said = " ".join(sys.stdin.read().split())
for rule in "PROFILE-GROWS", "PROFILE-HOLDS":
    part = said.split(rule)[1].split("PROFILE-")[0]
    assert re.search(r"ones \([^ ]*:1\): .*; own line: remember \([^ ]*train.py:6\)\)", part), part'
	own_line_of stats largest
	own_line_of table lines
	mkdir all && cp "$PROFILE" all/
	flmem profile analyze all
	assert_output '    own line: remember '
	flmem profile analyze --json all
	assert_schema profile-analyze
	flmem watch --replay "$FLMEM_TESTS/recordings/flat-glibc-1.rec" --report page.html --quiet \
		--profile "$PROFILE"
	assert_status 0
	grep -q 'own line: .*remember' page.html
}
