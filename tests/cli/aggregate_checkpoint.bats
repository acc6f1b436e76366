#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# PyTorch checkpoints in flmem aggregate, inspect and diff; harness/checkpoint_checks.py has the
# checks.

load helpers

setup() {
	requires numpy
	mkdir "$BATS_TEST_TMPDIR/work" && cd "$BATS_TEST_TMPDIR/work" || return
}

check() {
	run_command python "$FLMEM_TESTS/harness/checkpoint_checks.py" "$FLMEM" "$@"
	assert_status 0
}

needs_torch() {
	requires torch
}

@test "means of checkpoints are those of the same tensors in safetensors files" {
	check means
}

@test "tensors that share a storage are read, others in odd order are refused" {
	check views
}

@test "a pickle is never executed" {
	check pickles
}

@test "archives whose parts disagree are refused, each with its own error" {
	check tricks
}

@test "checkpoints of PyTorch itself" {
	needs_torch
	check torch_reads
}

@test "the output is a copy of the first checkpoint with other tensors" {
	check outputs
}

@test "tied weights in an output stay tied, if they are in all inputs" {
	check shared_outputs
}

@test "torch.load(weights_only=True) reads the output" {
	needs_torch
	check torch_writes
}

# bats test_tags=unsanitised
@test "killed at any instant and resumed, a checkpoint has the same bytes" {
	! sanitized || skip "AddressSanitizer finds nothing in what is killed, and takes most of the time"
	check kills
}

@test "inspect: JSON of a checkpoint, by its tensors and without the key" {
	python -c '
import sys
import numpy
sys.path.insert(0, sys.argv[1])
from harness import checkpoints
checkpoints.write("a.pt", {"w": ("F32", numpy.zeros((2, 3), "f4"))}, "state_dict")' "$FLMEM_TESTS"
	flmem aggregate inspect --json --key state_dict a.pt
	assert_status 0
	assert_schema aggregate-inspect
	flmem aggregate inspect --key state_dict a.pt
	assert_output 'w: F32 \[2, 3\], 24 B, crc32c'
	flmem aggregate inspect a.pt
	assert_status 0
	assert_output 'a.pt: PyTorch checkpoint, 1 tensor, 24 B'
	assert_output 'name the dict that contains only tensors with --key'
	refute_output 'name the dict with --key'
	flmem aggregate inspect --key model a.pt
	assert_error 2 "'a.pt' has no dict 'model' at its top level; name another one with --key"
}
