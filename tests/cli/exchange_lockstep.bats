#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2016 # conditions are evaluated while they are waited for
# flmem exchange serve --mode lockstep: updates are combined while they arrive.

load helpers
load exchange

setup() {
	exchange_setup
	make_model g.safetensors 0
	make_model a.safetensors 1
	make_model b.safetensors 2
}

teardown() {
	jobs -p | xargs -r kill 2>/dev/null || true
	exchange_teardown
}

# True if the server has only headers of the updates.
has_no_spool() {
	[ "$(find state/uploads -type f -printf '%k\n' | awk '{s += $1} END {print s + 0}')" -lt 50 ]
}

@test "two rounds: the bytes are those of flmem aggregate, and nothing is spooled" {
	serve --model g.safetensors --clients 2 --rounds 2 --mode lockstep
	"$FLMEM" exchange push -q "$URL" b.safetensors -c site-b -w 1200 &
	await state_is '"complete":1'
	has_no_spool
	"$FLMEM" exchange push -q "$URL" a.safetensors -c site-a -w 600.5
	wait $!
	cp state/rounds/1/model/g.safetensors first.safetensors
	assert_model first.safetensors --weights 600.5,1200 a.safetensors b.safetensors
	"$FLMEM" exchange push -q "$URL" a.safetensors -c site-b -r 1 &
	"$FLMEM" exchange push -q "$URL" b.safetensors -c site-a -r 1
	await_server
	[ "$CODE" -eq 0 ]
	assert_model "$(cat served)" b.safetensors a.safetensors
}

@test "curl sends a whole update in one request, with and without a checksum of another client" {
	serve --model g.safetensors --clients 2 --mode lockstep --algorithm median
	"$FLMEM" exchange push -q "$URL" b.safetensors -c b --chunk 7777 &
	push a a.safetensors
	assert_code 204
	[ "$(header Upload-Offset)" -eq "$(stat -c %s a.safetensors)" ]
	await_server
	"$FLMEM" aggregate -q -a median -o expected.safetensors a.safetensors b.safetensors
	cmp expected.safetensors "$(cat served)"
}

@test "a larger model than all windows: the client that is ahead waits" {
	make_model g.safetensors 0 9000000
	make_model a.safetensors 1 9000000
	make_model b.safetensors 2 9000000
	serve --model g.safetensors --clients 2 --mode lockstep
	"$FLMEM" exchange push -q "$URL" a.safetensors -c a &
	create b b.safetensors
	head -c 1000000 b.safetensors >part
	patch 0 part
	assert_code 204
	kill_server
	serve --model g.safetensors --clients 2 --mode lockstep --listen "${URL#http://}"
	push_rest b.safetensors 3000000
	await_server
	[ "$CODE" -eq 0 ]
	assert_model "$(cat served)" a.safetensors b.safetensors
}

@test "what lockstep cannot do is refused with the reason" {
	local algorithm
	for algorithm in krum multi-krum bulyan norm-clipped-mean; do
		run_command "$FLMEM" exchange serve --model g.safetensors --clients 9 --state s \
			--mode lockstep --algorithm "$algorithm"
		assert_error 2 'compares whole updates'
	done
	run_command "$FLMEM" exchange serve --model g.safetensors --clients 2 --state s \
		--mode lockstep --nan skip-client
	assert_error 2 'cannot be left out'
	[ ! -e s ]
	serve --model g.safetensors --clients 2 --mode lockstep
	request POST /v1/uploads -H "Upload-Length: 10" -H "Upload-Concat: partial" \
		-H "Upload-Metadata: client $(base64_of a)"
	assert_code 400 'one file in one upload'
	make_model short.safetensors 3 49999
	push a short.safetensors
	assert_code 422
	printf 'not a model at all, but long enough' >text
	push a text
	assert_code 422
	create a a.safetensors
	patch 0 a.safetensors -H "Upload-Checksum: crc32c AAAAAA=="
	assert_code 460
	offset
	[ "$OFFSET" -eq 0 ]
}

