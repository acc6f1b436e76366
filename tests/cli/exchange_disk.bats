#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# A full disk at either side of an exchange.

load helpers

disk() {
	cd "$BATS_TEST_TMPDIR" || return
	run_command python "$FLMEM_TESTS/harness/exchange_disk.py" "$FLMEM" "$1"
	[ "$status" -ne 77 ] || skip "${output#SKIP: }"
	assert_status 0
}

@test "of the server, in the middle of an upload" {
	disk staged
}

@test "of the server, in lockstep" {
	disk lockstep
}

@test "of the client, in the middle of a download" {
	disk pull
}
