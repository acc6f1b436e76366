#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# `flmem watch --report --profile`: the sites of heap profiles on the page of a watch, in a real Chromium.

load helpers

setup() {
	requires python3
	cd "$BATS_TEST_TMPDIR" || return
	PAGE=$BATS_TEST_TMPDIR/page.html
	cat >leaking.py <<-'END'
		import ctypes, sys, time

		HOSTILE = "</code><script>document.title='owned'</script><img src=http://x.example/a>"
		code = "def kept(history):\n    history.append(bytearray(3 << 20))\n"
		names = {}
		exec(compile(code, "/app/" + HOSTILE.replace("/", "|") + "\x1b[31m.py", "exec"), names)
		keep = names["kept"]

		def model():
		    return bytearray(24 << 20)

		def train(rounds):
		    library, history, weights = ctypes.CDLL(None), [], model()
		    for number in range(rounds):
		        library.flmem_sampler_round_set(number)
		        keep(history)
		        time.sleep(0.02)
		    print("trained", flush=True)
		    sys.stdin.read()

		train(int(sys.argv[1]))
	END
}

# start_leaking PROFILE ROUNDS: starts VICTIM, which waits after its rounds.
start_leaking() {
	mkfifo "$1.hold"
	"$FLMEM" profile run --interval 64K --limit 4MiB -o "$1" -- \
		/usr/bin/python3 -I leaking.py "$2" <"$1.hold" >"$1.said" 3>&- &
	VICTIM=$!
	VICTIMS+=("$VICTIM")
	exec 9>"$1.hold"
	wait_until 60 grep -q trained "$1.said"
}

# use_page CODE: runs it in Python with the page `page` of PAGE, open in Chromium.
use_page() {
	requires chromium
	PYTHONPATH=$FLMEM_TESTS/cli python -c "
import re, sys, clicking
HEAP = \"Array.from(document.querySelectorAll('section')).find((s) => s.innerText.startsWith('Heap'))\"
with clicking.Page(sys.argv[1], sys.argv[2]) as page:
$1
    assert not page.console, page.console
    assert [r.split('/', 3)[3] for r in page.requests] == ['report'], page.requests" \
		"$(command -v chromium)" "$PAGE"
}

@test "the page names the line that grows, of the process that is watched, in light and dark" {
	start_leaking leak.prof 8
	flmem watch --pid "$VICTIM" --interval 50ms --duration 300ms --report "$PAGE" --quiet \
		--profile leak.prof
	assert_status 0
	alive "$VICTIM"
	use_page "
    text = page.value(HEAP + '.innerText')
    assert text.startswith('Heap of process $VICTIM'), text
    assert 'is not of a process' not in text, text
    assert re.search('profile\s+leak.prof, running', text), text
    assert re.search(r'sampled\s+[-0-9]+ [:0-9]+ UTC to [-0-9]+ [:0-9]+ UTC \([0-9.]+ s\)', text), text
    assert re.search(r'rounds\s+8 \(0 to 7\)', text), text
    rows = page.value('Array.from(' + HEAP + \".querySelectorAll('tbody tr')).map((r) => r.innerText)\")
    assert '24 MiB' in rows[0] and '+3 MiB per round, confidence 99' in rows[0], rows
    assert 'kept (/app/<|code><script>' in rows[0] and ':2)' in rows[0], rows
    assert 'model (' in rows[1] and '24 MiB' in rows[1] and 'confidence' not in rows[1], rows
    assert '\\\\x1b[31m' in rows[0], rows
    assert page.value('document.title') == 'flmem watch'
    assert page.value(\"document.querySelectorAll('img, script').length\") == 0
    stack = HEAP + \".querySelector('tbody details')\"
    assert not page.value(stack + '.open')
    page.click_element(stack + \".querySelector('summary')\")
    assert page.value(stack + '.open')
    assert 'train (' in page.value(stack + '.innerText')
    colours = []
    for scheme in 'light', 'dark':
        page.call('Emulation.setEmulatedMedia', features=[
            {'name': 'prefers-color-scheme', 'value': scheme}])
        colours.append([page.value('getComputedStyle(' + what + ').' + which) for what, which in (
            ('document.body', 'backgroundColor'), (stack, 'color'))])
    assert all(a != b for a, b in zip(*colours)), colours
    assert colours[0][0] != colours[0][1] and colours[1][0] != colours[1][1], colours"
}

@test "a profile of a process that is not watched is shown as such, also in a replay" {
	start_leaking leak.prof 6
	flmem watch --replay "$FLMEM_TESTS/recordings/flat-glibc-1.rec" --report "$PAGE" --quiet \
		--profile leak.prof
	assert_status 0
	alive "$VICTIM"
	grep -q "Heap of process $VICTIM" "$PAGE"
	grep -q 'This profile does not belong to a process of this watch' "$PAGE"
}

@test "what is not a profile is refused before the watch, and a page is needed" {
	start_victim watched flat 0 100 1024
	echo text >notes
	flmem watch --pid "$VICTIM" --report "$PAGE" --profile notes
	assert_error 2 "'notes' is not a heap profile"
	flmem watch --pid "$VICTIM" --report "$PAGE" --profile none
	assert_error 2 "--profile: cannot read 'none': No such file"
	[ ! -e "$PAGE" ]
	flmem watch --pid "$VICTIM" --profile notes
	assert_error 2 'page of --report'
}

@test "a profile that is gone at the end leaves a page that says so" {
	local watch
	start_leaking leak.prof 6
	env --default-signal=INT "$FLMEM" watch --pid "$VICTIM" --interval 50ms --report "$PAGE" \
		--profile leak.prof >out 2>err 3>&- &
	watch=$!
	VICTIMS+=("$watch")
	wait_until 60 grep -q RSS out
	mv leak.prof elsewhere
	kill -INT "$watch"
	wait "$watch" || fail "status $?"
	grep -q 'flmem watch: --profile: .*leak.prof' err
	grep -q 'It could not be read: .*leak.prof' "$PAGE"
	grep -q '</html>' "$PAGE"
	alive "$VICTIM"
}