@test "a deadline: the round begins without those who never came, and names those who are behind" {
	serve --model g.safetensors --clients 3 --quorum 2 --deadline 12s --mode lockstep
	"$FLMEM" exchange push -q "$URL" a.safetensors -c a &
	"$FLMEM" exchange push -q "$URL" b.safetensors -c b
	await_server
	[ "$CODE" -eq 0 ]
	assert_model "$(cat served)" a.safetensors b.safetensors
	rm -r state
	serve --model g.safetensors --clients 2 --deadline 12s --mode lockstep
	"$FLMEM" exchange push -q --retries 0 "$URL" a.safetensors -c a 2>pushed &
	local pusher=$!
	head -c 100000 b.safetensors >part
	create slow b.safetensors
	patch 0 part
	await_server
	[ "$CODE" -eq 7 ]
	wait "$pusher" && fail "accepted"
	has_line pushed 'exchange has failed.*waited for the data of slow'
	has_line server.log 'waited for the data of slow'
	serve --model g.safetensors --clients 2 --deadline 12s --mode lockstep
	"$FLMEM" exchange push -q "$URL" a.safetensors -c a &
	push_rest b.safetensors 50000
	await_server
	assert_model "$(cat served)" a.safetensors b.safetensors
}

@test "clients whose update is larger than their window have the time of a deadline from when the round begins" {
	make_model g.safetensors 0 1500000
	make_model a.safetensors 1 1500000
	serve --model g.safetensors --clients 2 --quorum 1 --deadline 3s --mode lockstep
	"$FLMEM" exchange push -q --retries 0 "$URL" a.safetensors -c a
	await_server
	[ "$CODE" -eq 0 ]
	assert_model "$(cat served)" a.safetensors
}

@test "clients in Python, whose tensors have the order of their program" {
	cat >client.py <<-'END'
		import sys
		from flmem import exchange
		with exchange.Client(sys.argv[1], client=sys.argv[2]) as client:
		    found = client.pull(0, framework="raw")
		    client.push({name: found[name] for name in sorted(found, reverse=True)})
	END
	PYTHONPATH="$FLMEM_TESTS/../libcore/bindings/python" python - <<-'END'
		from flmem import exchange, _safetensors
		values = {name: exchange.Tensor("F32", (2,), bytes(8)) for name in ("0.bias", "0.weight", "1.weight")}
		_safetensors.write("p.safetensors", [(n, _safetensors.of_value(n, v)) for n, v in values.items()])
	END
	serve --model p.safetensors --clients 2 --mode lockstep
	PYTHONPATH="$FLMEM_TESTS/../libcore/bindings/python" /usr/bin/python3 -B client.py "$URL" a &
	PYTHONPATH="$FLMEM_TESTS/../libcore/bindings/python" run_command python client.py "$URL" b
	assert_status 0
	await_server
	[ "$CODE" -eq 0 ]
	"$FLMEM" aggregate diff "$(cat served)" p.safetensors
}

@test "a NaN ends the exchange with the name of its client" {
	python - <<-'END'
		data = bytearray(open("b.safetensors", "rb").read())
		data[-4:] = b"\0\0\xc0\x7f"
		open("nan.safetensors", "wb").write(data)
	END
	serve --model g.safetensors --clients 2 --mode lockstep
	"$FLMEM" exchange push -q "$URL" a.safetensors -c a 2>pushed &
	run_command "$FLMEM" exchange push -q "$URL" nan.safetensors -c bad
	assert_status 2
	await_server
	[ "$CODE" -eq 2 ]
	has_line server.log 'failed.*bad.*nan\|failed.*bad.*NaN'
}

# The state after a power failure: one chunk is lost, while chunks written after it are not.
@test "a chunk that was lost is combined again, with intact ones behind it" {
	local part=state/rounds/1/model/g.safetensors.part
	make_model g.safetensors 0 6000000
	make_model a.safetensors 1 6000000
	make_model b.safetensors 2 6000000
	serve --model g.safetensors --clients 2 --mode lockstep
	"$FLMEM" exchange push -q "$URL" a.safetensors -c a 2>pushed &
	create b b.safetensors
	head -c 20000000 b.safetensors >chunk
	patch 0 chunk
	assert_code 204
	# The journal has a head of 16 bytes, and as many bytes for each chunk of 1 MiB.
	await eval '[ "$(stat -c %s $part.journal)" -ge $((16 * 17)) ]'
	kill_server
	head -c 4096 /dev/zero | tr '\0' '\377' | dd of="$part" bs=4096 seek=600 conv=notrunc status=none
	serve --model g.safetensors --clients 2 --mode lockstep --listen "${URL#http://}"
	push_rest b.safetensors 2000000
	await_server
	[ "$CODE" -eq 0 ]
	assert_model "$(cat served)" a.safetensors b.safetensors
}

