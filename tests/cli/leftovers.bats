#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Directories that killed processes of a framework left behind.

load helpers

@test "tensors that a killed job left on the disk are found, with their size" {
	local tmp=$BATS_TEST_TMPDIR/tmp id=0f8fad5b-d9cb-469f-a165-70867728950e
	local left=$tmp/nvflare_tensor_offload_${id}_ab12cd_9
	local used=$tmp/nvflare_tensor_offload_11111111-d9cb-469f-a165-70867728950e_zz12cd_9
	python "$FLMEM_TESTS/cli/fakes/make-frameworks" "$BATS_TEST_TMPDIR/fakes"
	export PYTHONPATH=$BATS_TEST_TMPDIR/fakes
	mkdir -p "$left/nvflare_tensors_x" "$used/nvflare_tensors_x" "$tmp/nvflare_tensor_offload_a b"
	head -c 3145728 /dev/urandom >"$left/nvflare_tensors_x/0.safetensors"
	cp "$left/nvflare_tensors_x/0.safetensors" "$used/nvflare_tensors_x/"
	cp "$left/nvflare_tensors_x/0.safetensors" "$tmp/nvflare_tensor_offload_a b/"
	ln -s "$left" "$tmp/nvflare_tensor_offload_link"
	TMPDIR=$tmp MALLOC_ARENA_MAX=4 start_victim /usr/bin/python3 -u \
		-m nvflare.private.fed.app.server.runner_process -m /ws \
		-n 11111111-d9cb-469f-a165-70867728950e
	flmem recommend --pid "$VICTIM"
	assert_output 'HOST-OFFLOAD-ORPHAN'
	assert_output "$left"
	assert_output '3 MiB in 1 file'
	refute_output "$used"
	refute_output 'tensor_offload_link'
	refute_output 'tensor_offload_a b'
	flmem recommend --pid "$VICTIM" --framework-version 2.7.2
	refute_output 'HOST-OFFLOAD-ORPHAN'
	[ -f "$left/nvflare_tensors_x/0.safetensors" ]
	[ -f "$used/nvflare_tensors_x/0.safetensors" ]
	assert_victim_unharmed
}

@test "with --all they are found where no process of the framework runs" {
	local tmp=$BATS_TEST_TMPDIR/tmp left
	left=$tmp/nvflare_tensor_offload_22222222-d9cb-469f-a165-70867728950e_ab12cd_9
	mkdir -p "$left/nvflare_tensors_x"
	head -c 3145728 /dev/urandom >"$left/nvflare_tensors_x/0.safetensors"
	start_victim /usr/bin/python3 -uc 'import sys; print("ready"); sys.stdin.read(); import time; time.sleep(600)'
	TMPDIR=$tmp flmem recommend --pid "$VICTIM"
	refute_output 'HOST-OFFLOAD-ORPHAN'
	TMPDIR=$tmp flmem recommend --all
	assert_output 'HOST-OFFLOAD-ORPHAN'
	assert_output "$left"
	[ -f "$left/nvflare_tensors_x/0.safetensors" ]
}
