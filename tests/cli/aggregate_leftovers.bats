#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# flmem aggregate: what a failure or a refusal leaves behind, and what it says.

load helpers

setup() {
	requires numpy
	mkdir "$BATS_TEST_TMPDIR/work" && cd "$BATS_TEST_TMPDIR/work" || return
	python -c '
import sys, numpy
sys.path.insert(0, sys.argv[1])
from harness import tensors
for name, value in (("a", 1), ("b", 3)):
    tensors.write(name, {"w": ("F32", numpy.full(1000, value, "f4"))})' "$FLMEM_TESTS"
}

adam() {
	run_command "${INJECT[@]}" "$FLMEM" aggregate -q -o out -a fedadam --state s --base a "$@" a b
}

# fails CALL N COMMAND: makes the N-th call of that name return EIO; kills CALL N COMMAND: sends a
# signal there.
fails() {
	inject "$1:error=EIO:when=$2" "${@:3}"
}

kills() {
	inject "$1:signal=KILL:when=$2" "${@:3}"
}

inject() {
	local INJECT=(env "ASAN_OPTIONS=${ASAN_OPTIONS:-}:detect_leaks=0"
		strace -f -q -o /dev/null -e "trace=${1%%:*}" -e "inject=$1")
	if [ "$2" = adam ]; then
		adam "${@:3}"
	else
		run_command "${INJECT[@]}" "${@:2}"
	fi
}

assert_files() {
	local files
	files=$(find . -mindepth 1 -maxdepth 1 -printf '%f\n' | sort | tr '\n' ' ')
	[ "$files" = "$1 " ] || fail "files: $files"
}

@test "a folder that cannot be flushed is a failure, and the state stays that of the last round" {
	requires strace
	local command
	for command in "aggregate -q -o out a b" "aggregate convert -o out a"; do
		# shellcheck disable=SC2086 # words
		fails fsync 1 "$FLMEM" $command
		assert_error 7 "cannot flush the directory of 'out' to the disk"
		assert_files "a b"
		# shellcheck disable=SC2086 # words
		fails fsync 2 "$FLMEM" $command
		assert_error 7 "'out' has its name, but its directory cannot be flushed to the disk: Input/output error"
		rm out
	done
	fails fsync 3 adam
	assert_error 7 "'out' has its name"
	[ ! -e s ]
	adam --resume
	assert_status 0
	assert_files "a b out s"
	fails fsync 2 "$FLMEM" aggregate -q -o folder --shard-size 2K a b
	assert_error 7 "'folder.part/model.safetensors.index.json' has its name"
	[ ! -e folder ]
	run_command "$FLMEM" aggregate -q -o folder --shard-size 2K --resume a b
	assert_status 0
	rm -r folder
	fails fsync 4 "$FLMEM" aggregate -q -o folder --shard-size 2K a b
	assert_error 7 "'folder' has its name"
}

# The kernel reports a failed write once, and then treats the pages as written: a --resume would
# read the right bytes, but the disk does not have them.
@test "what could not be flushed to the disk is not kept for --resume" {
	requires strace
	local command
	for command in "aggregate -q -o out a b" "aggregate convert -o out a" "aggregate -q -o out --shard-size 2K a b"; do
		# shellcheck disable=SC2086 # words
		fails fdatasync 2 "$FLMEM" $command
		assert_error 7 "cannot flush 'out.part[^ ]* to the disk: Input/output error"
		assert_files "a b"
	done
	fails fdatasync 3 adam
	assert_error 7 "cannot flush 'out.part' to the disk"
	[ ! -e out.part ]
	adam --resume
	assert_status 0
	assert_files "a b out s"
	rm out s
	python -c '
import sys, numpy
sys.path.insert(0, sys.argv[1])
from harness import tensors
tensors.write("large", {"w": ("F32", numpy.ones(200000, "f4"))})' "$FLMEM_TESTS"
	sync large
	dd if=large iflag=nocache count=0 status=none
	inject sync_file_range:error=EIO -o trace "$FLMEM" aggregate -q -o out --threads 1 --chunk 64K large
	grep -q WAIT_AFTER trace || skip "the file system has no pages to drop"
	rm large trace
	assert_error 7 "cannot flush 'out.part' to the disk: Input/output error"
	assert_files "a b"
}

@test "a part that cannot be examined is a failure, not a file of another program" {
	requires strace
	local name i
	for name in out.part out.part.journal; do
		for i in 1 3; do
			inject "newfstatat,fstat:error=EIO:when=$i" -P "$PWD/$name" "$FLMEM" aggregate -q -o out a b
			assert_error 7 "cannot write 'out.part': Input/output error"
		done
	done
	run_command "$FLMEM" aggregate -q -o out a b
	assert_status 0
	assert_files "a b out"
}

