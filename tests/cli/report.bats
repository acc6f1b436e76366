#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# `flmem watch --report`, rendered with a real Chromium.

# shellcheck disable=SC2030,SC2031,SC2153 # each test is a shell of its own; helpers.bash sets VICTIM
load helpers

setup() {
	cd "$BATS_TEST_TMPDIR" || return
	PAGE=$BATS_TEST_TMPDIR/page.html
	RECORDINGS=$FLMEM_TESTS/recordings
}

# Shows PAGE in Chromium; `dom`, `console` and `asked` are files in the test's directory.
browse() {
	requires chromium
	python "$FLMEM_TESTS/cli/browse.py" "$(command -v chromium)" "$1" >"$BATS_TEST_TMPDIR/seen" ||
		fail "Chromium did not show it"
	python -c '
import json, os, sys
with open(sys.argv[1]) as file:
    seen = json.load(file)
for name, value in seen.items():
    with open(os.path.join(os.path.dirname(sys.argv[1]), name), "w") as file:
        file.write(value if isinstance(value, str) else "".join(line + "\n" for line in value))
' "$BATS_TEST_TMPDIR/seen"
	dom=$(cat "$BATS_TEST_TMPDIR/dom")
	console=$(cat "$BATS_TEST_TMPDIR/console")
	asked=$(cat "$BATS_TEST_TMPDIR/asked")
}

# summary_of EXPRESSION: prints a value of the summary `s` in $output.
summary_of() {
	python -c 'import json, sys
s = json.loads(sys.argv[1])
print(eval("(" + sys.argv[2] + ")"))' "$output" "$1"
}

in_dom() {
	[[ $dom == *"$1"* ]] || fail "not in the page: $1"
}

@test "the page of a recording has its figures, and asks for nothing" {
	flmem watch --replay "$RECORDINGS/leak20-glibc-1.rec" --report "$PAGE" --quiet
	assert_status 0
	browse "$PAGE"
	[ -z "$console" ] || fail "$console"
	[ "$asked" = "GET /report HTTP/1.1" ] || fail "$asked"
	in_dom 'Resident memory over time'
	in_dom 'class="trend"'
	in_dom 'class="band"'
	in_dom 'Resident memory by round'
	in_dom 'climbing'
	in_dom '<th scope="row">20</th>'
	in_dom 'TREND-CLIMBING'
	in_dom 'which a recording does not contain'
}

# seconds_of ZONE: prints the samples' times in seconds since 1970, from the lines that are printed
# in that zone.
seconds_of() {
	TZ=$1 "$FLMEM" watch --replay "$RECORDINGS/leak20-glibc-1.rec" | python -c '
import datetime, sys
for line in sys.stdin:
    if ": RSS" in line and "process" in line:
        print(int(datetime.datetime.strptime(line[:24], "%Y-%m-%d %H:%M:%S%z").timestamp()))'
}

