#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# `flmem profile flamegraph` and `diff --html`: pages of real profiles, used in a real Chromium.

load helpers

setup_file() {
	cd "$BATS_FILE_TMPDIR" || return
	# Names that would end the script or become markup if they were not escaped.
	cat >hostile.py <<-'END'
		import ctypes, sys

		HOSTILE = "</script><script>document.title='owned'</script><img src=http://x.example/a>"
		code = "def inner(n):\n    kept = []\n    for _ in range(n):\n        kept.append(bytearray(1 << 20))\n    return kept\n"
		names = {}
		exec(compile(code, "/app/" + HOSTILE.replace("/", "|") + "\u2028\x1b[31m.py", "exec"), names)
		inner = names["inner"]
		inner.__qualname__ = HOSTILE
		inner.__code__ = inner.__code__.replace(co_name=HOSTILE, **(
		    {"co_qualname": HOSTILE} if sys.version_info >= (3, 11) else {}))

		def keep(n):
		    kept = []
		    for _ in range(n):
		        kept.append(bytearray(2 << 20))
		    return kept

		def federate(n):
		    library = ctypes.CDLL(None)
		    kept = []
		    for number in range(4):
		        library.flmem_sampler_round_set(number)
		        kept.append((keep(n), inner(4)))

		federate(int(sys.argv[1]))
	END
	local n
	for n in 3 1; do
		"$FLMEM" profile run --native --interval 64K --limit 4MiB -o "$n.prof" -- \
			/usr/bin/python3 -I hostile.py "$n" 3>&- || return
	done
}

setup() {
	cd "$BATS_FILE_TMPDIR" || return
	PAGE=$BATS_TEST_TMPDIR/page.html
}