@test "space that the file system has, and a file does not get, is not short by 0" {
	requires strace
	inject fallocate:error=ENOSPC "$FLMEM" aggregate -q -o out a b
	assert_error 7 "cannot reserve [0-9]* bytes for 'out': No space left on device"
	assert_files "a b"
}

@test "a refused run leaves nothing beside files of others" {
	local kind
	for kind in "touch out.part.journal; echo text >out.part" "ln -s nothing out.part" \
		"mkdir out.part" "mkfifo out.part" "touch file; ln file out.part"; do
		bash -c "$kind"
		run_command "$FLMEM" aggregate -q -o out a b
		assert_error 2 "from an unfinished aggregation"
		rm -rf file out.part
		assert_files "a b"
	done
	echo text >out.part.journal
	run_command "$FLMEM" aggregate -q -o out a b
	assert_error 2 "out.part.journal' beside 'out' are not from an unfinished"
	assert_files "a b out.part.journal"
}

@test "the journal that a kill at the last step left is removed, also by a run that is refused" {
	requires strace
	kills unlinkat 2 adam
	assert_files "a b out s s.part.journal"
	adam --resume
	assert_error 2 "round 1 is complete"
	assert_files "a b out s"
	kills unlinkat 1 "$FLMEM" aggregate -q -o folder --shard-size 2K a b
	[ -e folder/model.safetensors.index.json.part.journal ]
	run_command "$FLMEM" aggregate -q -o folder --shard-size 2K --resume a b
	assert_error 2 "is not an empty folder"
	[ ! -e folder/model.safetensors.index.json.part.journal ]
}

@test "a kill while a failed run removes its files does not leave a part without a journal" {
	requires strace
	cp a nan
	printf '\0\0\300\177' | dd of=nan bs=1 seek="$(($(stat -c %s nan) - 4))" conv=notrunc status=none
	kills unlinkat 2 "$FLMEM" aggregate -q -o out a nan
	assert_files "a b nan out.part.journal"
	run_command "$FLMEM" aggregate -q -o out a b
	assert_status 0
	assert_files "a b nan out"
}

@test "a directory in place of a file is bad usage" {
	mkdir folder
	run_command "$FLMEM" aggregate -q -o out -a fedadam --state folder --base a a b
	assert_error 2 "'folder' is not a regular file; name another --state"
	run_command "$FLMEM" aggregate -q -o out --header @folder a b
	assert_error 2 "cannot read the headers in 'folder': Is a directory"
	run_command "$FLMEM" aggregate -q -o folder a b
	assert_error 2 "'folder' is not a regular file"
	run_command "$FLMEM" aggregate -q -o out --weights-from folder a b
	assert_error 2 "cannot read 'folder': Is a directory"
	assert_files "a b folder"
}

# The reason is at the end of a message, after the path.
@test "a long path loses its middle in a message, and the reason stays" {
	local folder
	folder=$(printf 'directory-%.0s' {1..24})
	mkdir -p "$folder/$folder/$folder"
	folder=$folder/$folder/$folder
	run_command "$FLMEM" aggregate -q -o out "$folder/missing.safetensors" b
	assert_error 2 "cannot read 'directory-.*\.\.\..*/missing.safetensors': No such file or directory"
	cp a "$folder/a.safetensors"
	truncate -s -4 "$folder/a.safetensors"
	run_command "$FLMEM" aggregate inspect "$folder/a.safetensors"
	assert_error 2 "/a.safetensors'.*file"
	mkdir "$folder/out.safetensors"
	run_command "$FLMEM" aggregate -q -o "$folder/out.safetensors" a b
	assert_error 2 "/out.safetensors' is not a regular file; name another output"
}

@test "a result that is infinite though no input is ends a run that could skip inputs, too" {
	run_command "$FLMEM" aggregate -q -o out -a fedavgm --server-rate 1e39 --state s --base a \
		--nan skip-client a b
	assert_error 2 "the result is infinite or NaN though no input is; the state has such a number"
	assert_files "a b"
}

@test "a state that was damaged after a failure is not continued" {
	requires strace
	adam
	assert_status 0
	mkdir want
	mv out s want
	fails fdatasync 3 adam
	assert_error 7 "cannot flush 'out.part' to the disk"
	printf x | dd of=s.part bs=1 seek=5000 conv=notrunc status=none
	adam --resume
	assert_status 0
	cmp s want/s
	cmp out want/out
}
