#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2153 # set by helpers and setup
# flmem exchange serve: clients that are broken or hostile.

load helpers
load exchange

setup() {
	exchange_setup
	make_model g.safetensors 1
	make_model a.safetensors 2
}

teardown() {
	exchange_teardown
}

has_bytes() {
	[ "$(cat state/uploads/*.data 2>/dev/null | wc -c)" -ge "$1" ]
}

@test "a creation that is repeated while its first request still sends" {
	local meta bytes
	serve --model g.safetensors --clients 1
	bytes=$(stat -c %s a.safetensors)
	meta="round $(base64_of 0),client $(base64_of c),filename $(base64_of a.safetensors)"
	exec {first}<>"/dev/tcp/127.0.0.1/${URL##*:}"
	printf 'POST /v1/uploads HTTP/1.1\r\nHost: x\r\nTus-Resumable: 1.0.0\r\n%s\r\n%s\r\n%s\r\n%s\r\n\r\n' \
		"Upload-Length: $bytes" "Upload-Metadata: $meta" \
		"Content-Type: application/offset+octet-stream" "Content-Length: 65536" >&"$first"
	head -c 1000 a.safetensors >&"$first"
	await has_bytes 1000
	head -c 65536 a.safetensors >chunk
	create c a.safetensors 0 '' "${CHUNK[@]}" --data-binary @chunk
	assert_code 201
	exec {first}>&-
	offset
	[ "$OFFSET" -eq 1000 ] || [ "$OFFSET" -eq 65536 ]
	push_rest a.safetensors 100000
	await_server
	[ "$CODE" -eq 0 ]
	assert_model "$(cat served)" a.safetensors
}

# Of a client that begins two files of an update of one: the first that is complete counts.
@test "more files than an update has do not lose it at a restart" {
	serve --model g.safetensors --clients 2
	cp a.safetensors b.safetensors
	create c a.safetensors
	first=$LOCATION
	create c b.safetensors
	second=$LOCATION
	LOCATION=$first
	patch 0 a.safetensors
	assert_code 204
	LOCATION=$second
	patch 0 b.safetensors
	[ "$CODE" = 404 ] || [ "$CODE" = 409 ]
	await state_is '"complete": *1'
	kill_server
	serve --model g.safetensors --clients 2
	await state_is '"complete": *1'
	push d a.safetensors
	assert_code 204
	await_server
	[ "$CODE" -eq 0 ]
	assert_model "$(cat served)" a.safetensors a.safetensors
}
