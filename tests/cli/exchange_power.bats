#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# What flmem exchange serve has after a failure of the power.
# shellcheck disable=SC2153 # exchange.bash sets URL

load helpers
load exchange

setup() {
	exchange_setup
	make_model g.safetensors 0
	make_model a.safetensors 1
}

teardown() {
	exchange_teardown
}

@test "bytes that a power failure took are sent again" {
	local part
	serve --model g.safetensors --clients 1
	create c a.safetensors
	for part in 0 50000 100000; do
		tail -c "+$((part + 1))" a.safetensors | head -c 50000 >chunk
		patch "$part" chunk
		assert_code 204
	done
	offset
	[ "$OFFSET" -eq 150000 ]
	head -c 150000 a.safetensors >sent
	[ "$(header Upload-Checksum)" = "$(PYTHONPATH="$FLMEM_TESTS" /usr/bin/python3 -B -c '
import base64
from harness import digests
print("crc32c", base64.b64encode(digests.crc32c(open("sent", "rb").read()).to_bytes(4, "big")).decode())')" ]
	kill_server
	# Of the three commits the second one did not reach the disk.
	printf '\0\0\0\0\0\0\0\0' | dd of="$(echo state/uploads/*.data)" bs=1 seek=70000 conv=notrunc status=none
	serve --model g.safetensors --clients 1
	offset
	[ "$OFFSET" -eq 50000 ]
	push_rest a.safetensors 1000000
	await_server
	[ "$CODE" -eq 0 ]
	assert_model "$(cat served)" a.safetensors
}
