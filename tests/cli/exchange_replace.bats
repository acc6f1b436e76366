#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# A client that was killed trains again: its new update has the name of the one that was begun.

load helpers
load exchange

setup() {
	exchange_setup
	make_model g.safetensors 0
	make_model a.safetensors 1
	make_model b.safetensors 2
	mkdir old
}

teardown() {
	exchange_teardown
}

# begin FILE [WEIGHT]: leaves the state of a killed push of old/FILE.
begin() {
	create c "old/$1" 0 "${2:+weight $(base64_of "$2")}"
	assert_code 201
	head -c 5000 "old/$1" >chunk
	patch 0 chunk
	assert_code 204
}

push_c() {
	run_command "$FLMEM" exchange push "$URL" --client c --round 0 --retries 0 "$@"
}

assert_replaced() {
	local begun=$LOCATION
	push_c --replace "$@"
	assert_status 0
	await_server
	[ "$CODE" -eq 0 ]
	assert_model "$(cat served)" "$1"
	[ ! -e "state/uploads/${begun##*/}.data" ]
}

@test "other content of the same length is refused, and replaced when asked" {
	serve --model g.safetensors --clients 1
	cp b.safetensors old/a.safetensors
	begin a.safetensors
	push_c a.safetensors
	assert_error 2 "has 5000 bytes of another 'a.safetensors' of this client and round; add --replace"
	assert_replaced a.safetensors
}

@test "another weight is refused, and replaced when asked" {
	serve --model g.safetensors --clients 1
	cp a.safetensors old/a.safetensors
	begin a.safetensors 5
	push_c a.safetensors --weight 6
	assert_error 2 "/v1/uploads/${LOCATION##*/}, or add --replace"
	assert_replaced a.safetensors --weight 6
}

@test "another length, and another file with another weight, are replaced when asked" {
	serve --model g.safetensors --clients 1 --rounds 2
	make_model old/a.safetensors 1 40000
	begin a.safetensors
	push_c a.safetensors
	assert_error 2 "another length, weight or SHA-256; delete that upload first"
	push_c a.safetensors --replace
	assert_status 0
	await state_is '"round":1'
	cp b.safetensors old/b.safetensors
	create c old/b.safetensors 1 "weight $(base64_of 5)"
	assert_code 201
	run_command "$FLMEM" exchange push "$URL" a.safetensors -c c -r 1 --retries 0
	assert_error 2 "another weight or number of files was begun; delete that upload first"
	run_command "$FLMEM" exchange push "$URL" a.safetensors -c c -r 1 --retries 0 --replace
	assert_status 0
	await_server
	[ "$CODE" -eq 0 ]
}

@test "in lockstep what was begun is replaced until the round begins" {
	serve --model g.safetensors --clients 1 --mode lockstep
	cp b.safetensors old/a.safetensors
	create c old/a.safetensors
	assert_code 201
	push_c a.safetensors --sha256
	assert_error 2 "or add --replace"
	push_c a.safetensors --replace
	assert_status 0
	await_server
	[ "$CODE" -eq 0 ]
	assert_model "$(cat served)" a.safetensors
}

@test "the client in Python replaces what was begun when asked" {
	serve --model g.safetensors --clients 1
	cp b.safetensors old/update.safetensors
	begin update.safetensors 5
	cat >client.py <<-'END'
		import sys
		from flmem import exchange
		with exchange.Client(sys.argv[1], client="c", retries=0) as client:
		    model = client.pull(0, framework="raw")
		    try:
		        client.push(model, round=0)
		        sys.exit("not refused")
		    except exchange.ExchangeError as refusal:
		        print(refusal.status, refusal)
		    client.push(model, round=0, replace=True)
	END
	PYTHONPATH="$FLMEM_TESTS/../libcore/bindings/python" run_command python client.py "$URL"
	assert_status 0
	[[ $output == "409 "*"another length, weight or SHA-256"*", or push with replace=True" ]]
	await_server
	[ "$CODE" -eq 0 ]
	"$FLMEM" aggregate diff "$(cat served)" g.safetensors
}

@test "a complete update is not replaced" {
	serve --model g.safetensors --clients 2
	push c a.safetensors
	assert_code 204
	cp b.safetensors old/a.safetensors
	push_c old/a.safetensors --replace
	assert_error 2 "that update is complete, and counts"
	push_c a.safetensors --replace --weight 5
	assert_error 2 "the update of 'c' is complete already"
	push_c a.safetensors
	assert_status 0
}

@test "a weight of 0 is refused before anything is sent" {
	local weight
	for weight in 0 -1 2e15 x; do
		run_command "$FLMEM" exchange push http://127.0.0.1:9 a.safetensors -c c --retries 0 "--weight=$weight"
		assert_error 2 "invalid weight '$weight'; expected a decimal number from 1e-15 to 1e15"
	done
}
