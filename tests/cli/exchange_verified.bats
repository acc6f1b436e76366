#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# bats file_tags=unsanitised
# Generated models in an exchange, and a round that is compared instead of written.

load helpers
load exchange

MODEL='generate:resnet18?seed=1'

setup() {
	! sanitized || skip "it adds up whole models, for which a sanitised build takes minutes"
	exchange_setup
}

teardown() {
	jobs -p | xargs -r kill 2>/dev/null || true
	exchange_teardown
}

update() {
	echo "$MODEL&client=$1"
}

serve_verified() {
	serve --model "$MODEL" --clients 2 --mode lockstep --verify "a=$(update 1)" \
		--verify "b=$(update 2)" "$@"
}

write_update() {
	"$FLMEM" aggregate generate -q --shape resnet18 --seed 1 --client "$1" -o "$2"
}

@test "a round is verified: nothing is written, and the output says so" {
	serve_verified --json
	run_command "$FLMEM" exchange pull "$URL" -o verify:
	assert_status 0
	assert_output '^model of round 0, .*; its SHA-256 is the published one, nothing was written'
	"$FLMEM" exchange push -q "$URL" "$(update 1)" -c a &
	"$FLMEM" exchange push -q "$URL" "$(update 2)" -c b -w 3
	wait $!
	await_server
	[ "$CODE" -eq 0 ]
	python - <<-'END'
		import json
		text = open("served").read()
		served = json.loads(text[text.index("{"):])
		assert served["verified_elements"] == 11699132, served
		assert served["updates"] == 2 and not served["stopped"], served
	END
	[ -z "$(find . -size +1M)" ]
	# The same command again: the result is still known, also after a signal.
	serve_verified --settle 1h
	run_command "$FLMEM" exchange wait "$URL" --round 1
	assert_error 2 'is over without a round 1: its last model is that of round 0'
	run_command "$FLMEM" exchange push "$URL" "$(update 1)" -c a
	assert_error 2 'is over: its last model is that of round 0'
	# A client that lost the answer learns that its update arrived.
	run_command "$FLMEM" exchange push -q "$URL" "$(update 1)" -c a --round 0
	assert_status 0
	kill "$SERVER"
	await_server
	[ "$CODE" -eq 0 ]
	has_line served 'nothing was written.* 11699132 elements are their exact mean'
}

