#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Sampled mappings that change: what is live of them.

load helpers
load profile

setup() {
	requires victim:sampled/moved python3
	PROFILE=$BATS_TEST_TMPDIR/p.prof
}

# assert_moved exact|SIGMAS OPTIONS -- [GROWING]: samples the victim and checks its mappings.
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

@test "mappings that are moved, replaced, shrink, grow, or fail to be unmapped, and odd lengths" {
	assert_moved exact --interval 1 --
	# The rest of a mapping counts for the mapping that it was a part of.
	look 'assert not any(p.dropped.values()), p.dropped
live = dict.fromkeys(p.sites, 0)
for one in p.live.values():
    live[one.site] += one.weight_count
assert all(live[i] == s.allocated_count - s.freed_count for i, s in p.sites.items())'
}

# One page in sixteen is sampled before it grows.
@test "mappings that grow count in full, whether they were sampled before or not" {
	assert_moved 9 --interval 64K -- 2000
}

@test "parts of mappings that are unmapped where no more are known" {
	"$FLMEM" profile run --force -o "$PROFILE" --interval 1 -- "$FLMEM_VICTIMS/sampled/moved" many 3>&-
	look 'site = max(p.sites.values(), key=lambda site: site.samples)
assert site.samples > 8000 and p.dropped["mappings_full"] == 9000 - site.samples, p.dropped
assert p.live_bytes(site) == 4096 * site.samples // 2, p.live_bytes(site)'
}