# use_page CODE: runs it in Python with the page `page` of PAGE, open in Chromium.
use_page() {
	requires chromium
	PYTHONPATH=$FLMEM_TESTS/cli python -c "
import sys, clicking
BOX = \"Array.from(document.querySelectorAll('.box')).find((b) => b.node.frame.name === '%s')\"
BOXES = \"Array.from(document.querySelectorAll('.box')).map((b) => b.node.frame.name)\"
with clicking.Page(sys.argv[1], sys.argv[2]) as page:
    page.wait(\"document.querySelectorAll('.box').length > 3\")
$1
    assert not page.console, page.console
    assert [r.split('/', 3)[3] for r in page.requests] == ['report'], page.requests" \
		"$(command -v chromium)" "$PAGE"
}

@test "the page has its parts and asks for nothing, whatever names the program has" {
	flmem profile flamegraph -o "$PAGE" 3.prof
	assert_status 0
	[ "$output" = "$PAGE" ]
	use_page "
    assert page.value('document.title') == 'flmem profile'
    assert page.value(\"document.querySelectorAll('img').length\") == 0
    assert page.value(\"document.querySelectorAll('script').length\") == 2
    names = page.value(BOXES)
    assert any(n.startswith('</script><script>') for n in names), names
    assert 'federate' in names and 'keep' in names, names
    assert 'Memory over time' in page.text('figcaption')
    assert page.value(\"document.querySelector('.rounds').getAttribute('d').split('M').length\") == 5
    rows = page.value(\"Array.from(document.querySelectorAll('tbody tr')).map((r) => r.innerText)\")
    # native code counts for its caller
    assert 'keep (' in rows[0] and rows[0].count('MiB') >= 2, rows
    assert page.value(\"document.querySelector('#measure').selectedOptions[0].textContent\") == 'peak'"
}

@test "a page that asked for something would be seen" {
	printf '<!DOCTYPE html><title>x</title><img src="http://elsewhere.example/x.png">' >"$PAGE"
	requires chromium
	PYTHONPATH=$FLMEM_TESTS/cli python -c "
import sys, clicking
with clicking.Page(sys.argv[1], sys.argv[2]) as page:
    assert any(r.endswith('/x.png') for r in page.requests), page.requests" \
		"$(command -v chromium)" "$PAGE"
}

@test "mouse: zoom, details, reset, another measure, the inverted view" {
	flmem profile flamegraph --stack python -o "$PAGE" 3.prof
	assert_status 0
	use_page "
    width = 'Math.round(' + BOX % 'keep' + '.getBoundingClientRect().width)'
    before = page.value(width)
    page.click_element(BOX % 'keep')
    assert page.value(width) > before
    assert page.value(width) == page.value(\"Math.round(document.querySelector('#graph').clientWidth)\")
    detail = page.text('#detail')
    assert 'keep' in detail and 'hostile.py:' in detail and 'MiB' in detail, detail
    page.click('#reset')
    assert page.value(width) == before
    page.value(\"measure.value = '2'; measure.dispatchEvent(new Event('change'))\")
    assert page.value(BOX % 'all' + '.title').startswith('all, ')
    page.click('#inverted')
    names = page.value(BOXES)
    assert page.value(BOX % 'keep' + \".style.top\") == '20px', names
    assert page.value(BOX % 'federate' + \".style.top\") == '40px', names
    page.click('#inverted')
    assert page.value(BOX % 'federate' + \".style.top\") == '40px'"
}

@test "keyboard: search, move, zoom and back" {
	flmem profile flamegraph --stack python -o "$PAGE" 3.prof
	assert_status 0
	use_page "
    page.press('/')
    assert page.value('document.activeElement.id') == 'search'
    page.insert('KEEP')
    page.wait(\"document.querySelectorAll('.match').length > 0\")
    found = page.text('#found')
    assert found.startswith('1 frame, ') and 'MiB' in found and '%' in found, found
    assert page.value(\"document.querySelector('.match').node.frame.name\") == 'keep'
    page.press('Escape')
    assert page.value(\"document.querySelectorAll('.match').length\") == 0
    assert page.value('document.activeElement.id') == 'graph'
    selected = \"document.querySelector('.selected').node.frame.name\"
    assert page.value(selected) == 'all'
    page.press('ArrowDown')
    page.press('ArrowDown')
    assert page.value(selected) == 'federate'
    page.press('ArrowDown')
    first = page.value(selected)
    page.press('ArrowRight')
    second = page.value(selected)
    assert first != second, first
    page.press('ArrowLeft')
    assert page.value(selected) == first
    active = \"document.getElementById(graph.getAttribute('aria-activedescendant'))\"
    assert first in page.value(active + \".getAttribute('aria-label')\")
    page.press('Enter')
    assert page.value(\"document.querySelectorAll('.above').length\") == 3
    page.press('ArrowUp')
    assert page.value(\"document.querySelectorAll('.above').length\") == 2
    assert page.value(selected) == 'federate'
    page.press('Escape')
    assert page.value(\"document.querySelectorAll('.above').length\") == 0"
}

@test "light and dark differ, and both can be read" {
	flmem profile flamegraph -o "$PAGE" 3.prof
	assert_status 0
	use_page "
    colours = []
    for dark in (False, True):
        page.dark(dark)
        colours.append(page.value('''Array.from(document.querySelectorAll('.box')).map((b) =>
            [getComputedStyle(b).color, getComputedStyle(b).backgroundColor])'''))
    def luminance(colour):
        parts = [int(p) / 255 for p in colour[colour.index('(') + 1:-1].split(',')[:3]]
        parts = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
        return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]
    assert colours[0][0] != colours[1][0], colours
    for text, box in colours[0] + colours[1]:
        bright, other = sorted((luminance(text), luminance(box)), reverse=True)
        assert (bright + 0.05) / (other + 0.05) >= 4.5, (text, box)"
}

@test "two profiles in two colours" {
	flmem profile diff --html "$PAGE" 3.prof 1.prof
	assert_status 0
	assert_output 'MiB  keep '
	use_page "
    detail = page.value(BOX % 'keep' + '.title')
    assert ' → ' in detail and '(-' in detail, detail
    red, _, blue = eval('(' + page.value(
        'getComputedStyle(' + BOX % 'keep' + ').backgroundColor')[4:])
    assert blue > red + 20, 'less is blue'
    assert page.value(\"document.querySelectorAll('figure').length\") == 2
    assert 'Largest changes' in page.value('document.body.innerText')"
}

@test "a file that is not a page is kept, and a page is replaced" {
	echo mine >"$PAGE"
	flmem profile flamegraph -o "$PAGE" 3.prof
	assert_error 2 'exists and is not a page of flmem'
	[ "$(cat "$PAGE")" = mine ]
	rm "$PAGE"
	cp 3.prof "$BATS_TEST_TMPDIR/a.prof"
	flmem profile flamegraph "$BATS_TEST_TMPDIR/a.prof"
	assert_status 0
	flmem profile flamegraph --by live "$BATS_TEST_TMPDIR/a.prof"
	assert_status 0
	grep -q '</html>' "$BATS_TEST_TMPDIR/a.prof.html"
}

@test "the script is the one that the page allows" {
	flmem profile flamegraph -o "$PAGE" 3.prof
	assert_status 0
	run_command python -c '
import base64, hashlib, re, sys
page = open(sys.argv[1], encoding="utf-8").read()
script = re.findall(r"<script>(.*?)</script>", page, re.S)
assert len(script) == 1
digest = base64.b64encode(hashlib.sha256(script[0].encode()).digest()).decode()
policy = re.search("Content-Security-Policy\" content=\"([^\"]*)\"", page)[1]
assert policy == "default-src \x27none\x27; style-src \x27unsafe-inline\x27; " \
    f"script-src \x27sha256-{digest}\x27", policy' "$PAGE"
	assert_status 0
}
