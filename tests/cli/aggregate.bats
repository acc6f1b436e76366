#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# flmem aggregate, from outside; what takes more than a shell is in harness/aggregations.py.

load helpers

setup() {
	requires numpy
	mkdir "$BATS_TEST_TMPDIR/work" && cd "$BATS_TEST_TMPDIR/work" || return
}

check() {
	run_command "${PYTHON:-python}" -B "$FLMEM_TESTS/harness/aggregations.py" "$FLMEM" "$@"
	assert_status 0
}

# model FILE NAME=TYPE:SHAPE ...: writes tensors of zeros, or of the values after a second colon.
model() {
	python -c '
import sys
import numpy
sys.path.insert(0, sys.argv[1])
from harness import tensors
model = {}
for word in sys.argv[3:]:
    name, about = word.split("=")
    kind, shape, *value = about.split(":")
    shape = [int(n) for n in shape.split("x") if n]
    model[name] = (kind, numpy.full(shape, float(value[0]) if value else 0, tensors.TYPES[kind]))
tensors.write(sys.argv[2], model)' "$FLMEM_TESTS" "$@"
}

@test "means are those of NumPy in float64" {
	check means
}

@test "tensors may be in other places in every file" {
	check layouts
}

@test "folders of shards with an index" {
	check shards
}

@test "the output is what the safetensors package writes" {
	PYTHON=$("$FLMEM_TESTS/harness/make-safetensors") || skip "${PYTHON#SKIP: }"
	check reference
}

@test "the bits do not depend on chunks and threads" {
	check same_bits
}

@test "NaN and infinities are refused, left out or passed on" {
	check special
}

@test "median and trimmed mean are those of NumPy" {
	check robust
}

@test "integers and other types are equal, copied or rounded" {
	check others
}

# bats test_tags=unsanitised
@test "killed at any instant and resumed, it writes the same bytes" {
	! sanitized || skip "AddressSanitizer finds nothing in what is killed, and takes most of the time"
	check kills
}

@test "a resumed run trusts nothing that it has not checked" {
	check damage
}

@test "inputs that change, a signal and a second writer" {
	check changes
}

# bats test_tags=unsanitised
@test "memory does not grow with the model" {
	! sanitized || skip "AddressSanitizer has memory of its own"
	check memory
}

@test "100,000 tensors" {
	check many
}

