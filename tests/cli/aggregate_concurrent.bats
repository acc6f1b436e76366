#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Several flmem aggregate that write the same output or state at the same time.

load helpers

setup() {
	MODEL=generate:resnet18
	mkdir "$BATS_TEST_TMPDIR/work" && cd "$BATS_TEST_TMPDIR/work" || return
}

# slow VARIABLE ARGUMENT...: runs in the background a flmem that waits where the variable selects;
# its PID is in LATE.
slow() {
	local variable=$1
	shift
	touch slow
	env ASAN_OPTIONS="${ASAN_OPTIONS:-}:verify_asan_link_order=0" "$variable=$PWD/slow" \
		LD_PRELOAD="$FLMEM_VICTIMS/sampled/slow_calls.so" \
		"$FLMEM" aggregate -q "$@" 2>late 3>&- &
	LATE=$!
	wait_until 60 test -e slow.begun
}

finish() {
	rm slow
	wait "$LATE" || { cat late && false; }
}

refused() {
	flmem aggregate "$@"
	assert_error 7 'another aggregation is writing'
}

@test "a folder of shards that is about to get its name is not taken" {
	slow SLOW_RENAME -o out --shard-size 20MB "$MODEL?client=1"
	refused -o out --shard-size 20MB "$MODEL"
	refused -o out --shard-size 20MB --resume "$MODEL"
	finish
	run_command "$FLMEM" aggregate diff out "$MODEL?client=1"
	assert_status 0
	[ "$(find out -mindepth 1 | wc -l)" = 4 ]
	[ "$(ls)" = "$(printf 'late\nout\nslow.begun')" ]
}

@test "a journal that is about to be removed is not taken" {
	slow SLOW_UNLINKAT -o out "$MODEL?client=1"
	[ -e out ]
	refused -o out "$MODEL"
	finish
	[ "$(ls)" = "$(printf 'late\nout\nslow.begun')" ]
	flmem aggregate -q -o out "$MODEL"
	assert_status 0
}

@test "a file system without locks is named as the reason" {
	run_command env ASAN_OPTIONS="${ASAN_OPTIONS:-}:verify_asan_link_order=0" NO_FLOCK=1 \
		LD_PRELOAD="$FLMEM_VICTIMS/sampled/slow_calls.so" "$FLMEM" aggregate -o out "$MODEL"
	assert_error 7 "cannot lock 'out.part.journal' beside 'out'"
	assert_stderr 'Function not implemented'
}

@test "a round that another one has overtaken does not replace its state" {
	local words=(-a fedavgm --state state --base "$MODEL" "$MODEL?client=1")
	slow SLOW_FLOCK -o late.out "${words[@]}"
	flmem aggregate -q -o out "${words[@]}"
	assert_status 0
	cp state kept
	! finish || fail "it succeeded"
	grep -q "another aggregation has just written 'state'" late || fail "$(cat late)"
	cmp state kept
	[ ! -e late.out ] && [ ! -e state.part ] && [ ! -e late.out.part ]
}

@test "what another program put in place of a part does not become the output" {
	slow SLOW_FLUSH -o out "$MODEL?client=1"
	rm out.part out.part.journal
	echo other >out.part
	! finish || fail "it succeeded"
	grep -q "'out.part' was removed or replaced while it was written" late || fail "$(cat late)"
	[ ! -e out ] && [ "$(cat out.part)" = other ]
	rm -r out.part slow.begun
	slow SLOW_FLUSH -o out --shard-size 20MB "$MODEL?client=1"
	mv out.part moved
	mkdir out.part
	! finish || fail "it succeeded"
	grep -q "'out.part' was removed or replaced while it was written" late || fail "$(cat late)"
	[ ! -e out ]
}

@test "a part that another program cut does not become an output with zeros in it" {
	local form part input
	# For the small model only headers are written after the cut.
	/usr/bin/python3 -B -c 'import json, struct
rows = {n: {"dtype": "F32", "shape": [50000], "data_offsets": [200000 * i, 200000 * (i + 1)]} for i, n in enumerate("ab")}
head = json.dumps(rows).encode()
open("small", "wb").write(struct.pack("<Q", len(head)) + head + b"\1" * 400000)'
	for form in "" "--shard-size 20MB" "small" "--shard-size 200KB small"; do
		input="$MODEL?client=1"
		[ "$form" = "${form%small}" ] || input=
		# shellcheck disable=SC2086 # several words
		slow SLOW_WRITE -o out $form $input
		part=out.part
		[ ! -d out.part ] || part=$(ls out.part/*-00001-of-*.safetensors)
		truncate -s 100K "$part"
		! finish || fail "it succeeded"
		grep -q "another program has truncated .*'out.*' while it was written" late || fail "$(cat late)"
		[ ! -e out ]
		rm -fr out.part slow.begun
	done
}

@test "an output whose folder was moved meanwhile is not reported as written" {
	local folder
	for folder in plain link; do
		mkdir there
		slow SLOW_WRITE -o there/out "$MODEL?client=1"
		mv there moved
		if [ "$folder" = link ]; then ln -s / there; else mkdir there; fi
		! finish || fail "it succeeded"
		grep -q "the folder of 'there/out' was moved, replaced or closed to this user" late || fail "$(cat late)"
		[ ! -e there/out ] && [ ! -e moved/out ]
		rm -r there moved slow.begun
	done
}
