#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# flmem aggregate inspect and diff; harness/inspections.py compares them with NumPy.

load helpers

setup() {
	requires numpy
	mkdir "$BATS_TEST_TMPDIR/work" && cd "$BATS_TEST_TMPDIR/work" || return
}

check() {
	run_command python "$FLMEM_TESTS/harness/inspections.py" "$FLMEM" "$@"
	assert_status 0
}

@test "tensors, shapes, checksums and statistics are those of NumPy" {
	check inspected
}

@test "a folder of shards" {
	check shards
}

@test "checksums of files are those that aggregate prints" {
	check same_checksums
}

@test "inspect and diff have the same bits for any number of threads" {
	check threads
	flmem aggregate inspect --threads 33 one.safetensors
	assert_error 2 '--threads accepts at most 32'
	flmem aggregate diff --threads 33 one.safetensors two.safetensors
	assert_error 2 '--threads accepts at most 32'
}

# bats test_tags=unsanitised
@test "memory does not grow with the model" {
	! sanitized || skip "AddressSanitizer has memory of its own"
	check memory
}

@test "Ctrl-C ends inspect and diff" {
	check stopped
}

@test "inspect: JSON, text, and what cannot be" {
	check models
	flmem aggregate inspect --json --stats one.safetensors
	assert_status 0
	assert_schema aggregate-inspect
	flmem aggregate inspect --stats one.safetensors
	assert_status 0
	assert_output 'w: F32 \[2, 3\], 24 B, crc32c [0-9a-f]{8}'
	assert_output 'min -2, max 3, mean 0.6, norm 4.3589, 1 NaN, 0 infinite'
	assert_output 'no statistics: no arithmetic for this type'
	flmem aggregate inspect --headers-only --json one.safetensors
	assert_status 0
	assert_schema aggregate-inspect
	flmem aggregate inspect --headers-only one.safetensors
	assert_output 'w: F32 \[2, 3\], 24 B$'
	flmem aggregate inspect --json missing
	assert_status 2
	assert_schema aggregate-inspect
	flmem aggregate inspect
	assert_error 2 'name the files to inspect'
	flmem aggregate inspect --stats --headers-only one.safetensors
	assert_error 2 'exclude each other'
	echo '{}' >bad.safetensors
	flmem aggregate inspect bad.safetensors
	assert_error 2 "'bad.safetensors'"
}

@test "different names are different in JSON, with control characters and what looks like their escapes" {
	run_command /usr/bin/python3 -B - "$FLMEM" <<-'END'
		import json, re, struct, subprocess, sys
		names = ["a\x1bb", "a\\x1bb", "a\\x5cx1bb", "a\\\x1bb", "a\\x4\x1bb", "a\\xg", "a\u0085", "a\\xc2\\x85"]
		head = json.dumps({n: {"dtype": "F32", "shape": [1], "data_offsets": [4 * i, 4 * i + 4]}
		                   for i, n in enumerate(names)}).encode()
		open("names.safetensors", "wb").write(struct.pack("<Q", len(head)) + head + bytes(4 * len(names)))
		shown = json.loads(subprocess.check_output([sys.argv[1], "aggregate", "inspect", "--json", "names.safetensors"]))
		seen = [t["name"] for t in shown["models"][0]["tensors"]]
		read = [re.sub(rb"\\x([0-9a-f]{2})", lambda m: bytes([int(m[1], 16)]), n.encode()).decode() for n in seen]
		assert sorted(read) == sorted(names), (seen, read)
		assert all(n.isprintable() for n in seen), seen
	END
	assert_status 0
}

@test "a name that is wrong is found before the data of others are read" {
	run_command timeout 120 "$FLMEM" aggregate inspect generate:llama-3.1-405b missing.safetensors
	assert_error 2 "cannot read 'missing.safetensors'"
}

@test "of a PyTorch checkpoint only the directory is read, and that is said" {
	python -c '
import zipfile
with zipfile.ZipFile("model.pt", "w") as file:
    file.writestr("model/data.pkl", b"\x80\x02.")
    file.writestr("model/data/0", b"x" * 40)
    file.writestr("model/data/1", b"x" * 8)'
	flmem aggregate inspect model.pt
	assert_status 0
	assert_output 'model.pt: PyTorch checkpoint, 2 tensors, 48 B'
	assert_output 'tensors are not listed: names, types and shapes are in a pickle'
	flmem aggregate inspect --json model.pt
	assert_status 0
	assert_schema aggregate-inspect
}

@test "a checkpoint with a damaged pickle or storage is an error, with its tensors or without" {
	python -c '
import zipfile
with zipfile.ZipFile("whole.pt", "w") as file:
    file.writestr("model/data.pkl", b"\x80\x02.")
    file.writestr("model/data/0", b"unharmed")
whole = open("whole.pt", "rb").read()
open("pickle.pt", "wb").write(whole.replace(b"\x80\x02.", b"\x80\x03."))
open("storage.pt", "wb").write(whole.replace(b"unharmed", b"unarmed!"))'
	flmem aggregate inspect whole.pt
	assert_status 0
	for option in "" --headers-only; do
		# shellcheck disable=SC2086 # the empty one is not a word
		flmem aggregate inspect $option pickle.pt
		assert_error 2 "its entry 'model/data.pkl' does not match its checksum in the archive"
	done
	flmem aggregate inspect storage.pt
	assert_error 2 "its entry 'model/data/0' does not match its checksum in the archive"
	flmem aggregate inspect --headers-only storage.pt
	assert_status 0
	flmem aggregate inspect --json pickle.pt
	assert_status 2
	assert_schema aggregate-inspect
}

@test "diff: differences are those of NumPy" {
	check compared
}

@test "diff: large integers, NaN, names, shapes and types" {
	check corners
}

@test "diff: JSON, text, exit status, and what cannot be" {
	check models
	flmem aggregate diff one.safetensors one.safetensors
	assert_status 0
	assert_output '0 of 2 tensors differ'
	flmem aggregate diff one.safetensors two.safetensors
	assert_status 1
	assert_output '2 of 2 tensors differ, 2 of them in name, shape or type, or by more than the tolerance'
	assert_output 'phase: values, 4 bytes differ'
	assert_output 'w: values, at most 0.5 \(element 3\), relative 0.142857, 1 element differs'
	flmem aggregate diff --json one.safetensors two.safetensors
	assert_status 1
	assert_schema aggregate-diff
	flmem aggregate diff one.safetensors
	assert_error 2 'name two models after the options, not 1'
	flmem aggregate diff --tolerance x one.safetensors two.safetensors
	assert_error 2 "--tolerance: invalid number 'x'"
	flmem aggregate diff one.safetensors missing
	assert_error 2 "cannot read 'missing'"
}
