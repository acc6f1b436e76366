#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Updates of flmem exchange are searched for NaN while they arrive, as if their tensors were in the
# order of the model. What that does not find out is read again.

load helpers
load exchange

setup() {
	exchange_setup
	python - <<-'END'
		import json, struct
		one, nan = struct.pack("<2f", 1, 1), struct.pack("<2I", 0x7fc00000, 0)
		files = {"model": ((0, 8), one + one), "nan-late": ((8, 0), one + nan),
		         "late": ((8, 0), nan + one), "nan": ((0, 8), nan + one)}
		for name, (begins, data) in files.items():
		    head = json.dumps({tensor: {"dtype": dtype, "shape": [2], "data_offsets": [begin, begin + 8]}
		                       for tensor, dtype, begin in zip("fi", ("F32", "I32"), begins)}).encode()
		    head += b" " * (-len(head) % 8)
		    with open(name + ".safetensors", "wb") as out:
		        out.write(struct.pack("<Q", len(head)) + head + data)
	END
	serve --model model.safetensors --clients 1
}

teardown() {
	exchange_teardown
}

@test "a NaN in an update whose tensors are in another order is refused" {
	push a nan-late.safetensors
	assert_code 422 "'f' has a NaN or an infinity"
	push a late.safetensors
	assert_code 204
	await_server
	[ "$CODE" -eq 0 ]
}

@test "a NaN in a request before the last one is refused, also after a restart" {
	local size
	size=$(stat -c %s nan.safetensors)
	for restart in false true; do
		create a nan.safetensors
		head -c -8 nan.safetensors >first
		tail -c 8 nan.safetensors >second
		patch 0 first
		assert_code 204
		if $restart; then
			kill_server
			serve --model model.safetensors --clients 1
		fi
		patch $((size - 8)) second
		assert_code 422 "'f' has a NaN or an infinity"
	done
}
