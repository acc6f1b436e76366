#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Sampled mappings that change: what is live of them.

load helpers
load profile

setup() {
	requires victim:sampled/moved python3
	PROFILE=$BATS_TEST_TMPDIR/p.prof
}

# assert_moved exact|SIGMAS OPTIONS -- [GROWING]
assert_moved() {
	local how=$1 options=()
	for (( ; ; )); do
		shift
		[ "$1" != -- ] || break
		options+=("$1")
	done
	"$FLMEM" profile run --force -o "$PROFILE" "${options[@]}" -- "$FLMEM_VICTIMS/sampled/moved" "${@:2}" \
		>"$BATS_TEST_TMPDIR/said" 3>&-
	python "$FLMEM_TESTS/harness/check_sampled.py" "$PROFILE" "$BATS_TEST_TMPDIR/said" "$how"
}

@test "mappings that are moved, replaced, shrink, grow, or are unmapped in vain, and odd lengths" {
	assert_moved exact --interval 1 --
	look 'assert not any(p.dropped.values()), p.dropped'
}

# One page in sixteen is sampled before it grows.
@test "mappings that grow count in full, whether they were sampled before or not" {
	assert_moved 9 --interval 64K -- 2000
}
