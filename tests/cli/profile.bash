# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Profiles as their file has them, in $PROFILE. For tests of several bats files.
#
#	look CODE [PROFILE] [ARGS]	Python with the profile `p`; ARGS are sys.argv[2:]
#	sample OPTIONS -- MODE [NUMBER]	runs the victim $SAMPLED to its end; its output is in $SAID
#	assert_sampled exact|SIGMAS
#	sample_greenlets OPTIONS	ten greenlets that allocate 100,000 bytes four times each, by turns

look() {
	PYTHONPATH=$FLMEM_TESTS/harness python -c "
import re
import sys
from heap_profile import *
p = Profile(sys.argv[1])
$1" "${2:-$PROFILE}" "${@:3}"
}

sample() {
	local options=()
	while [ "$1" != -- ]; do
		options+=("$1")
		shift
	done
	shift
	SAID=$BATS_TEST_TMPDIR/said
	"$FLMEM" profile run --force -o "$PROFILE" "${options[@]}" -- "$SAMPLED" "$@" >"$SAID" 3>&-
}

assert_sampled() {
	python "$FLMEM_TESTS/harness/check_sampled.py" "$PROFILE" "$SAID" "$1"
}

sample_greenlets() {
	/usr/bin/python3 -c 'import greenlet' 2>/dev/null || skip "needs python3-greenlet"
	"$FLMEM" profile run --force -o "$PROFILE" --interval 1 "$@" -- /usr/bin/python3 -c '
import greenlet
kept = []
def inside(n):
    for _ in range(n):
        kept.append(bytearray(100000))
        greenlet.getcurrent().parent.switch()
def outside():
    ones = [greenlet.greenlet(inside) for _ in range(10)]
    for _ in range(5):
        for one in ones:
            one.switch(4)
outside()' 3>&-
}