@test "models that differ are refused before anything is written" {
	model a w=F32:2x3 b=F32:4
	model b w=F32:2x3
	model c w=F32:3x2 b=F32:4
	model d w=F16:2x3 b=F32:4
	model e w=F32:2x3 b=F32:4 c=F32:1
	echo old >out
	flmem aggregate -o out a b
	assert_error 2 "'b' has no tensor 'b', which 'a' has"
	flmem aggregate -o out a c
	assert_error 2 "tensor 'w' is F32 \[2, 3\] in 'a', but F32 \[3, 2\] in 'c'"
	flmem aggregate -o out a a d
	assert_error 2 "tensor 'w' is F32 \[2, 3\] in 'a', but F16 \[2, 3\] in 'd'"
	flmem aggregate -o out a e
	assert_error 2 "'a' has no tensor 'c', which 'e' has"
	[ "$(cat out)" = old ]
	[ "$(ls)" = "a
b
c
d
e
out" ]
}

@test "command lines that make no sense" {
	model a w=F32:2
	flmem aggregate a
	assert_error 2 'name the file to write with --output'
	flmem aggregate -o out
	assert_error 2 'name the files to average'
	flmem aggregate -o out --weights 1 a a
	assert_error 2 '1 weight for 2 inputs'
	flmem aggregate -o out --weights 1,x a a
	assert_error 2 "--weights: invalid number 'x'"
	flmem aggregate -o out --weights 1,-1 a a
	assert_error 2 "invalid weight '-1'; weights are not negative"
	flmem aggregate -o out --weights 0,0 a a
	assert_error 2 'all weights are 0'
	flmem aggregate -o out --weights 1e-300,1e300 a a
	assert_error 2 'too small beside'
	flmem aggregate -o out --nan maybe a
	assert_error 2 'choose from reject, skip-client, propagate'
	flmem aggregate -o out --threads 100000 a
	assert_error 2 '--threads accepts at most [0-9]+'
	flmem aggregate -o out --chunk 2G a
	assert_error 2 '--chunk accepts at most 1 GiB'
	[ ! -e out ]
}

@test "inputs that are not models, and outputs that cannot be" {
	model a w=F32:2
	mkfifo pipe
	mkdir folder
	flmem aggregate -o out missing
	assert_error 2 "cannot read 'missing'"
	flmem aggregate -o out pipe
	assert_error 2 "'pipe' is not a regular file"
	flmem aggregate -o out a folder
	assert_error 2 "'folder' contains neither model.safetensors.index.json nor model.safetensors"
	flmem aggregate -o folder a
	assert_error 2 "'folder' is not a regular file"
	flmem aggregate -o missing/out a
	assert_error 2 "cannot write 'missing/out': its directory does not exist; create it first"
	flmem aggregate -o missing/out --shard-size 1M a
	assert_error 2 "cannot write 'missing/out': its directory does not exist; create it first"
	flmem aggregate -o /dev/null a
	assert_status 2
	[ -c /dev/null ] && [ ! -e /dev/null.part ]
	ln -s a out.part
	flmem aggregate -o out a
	assert_status 2
	[ -L out.part ]
	[ ! -e folder.part ]
}

@test "an input is not replaced by the output, whatever the paths to it are" {
	model a.safetensors w=F32:2:1
	model b.safetensors w=F32:2:2
	mkdir folder
	cp a.safetensors folder/model.safetensors
	cp a.safetensors kept
	flmem aggregate -o a.safetensors a.safetensors b.safetensors
	assert_error 2 "'a.safetensors' is both input and output"
	flmem aggregate -o "$PWD/a.safetensors" b.safetensors a.safetensors
	assert_error 2 'is both input and output'
	flmem aggregate -o folder/model.safetensors folder b.safetensors
	assert_error 2 'is both input and output'
	cmp kept a.safetensors
	cmp kept folder/model.safetensors
	[ ! -e a.safetensors.part ]
	# A link is replaced itself, and the file that it names stays.
	ln -s a.safetensors link
	flmem aggregate -q -o link a.safetensors b.safetensors
	assert_status 0
	ln a.safetensors second
	flmem aggregate -q -o second a.safetensors b.safetensors
	assert_status 0
	cmp kept a.safetensors
}

@test "where all inputs are skipped the reason is theirs" {
	model large w=F64:2:1e200
	model bad w=F64:2:nan
	flmem aggregate -q -a norm-clipped-mean --clip-norm 1 -o out large large
	assert_error 2 "no input is left for 'out'.*'large' because the norm of its update is infinite"
	flmem aggregate -q --nan skip-client --weights 1,0 -o out bad large
	assert_error 2 "no input is left for 'out'.*'bad' because it has a NaN or an infinity"
	[ ! -e out ]
}

@test "models without a tensor have no mean" {
	model empty
	flmem aggregate -o out empty empty
	assert_error 2 "'empty' contains no tensor"
	[ ! -e out ]
}

@test "addresses of other kinds than http, and files that look like them" {
	model a w=F32:2
	flmem aggregate -o out a s3://bucket/model.safetensors
	assert_error 2 "'s3://bucket/model.safetensors' is neither a file nor an address that can be read"
	mkdir -p s3:/bucket
	cp a s3:/bucket/model
	flmem aggregate -q -o out a s3://bucket/model
	assert_status 0
}

@test "the mode of an existing output stays, and nobody gains access" {
	model a w=F32:2
	(umask 022 && "$FLMEM" aggregate -q -o out a)
	[ "$(stat -c %a out)" = 644 ]
	chmod 640 out
	(umask 022 && "$FLMEM" aggregate -q -o out a)
	[ "$(stat -c %a out)" = 640 ]
}

@test "a full disk is reported with the bytes that are missing, and the old output stays" {
	requires root strace
	model a w=F32:1000x1000
	# shellcheck disable=SC2016 # for the inner shell
	run_command unshare -m bash -c '
		mkdir disk && mount -t tmpfs -o size=2M tmpfs disk || exit 77
		echo old >disk/out
		"$1" aggregate -o disk/out a a
		echo "status $?"
		cat disk/out
		ls -A disk
		ASAN_OPTIONS=${ASAN_OPTIONS:-}:detect_leaks=0 \
			strace -f -q -o trace -e trace=fallocate "$1" aggregate -q -o disk/out a a 2>/dev/null
		grep fallocate trace' - "$FLMEM" # no block is allocated before
	[ "$status" != 77 ] || skip "needs to mount a tmpfs"
	assert_stderr "'disk/out' needs 4000[0-9]* bytes, but its file system is short by 1[0-9]*"
	[ "$output" = "status 7
old
out" ]
}

# After a power failure, a part that has a size but an empty journal would be refused as another
# program's.
@test "the journal is on the disk before the output has a size" {
	command -v strace >/dev/null || skip "needs strace"
	model a w=F32:1000
	ASAN_OPTIONS=${ASAN_OPTIONS:-}:detect_leaks=0 \
		strace -f -q -y -o trace -e trace=fdatasync,fsync,fallocate "$FLMEM" aggregate -q -o out a a
	cat trace
	sed -n '1,/fallocate/p' trace >first
	grep -q 'fallocate(.*out\.part>' first
	grep -q 'fdatasync(.*out\.part\.journal>' first
}

@test "a limit for the size of files is reported, and the old output stays" {
	model a w=F32:1000x1000
	echo old >out.npz
	# shellcheck disable=SC2016 # for the inner shell
	for command in "aggregate a a" "aggregate convert a"; do
		run_command bash -c 'ulimit -f 1000 && exec "$FLMEM" $1 -o out.npz' - "$command"
		assert_error 7 'out.npz.*File too large'
	done
	[ "$(cat out.npz)" = old ]
	[ "$(ls)" = "$(printf 'a\nout.npz')" ]
}

@test "JSON, and the same with inputs that are left out" {
	model a w=F32:4:1
	model b w=F32:4:nan
	flmem aggregate --json -o out --nan skip-client a b
	assert_status 0
	assert_schema aggregate
	flmem aggregate -o out --nan skip-client a b
	assert_status 0
	assert_output 'without b: it has a NaN or an infinity'
	assert_output 'out: fedavg of 1 of 2 models'
	flmem aggregate --json -o out b
	assert_status 2
	assert_schema aggregate
}

@test "a name that asks for a format that is not written" {
	local name
	model a.safetensors w=F32:2:1
	for name in out.npy out.pth.tar out.h5; do
		flmem aggregate -o "$name" a.safetensors
		assert_error 2 "'$name': no format that can be written has the suffix"
		flmem aggregate convert -o "$name" a.safetensors
		assert_error 2 "no format that can be written has the suffix"
		[ ! -e "$name" ] && [ ! -e "$name.part" ]
	done
	flmem aggregate -o - a.safetensors
	assert_error 2 'is not written to standard output'
}

@test "weights from a file of counts" {
	mkdir b
	model a.safetensors w=F32:2:1
	model b/b.safetensors w=F32:2:2
	model c w=F32:2:6
	echo '{"a": 3, "b.safetensors": 2, "c": 1, "gone": 9}' >counts.json
	flmem aggregate -q -o expected --weights 3,2,1 a.safetensors b/b.safetensors c
	flmem aggregate -q -o out --weights-from counts.json a.safetensors b/b.safetensors c
	assert_status 0
	cmp out expected
	flmem aggregate -q -o out --weights-from counts.json --client-weights sample_size \
		a.safetensors b/b.safetensors c
	cmp out expected
	flmem aggregate -q -o expected a.safetensors c
	flmem aggregate -q -o out --client-weights equal a.safetensors c
	cmp out expected
	flmem aggregate convert -q -o b/a.npz a.safetensors
	flmem aggregate -q -o expected --weights 3,1 b/a.npz c
	flmem aggregate -q -o out --weights-from counts.json b/a.npz c
	cmp out expected
	rm out
	flmem aggregate -o out --client-weights sample_size a.safetensors c
	assert_error 2 'name their file with --weights-from'
	flmem aggregate -o out --client-weights equal --weights-from counts.json a.safetensors c
	assert_error 2 'exclude each other'
	flmem aggregate -o out --weights 1,2 --weights-from counts.json a.safetensors c
	assert_error 2 'exclude each other'
	cp c d
	flmem aggregate -o out --weights-from counts.json a.safetensors d
	assert_error 2 "'counts.json' has no number for 'd'"
	cp a.safetensors b/a.safetensors
	flmem aggregate -o out --weights-from counts.json a.safetensors b/a.safetensors
	assert_error 2 "'a' in 'counts.json' names 'a.safetensors' and 'b/a.safetensors'"
	flmem aggregate -o out --weights-from missing a.safetensors
	assert_error 2 "cannot read 'missing'"
	local text
	for text in '' '[1]' '{"a": 1.5}' '{"a": -1}' '{"a": "1"}' '{"a": 1} x' '{"a": 1, "a": 2}'; do
		echo "$text" >bad.json
		flmem aggregate -o out --weights-from bad.json a.safetensors
		assert_error 2 "'bad.json'"
	done
	flmem aggregate -o out --weights-from /dev/null a.safetensors
	assert_error 2 "'/dev/null' is not a JSON object of whole numbers: it is empty"
	[ ! -e out ]
}