@test "until the round begins, a file of another name replaces that of a killed client" {
	serve --model g.safetensors --clients 2 --mode lockstep
	cp b.safetensors old.safetensors
	create a old.safetensors
	head -c 1000 old.safetensors >chunk
	patch 0 chunk
	assert_code 204
	"$FLMEM" exchange push -q "$URL" a.safetensors -c a --retries 0 &
	await eval '[ ! -e "state/uploads/${LOCATION##*/}.data" ]'
	"$FLMEM" exchange push -q "$URL" b.safetensors -c b
	await_server
	[ "$CODE" -eq 0 ]
	assert_model "$(cat served)" a.safetensors b.safetensors
}

@test "once the round has begun, its deadline does, and a file of another name is refused" {
	local opened
	serve --model g.safetensors --clients 2 --mode lockstep --deadline 100s
	opened=$(<state/rounds/0/opened)
	cp a.safetensors old.safetensors
	create a old.safetensors
	head -c 1000 old.safetensors >chunk
	patch 0 chunk
	assert_code 204
	[ "$(<state/rounds/0/opened)" = "$opened" ]
	"$FLMEM" exchange push -q "$URL" b.safetensors -c b 3>&- &
	await has_line server.log 'round 0: combining'
	# Data beyond the windows can only be sent now: all clients have the time of the deadline
	# for them.
	[ "$(<state/rounds/0/opened)" != "$opened" ]
	run_command "$FLMEM" exchange push "$URL" b.safetensors -c a --retries 0
	assert_error 2 "with 'old.safetensors' of 'a'"
	run_command "$FLMEM" exchange push "$URL" b.safetensors -c c --retries 0
	assert_error 2 "without 'c'"
	push_rest old.safetensors 1000000
	await_server
	[ "$CODE" -eq 0 ]
	assert_model "$(cat served)" a.safetensors b.safetensors
}

@test "a client that waits for others is not idle" {
	make_model g.safetensors 0 3000000
	make_model a.safetensors 1 3000000
	serve --model g.safetensors --clients 2 --mode lockstep --idle-timeout 2s
	create a a.safetensors
	patch 0 a.safetensors &
	sleep 5 # more than the limit, less than the time that a request waits
	"$FLMEM" exchange push -q "$URL" a.safetensors -c b
	wait $!
	await_server
	[ "$CODE" -eq 0 ]
}

# The header is settled between the check of DELETE and the removal; strace prolongs that moment.
@test "an update that joins its round while it is deleted stays" {
	local tracer
	command -v strace >/dev/null || skip "needs strace"
	serve --model g.safetensors --clients 1 --mode lockstep
	create a a.safetensors
	strace -f -q -o trace -e trace=fdatasync -e inject=fdatasync:delay_enter=2000000:when=1 \
		-p "$SERVER" 3>&- &
	tracer=$!
	await eval '[ "$(awk "/TracerPid/ {print \$2}" "/proc/$SERVER/status")" -ne 0 ]'
	head -c 1000 a.safetensors >chunk
	curl -s -o /dev/null -X PATCH "${TUS[@]}" "${CHUNK[@]}" -H "Upload-Offset: 0" -T chunk \
		"$URL$LOCATION" 3>&- &
	await eval '[ "$(stat -c %s "state/uploads/${LOCATION##*/}.data")" -gt 1000 ]'
	request DELETE "$LOCATION"
	assert_code 409 'counts for its round'
	kill "$tracer" || true
	wait "$tracer" || true
	push_rest a.safetensors 1000000
	await_server
	[ "$CODE" -eq 0 ]
	assert_model "$(cat served)" a.safetensors
}

@test "an upload that is too short for a header is refused at once" {
	: >empty
	printf 123456789 >short
	serve --model g.safetensors --clients 1 --mode lockstep
	create c empty
	assert_code 422 'too short'
	create c short
	assert_code 422 'too short'
	create c a.safetensors
	assert_code 201
}