@test "times of lines are clear where clocks are put back" {
	local seconds zone
	seconds=$(seconds_of UTC0)
	# The zone's summer time ends in the middle of the recording.
	zone=$(python -c '
import sys, time
seconds = [int(word) for word in sys.argv[1].split()]
end = time.gmtime((seconds[0] + seconds[-1]) // 2 + 3600)
day = end.tm_yday - (end.tm_yday > 59 and end.tm_year % 4 == 0)
print(time.strftime(f"AAA0BBB-1,J{1 if day > 100 else 200}/0,J{day}/%H:%M:%S", end))' "$seconds")
	[ "$(seconds_of "$zone")" = "$seconds" ] || fail "$zone: $(seconds_of "$zone" | head -3)"
	TZ=$zone flmem watch --replay "$RECORDINGS/leak20-glibc-1.rec"
	assert_output '\+0100  process'
	assert_output '\+0000  process'
}

@test "a page that asked for something would be seen" {
	printf '<!DOCTYPE html><title>x</title><img src="http://elsewhere.example/x.png">' >"$PAGE"
	browse "$PAGE"
	[[ $asked == *"GET /x.png"* ]]
}

@test "several live processes, one with a hostile name" {
	local first
	start_victim watched leak 0 100 512
	first=$VICTIM
	# shellcheck disable=SC2016
	start_victim /bin/bash -c 'exec -a "$1" "$2" flat 0 100 1024' _ \
		$'</code><script>document.title="owned"</script><img src=http://x.example/a>\e[31m' \
		"$FLMEM_VICTIMS/watched"
	flmem watch --pid "$first,$VICTIM" --interval 50ms --duration 3s --report "$PAGE" --json
	assert_status 0
	browse "$PAGE"
	[ -z "$console" ] || fail "$console"
	[ "$asked" = "GET /report HTTP/1.1" ] || fail "$asked"
	in_dom "Process $first"
	in_dom "Process $VICTIM"
	in_dom '<title>flmem watch</title>'
	in_dom '&lt;script&gt;'
	in_dom '\x1b[31m'
	[[ $dom != *'<img'* ]]
	in_dom 'Kinds of memory'
	alive "$first"
	alive "$VICTIM"
}

@test "what recommend finds is on the page and in the summary, however its settings are called" {
	start_victim /usr/bin/env 'LD_PRELOAD=/none/libjemalloc.so.2</code><img src=http://x.example/a>' \
		"$FLMEM_VICTIMS/watched" leak 0 100 1024
	flmem watch --pid "$VICTIM" --interval 50ms --duration 3s --report "$PAGE" --json --quiet
	assert_status 0
	assert_schema watch
	[ "$(summary_of '{"TREND-CLIMBING", "LIVE-JEMALLOC-NOT-LOADED"} <=
		{f["rule"] for f in s["findings"] if f["file"] == "process %d" % s["pid"]}')" = True ] ||
		fail "other findings"
	[ "$(summary_of 's["rules"]')" = "['trend', 'live']" ]
	alive "$VICTIM"
	browse "$PAGE"
	[ -z "$console" ] || fail "$console"
	[ "$asked" = "GET /report HTTP/1.1" ] || fail "$asked"
	in_dom 'LIVE-JEMALLOC-NOT-LOADED'
	in_dom '&lt;img src=http://x.example/a&gt;'
	[[ $dom != *'<img'* ]]
}

@test "what has ended is not taken for faultless" {
	start_victim watched leak 60 100 1024
	flmem watch --pid "$VICTIM" --interval 50ms --report "$PAGE" --quiet
	assert_status 0
	grep -q 'except for 1 exited process' "$PAGE"
}

@test "Ctrl-C ends it with the page" {
	local watch
	start_victim watched flat 0 100 1024
	env --default-signal=INT "$FLMEM" watch --pid "$VICTIM" --interval 50ms --report "$PAGE" \
		>"$BATS_TEST_TMPDIR/out" 3>&- &
	watch=$!
	VICTIMS+=("$watch")
	wait_until 60 grep -q RSS "$BATS_TEST_TMPDIR/out"
	[ ! -e "$PAGE" ]
	kill -INT "$watch"
	wait "$watch" || fail "status $?"
	grep -q '</html>' "$PAGE"
	[ "$(find "$BATS_TEST_TMPDIR" -name 'page.html*' | wc -l)" -eq 1 ]
}

@test "a file that is not a page is kept, and a page is replaced" {
	local rec=$BATS_TEST_TMPDIR/r.rec
	start_victim watched flat 0 100 1024
	mkfifo "$BATS_TEST_TMPDIR/fifo"
	echo mine >"$BATS_TEST_TMPDIR/notes.html"
	cp "$RECORDINGS/leak20-glibc-1.rec" "$rec"
	flmem watch --replay "$rec" --report "$rec"
	assert_error 2 'r.rec. exists and is not a page'
	cmp "$rec" "$RECORDINGS/leak20-glibc-1.rec"
	for place in "$BATS_TEST_TMPDIR" "$BATS_TEST_TMPDIR/fifo" "$BATS_TEST_TMPDIR/notes.html"; do
		flmem watch --pid "$VICTIM" --report "$place"
		assert_error 2 'exists and is not a page of flmem'
	done
	[ "$(cat "$BATS_TEST_TMPDIR/notes.html")" = mine ]
	: >"$PAGE"
	flmem watch --replay "$rec" --report "$PAGE" --quiet
	assert_status 0
	flmem watch --pid "$VICTIM" --interval 50ms --duration 200ms --report "$PAGE" --quiet
	assert_status 0
	grep -q "Process $VICTIM" "$PAGE"
	# There is no page even at the end, when the file exists at last.
	flmem watch --pid "$VICTIM" --interval 50ms --duration 200ms --quiet --record new --report new
	assert_status 2
	flmem watch --replay new --quiet
	assert_status 0
}

@test "a page that has no place is refused before the watch" {
	start_victim watched flat 0 100 1024
	flmem watch --pid "$VICTIM" --report "$BATS_TEST_TMPDIR/none/page.html"
	assert_error 2 'none/page.html'
}
