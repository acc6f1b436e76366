#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# flmem exchange serve, killed with uploads under way.
# shellcheck disable=SC2030,SC2031,SC2153 # each test has its own shell, and sets what others do

load helpers
load exchange

setup() {
	exchange_setup
	make_model g.safetensors 0
	make_model a.safetensors 1
	make_model b.safetensors 2
}

teardown() {
	exchange_teardown
}

@test "a kill at any moment of an upload costs what was in flight" {
	make_model big.safetensors 5 2000000
	make_model g.safetensors 0 2000000
	serve --model g.safetensors --clients 1
	create c big.safetensors
	for moment in 0 0.01 0.03 0.1; do
		offset
		before=$OFFSET
		tail -c "+$((OFFSET + 1))" big.safetensors | head -c 1500000 >chunk
		# The rate limit keeps the request in flight; the moment is arbitrary on purpose.
		curl -s -o /dev/null -X PATCH "${TUS[@]}" "${CHUNK[@]}" -H "Upload-Offset: $OFFSET" \
			--limit-rate 8M -T chunk "$URL$LOCATION" &
		client=$!
		sleep "$moment"
		kill_server
		wait $client || true
		serve --model g.safetensors --clients 1
		offset
		[ "$OFFSET" -ge "$before" ]
	done
	push_rest big.safetensors 1000000
	await_server
	[ "$CODE" -eq 0 ]
	assert_model "$(cat served)" big.safetensors
}

@test "a kill at any moment of combining" {
	make_model g.safetensors 0 3000000
	make_model a.safetensors 1 3000000
	make_model b.safetensors 2 3000000
	for moment in 0 0.005 0.02 0.05 0.1 0.2; do
		rm -rf state
		serve --model g.safetensors --clients 2
		push a a.safetensors
		create b b.safetensors
		patch 0 b.safetensors &
		client=$!
		await has_line server.log combining
		sleep "$moment"
		kill_server
		wait $client || true
		serve --model g.safetensors --clients 2
		await_server
		[ "$CODE" -eq 0 ]
		assert_model state/rounds/1/model/g.safetensors a.safetensors b.safetensors
	done
	# A copy made meanwhile may have the journal from before the part was begun.
	rm -r state/rounds/1
	mkdir -p state/rounds/1/model # with the umask of the setup
	: >state/rounds/1/model/g.safetensors.part.journal
	head -c 5000 a.safetensors >state/rounds/1/model/g.safetensors.part
	mkdir state/rounds/0/updates
	for client in a b; do
		mkdir "state/rounds/0/updates/$client"
		cp "$client.safetensors" "state/rounds/0/updates/$client"
	done
	serve --model g.safetensors --clients 2
	await_server
	[ "$CODE" -eq 0 ]
	assert_model state/rounds/1/model/g.safetensors a.safetensors b.safetensors
}

@test "a kill while an optimizer makes its step" {
	make_model g.safetensors 0 1000000
	make_model a.safetensors 1 1000000
	"$FLMEM" aggregate -q -a fedadam --state s --base g.safetensors -o one.safetensors a.safetensors
	for moment in 0 0.02 0.05 0.1; do
		rm -rf state
		serve --model g.safetensors --clients 1 --algorithm fedadam
		create a a.safetensors
		patch 0 a.safetensors &
		client=$!
		await has_line server.log combining
		sleep "$moment"
		kill_server
		wait $client || true
		serve --model g.safetensors --clients 1 --algorithm fedadam
		await_server
		[ "$CODE" -eq 0 ]
		cmp one.safetensors state/rounds/1/model/g.safetensors
		"$FLMEM" aggregate diff s state/rounds/1/optimizer.safetensors
	done
}