@test "the published model has the bytes of the generated file, also in parts" {
	serve_verified
	write_update 0 model
	request GET /v1/rounds/0/model/model.safetensors
	assert_code 200
	cmp body model
	[ "$(header ETag)" = "\"$(sha256sum <model | cut -d' ' -f1)\"" ]
	for range in 0-0 3-70000 1234567-2345678 46807440-46807447; do
		request GET /v1/rounds/0/model/model.safetensors -H "Range: bytes=$range"
		assert_code 206
		cmp body <(tail -c +$((${range%-*} + 1)) model | head -c $((${range#*-} - ${range%-*} + 1)))
	done
	request GET /v1/rounds/0/model/model.safetensors -H "Range: bytes=46807448-"
	assert_code 416
	request GET /v1/rounds/0/model/model.safetensors -H "If-None-Match: $(header ETag)"
	assert_code 304
	request HEAD /v1/rounds/0/model/model.safetensors
	[ "$(header Content-Length)" -eq "$(stat -c %s model)" ]
	"$FLMEM" exchange pull -q "$URL" -o pulled
	cmp pulled model
}

# lie OFFSET MASK: changes one bit of client b's data; sets $TENSOR and $ELEMENT to its place.
lie() {
	write_update 2 lie.safetensors
	python - "$@" >place <<-'END'
		import json, sys
		at = int(sys.argv[1])
		sizes = {"F32": 4, "I64": 8}
		with open("lie.safetensors", "r+b") as file:
		    length = int.from_bytes(file.read(8), "little")
		    header = json.loads(file.read(length))
		    file.seek(8 + length + at)
		    byte = file.read(1)[0]
		    file.seek(-1, 1)
		    file.write(bytes([byte ^ int(sys.argv[2])]))
		for name, tensor in header.items():
		    begin, end = tensor.get("data_offsets", (0, 0))
		    if begin <= at < end:
		        print(name, (at - begin) // sizes[tensor["dtype"]])
	END
	read -r TENSOR ELEMENT <place
}

@test "one wrong bit of a client fails the round, with tensor, element and client" {
	local place
	# Places: an integer, a lowest bit, a sign, and the last element.
	for place in 0,1 20000000,1 20000007,128 46796607,64; do
		rm -rf state
		lie "${place%,*}" "${place#*,}"
		serve_verified
		"$FLMEM" exchange push -q --retries 1 "$URL" "$(update 1)" -c a 2>pushed &
		"$FLMEM" exchange push -q --retries 1 "$URL" lie.safetensors -c b 2>>pushed || true
		wait $! || true
		await_server
		[ "$CODE" -eq 7 ]
		has_line server.log "tensor '$TENSOR', element $ELEMENT: the update differs from the value of 'b'"
		refute_line served 'exact mean'
		[ ! -e state/rounds/0/verified ]
	done
}

@test "after a kill all is compared again, and the result is the same" {
	local at
	for at in 100000 30000000; do
		rm -rf state
		serve_verified
		write_update 1 a.safetensors
		head -c "$at" a.safetensors >part
		"$FLMEM" exchange push -q "$URL" "$(update 2)" -c b &
		create a a.safetensors
		patch 0 part
		kill_server
		serve_verified --listen "${URL#http://}"
		push_rest a.safetensors 20000000
		wait $!
		await_server
		[ "$CODE" -eq 0 ]
		has_line served '11699132 elements are their exact mean'
	done
}

refused() {
	local reason=$1
	shift
	run_command "$FLMEM" exchange serve --model "$MODEL" --clients 2 --state s "$@"
	assert_error 2 "$reason"
	[ ! -e s ]
}

@test "what cannot be verified is refused with the reason" {
	local a b
	a=a=$(update 1) b=b=$(update 2)
	refused 'use --mode lockstep' --verify "$a" --verify "$b"
	refused 'use --rounds 1' --mode lockstep --rounds 2 --verify "$a" --verify "$b"
	refused 'use --algorithm fedavg' --mode lockstep -a median --verify "$a" --verify "$b"
	refused 'excludes --quorum' --mode lockstep --quorum 1 --deadline 1h --verify "$a" --verify "$b"
	refused 'for 1 of 2 clients' --mode lockstep --verify "$a"
	refused "names 'a' twice" --mode lockstep --verify "$a" --verify "$a"
	refused "'file' is not a generated model" --mode lockstep --verify a=file --verify "$b"
	refused 'expected CLIENT=MODEL' --mode lockstep --verify "$MODEL" --verify b
	refused 'invalid name of a client' --mode lockstep --verify "a/b=$MODEL" --verify "$b"
	refused 'choose from resnet18' --mode lockstep --verify 'a=generate:x' --verify "$b"
}

@test "an update of another shape or type is refused before anything is served" {
	run_command "$FLMEM" exchange serve --model "$MODEL" --clients 1 --state s --mode lockstep \
		--verify 'a=generate:resnet18?dtype=bf16'
	assert_error 2 '--verify'
}

@test "clients that were not named, and weights without an exact mean, are refused" {
	local weight
	serve_verified
	run_command "$FLMEM" exchange push "$URL" "$(update 1)" -c stranger
	assert_error 4 "knows none of 'stranger'"
	run_command "$FLMEM" exchange push "$URL" "$(update 1)" -c a -w 0.5
	assert_error 7 'weights are whole numbers from 1 to 524288'
	for weight in 1.5 524289; do
		run_command "$FLMEM" exchange push "$URL" "$(update 1)" -c a -w "$weight"
		assert_error 7 'weights are whole numbers from 1 to 524288'
	done
	run_command "$FLMEM" exchange push "$URL" 'generate:none' -c a
	assert_error 2 'choose from resnet18'
}

@test "a generated model can begin an exchange whose rounds are written" {
	serve --model "$MODEL" --clients 2
	"$FLMEM" exchange push -q "$URL" "$(update 1)" -c a
	"$FLMEM" exchange push -q "$URL" "$(update 2)" -c b
	await_server
	[ "$CODE" -eq 0 ]
	assert_model "$(cat served)" "$(update 1)" "$(update 2)"
}

@test "after a kill other models to compare with are refused" {
	serve_verified
	kill_server
	run_command "$FLMEM" exchange serve --model "$MODEL" --clients 2 --mode lockstep --state state \
		--verify "a=$(update 1)" --verify "b=$(update 3)"
	assert_error 2 "is of an exchange with 'verify b=.*client=2', but now it is 'verify b=.*client=3'"
	run_command "$FLMEM" exchange serve --model "$MODEL" --clients 2 --mode lockstep --state state
	assert_error 2 "is of an exchange with 'verify a="
}

@test "a signal ends it while the model's SHA-256 is computed" {
	start_server --model generate:llama-3.1-405b --clients 1 --mode lockstep
	await test -d state
	kill "$SERVER"
	await_server
	[ "$CODE" -eq 7 ]
	has_line server.log 'stopped before the SHA-256'
}

@test "a model that the disk does not hold goes through a round" {
	requires root
	mkdir -m 700 state
	# shellcheck disable=SC2016 # for the inner shell
	printf '%s\n' '#!/bin/sh' 'exec unshare -m sh -c '\''mount -t tmpfs -o size=10M,mode=700 tmpfs state || exit 77
		exec "$@"'\'' - '"'$FLMEM'"' "$@"' >small-disk
	chmod +x small-disk
	unshare -m mount -t tmpfs tmpfs state || skip "needs to mount a tmpfs"
	FLMEM=$PWD/small-disk serve_verified
	"$FLMEM" exchange push -q "$URL" "$(update 1)" -c a &
	"$FLMEM" exchange push -q "$URL" "$(update 2)" -c b
	wait $!
	await_server
	[ "$CODE" -eq 0 ]
	has_line served '11699132 elements are their exact mean'
}
