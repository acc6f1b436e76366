#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# flmem exchange serve with curl as the client.
# shellcheck disable=SC2030,SC2031,SC2153 # each test has its own shell, and sets what others do

load helpers
load exchange

setup() {
	exchange_setup
	make_model g.safetensors 0
	make_model a.safetensors 1
	make_model b.safetensors 2
}

has_open_data() {
	find "/proc/$SERVER/fd" -lname '*.data' | grep -q .
}

teardown() {
	exchange_teardown
}

crc32c_of() {
	local hex
	hex=$("$FLMEM" aggregate inspect --json "$1" |
		python -c 'import json,sys; print(json.load(sys.stdin)["models"][0]["files"][0]["crc32c"])')
	printf "%b" "\\x${hex:0:2}\\x${hex:2:2}\\x${hex:4:2}\\x${hex:6:2}" | base64 -w0
}

@test "two rounds of two clients: the bytes are those of flmem aggregate" {
	local late
	serve --model g.safetensors --clients 2 --rounds 2
	create site-z a.safetensors
	head -c 1000 a.safetensors >chunk
	patch 0 chunk
	late=$LOCATION
	push site-b b.safetensors 0 "weight $(base64_of 1200)"
	assert_code 204
	push site-a a.safetensors 0 "weight $(base64_of 600.5)"
	assert_code 204
	request GET "/v1/status?after=0&wait=60"
	assert_code 200 '"published_round":1'
	request HEAD "$late"
	assert_code 404
	[ -z "$(find state/uploads -name '*.data')" ]
	request GET /v1/rounds/latest/model/g.safetensors
	assert_code 200
	cp body first.safetensors
	assert_model first.safetensors --weights 600.5,1200 a.safetensors b.safetensors
	push site-a b.safetensors 1
	push site-b a.safetensors 1
	await_server
	[ "$CODE" -eq 0 ]
	assert_model "$(cat served)" b.safetensors a.safetensors
}

@test "a checksum of each kind; after a wrong one nothing is kept" {
	serve --model g.safetensors --clients 1
	create c a.safetensors
	patch 0 a.safetensors -H "Upload-Checksum: sha1 $(base64_of 01234567890123456789)"
	assert_code 460
	[ "$(header Tus-Resumable)" = 1.0.0 ]
	offset
	[ "$OFFSET" -eq 0 ]
	patch 0 a.safetensors -H "Upload-Checksum: crc32c AAAAAA=="
	assert_code 460
	patch 0 a.safetensors -H "Upload-Checksum: md5 AAAAAA=="
	assert_code 400 'choose from'
	head -c 1000 a.safetensors >one
	patch 0 one -H "Upload-Checksum: sha1 $(openssl dgst -sha1 -binary one | base64 -w0)"
	assert_code 204
	tail -c +1001 a.safetensors | head -c 1000 >two
	patch 1000 two -H "Upload-Checksum: sha256 $(openssl dgst -sha256 -binary two | base64 -w0)"
	assert_code 204
	request DELETE "$LOCATION"
	assert_code 204
	create c a.safetensors
	patch 0 a.safetensors -H "Upload-Checksum: crc32c $(crc32c_of a.safetensors)"
	assert_code 204
	await_server
	[ "$CODE" -eq 0 ]
	assert_model "$(cat served)" a.safetensors
}

@test "wrong offsets and lengths" {
	serve --model g.safetensors --clients 1 --max-request 150000
	create c a.safetensors
	patch 0 a.safetensors
	assert_code 413 'at most 150000'
	patch 0 a.safetensors -H "Transfer-Encoding: chunked"
	assert_code 413
	head -c 1000 a.safetensors >part
	patch 7 part
	assert_code 409 'is 0'
	patch 0 part
	assert_code 204
	patch 0 part
	assert_code 409 'is 1000'
	patch x part
	assert_code 400
	cat a.safetensors >long
	truncate -s 149999 long
	patch 1000 long
	assert_code 204
	# Send more bytes than are missing, announced and not.
	patch 150999 long
	assert_code 413
	patch 150999 long -H "Transfer-Encoding: chunked"
	assert_code 413
	offset
	[ "$OFFSET" -eq 150999 ]
	request POST /v1/uploads -H "Upload-Length: -1" -H "Upload-Metadata: client Yw==,round MA==,filename YQ=="
	assert_code 400
	request POST /v1/uploads -H "Upload-Length: 99999999999999999999" -H "Upload-Metadata: client Yw==,round MA==,filename YQ=="
	assert_code 400
	request POST /v1/uploads -H "Upload-Length: 99999999999" -H "Upload-Metadata: client Yw==,round MA==,filename YQ=="
	assert_code 413 quota
	request PATCH "$LOCATION" "${CHUNK[@]}" -H "Upload-Offset: 150999" -H "Content-Length: 5" \
		-H "Content-Length: 6" --data-binary x
	assert_code 400
	TUS=()
	request HEAD "$LOCATION"
	assert_code 412
	request OPTIONS /v1/uploads
	assert_code 204
	[ "$(header Tus-Version)" = 1.0.0 ]
	[[ $(header Tus-Extension) == *concatenation* ]]
}

@test "an update that does not fit is refused with its reason, and can be sent again" {
	serve --model g.safetensors --clients 1
	make_model other.safetensors 3 49999
	push c other.safetensors
	assert_code 422 "'layer.weight' is F32 .* in the model, but"
	refute_line body "$PWD"
	sed 's/layer.weight/layer.height/' a.safetensors >other.safetensors
	push c other.safetensors
	assert_code 422 "the model has no tensor 'layer.height', which 'rounds/0/.*' has"
	head -c 50000 /dev/urandom >noise
	push c noise
	assert_code 422
	create c a.safetensors 0 "sha256 $(base64_of "$(sha256sum <b.safetensors | head -c 64)")"
	patch 0 a.safetensors
	assert_code 422 'SHA-256'
	: >empty
	create c empty
	assert_code 422
	[ -z "$(ls state/uploads)" ]
	push c a.safetensors
	assert_code 204
	await_server
	[ "$CODE" -eq 0 ]
	assert_model "$(cat served)" a.safetensors
}

@test "the same upload again, another one of the same client, and late ones" {
	serve --model g.safetensors --clients 2 --rounds 2
	create c a.safetensors
	assert_code 201
	first=$LOCATION
	patch 0 <(head -c 5000 a.safetensors) -H "Transfer-Encoding: chunked"
	assert_code 204
	create c a.safetensors
	assert_code 201
	[ "$LOCATION" = "$first" ]
	[ "$(header Upload-Offset)" -eq 5000 ]
	make_model more.safetensors 4 60000
	cp more.safetensors a.safetensors.more && mkdir x && mv a.safetensors.more x/a.safetensors
	create c x/a.safetensors
	assert_code 409
	LOCATION=$first
	push_rest a.safetensors 90000
	create c b.safetensors
	assert_code 409 complete
	LOCATION=$first
	request DELETE "$LOCATION"
	assert_code 409
	create d b.safetensors 1
	assert_code 409 'round has not begun'
	push d b.safetensors
	request GET "/v1/status?after=0&wait=60"
	assert_code 200 '"round":1'
	create e a.safetensors
	assert_code 409 'round is over'
	# A client that lost the last answer learns that the update counted.
	create c a.safetensors
	assert_code 201
	[ "$(header Upload-Offset)" -eq "$(stat -c %s a.safetensors)" ]
}

@test "names that are paths" {
	serve --model g.safetensors --clients 1
	for name in ../x /etc/passwd .. . .hidden a/b 'a b' "$(printf 'x%.0s' {1..65})"; do
		request POST /v1/uploads -H "Upload-Length: 5" \
			-H "Upload-Metadata: client Yw==,round MA==,filename $(base64_of "$name")"
		assert_code 400 filename
	done
	for name in .. . a/b '' 'é'; do
		request POST /v1/uploads -H "Upload-Length: 5" \
			-H "Upload-Metadata: filename Yw==,round MA==,client $(base64_of "$name")"
		assert_code 400 client
	done
	request POST /v1/uploads -H "Upload-Length: 5" -H "Upload-Metadata: filename YQBi,round MA==,client Yw=="
	assert_code 400
	for path in /v1/rounds/0/model/../../../exchange /v1/rounds/0/model/%2e%2e%2findex \
		/v1/rounds/0/model//etc/passwd /v1/rounds/../exchange /v1/rounds/0/modelx \
		/v1/rounds/-1/model /v1/rounds/9/model /v1/uploads/../../exchange /v1/x /; do
		request GET "$path"
		[ "$CODE" = 404 ] || [ "$CODE" = 405 ]
	done
	request PATCH "/v1/uploads/..%2f..%2fexchange" "${CHUNK[@]}" -H "Upload-Offset: 0" -d x
	assert_code 404
	request DELETE /v1/uploads/%00
	assert_code 400
	find state -type f | sort >found
	printf 'state/exchange\nstate/rounds/0/index\n' | cmp - found
}

@test "the model: ranges, entity tags, digests" {
	serve --model g.safetensors --clients 1
	sum=$(sha256sum <g.safetensors | head -c 64)
	request GET /v1/rounds/latest/model
	assert_code 200 "\"sha256\":\"$sum\""
	file=/v1/rounds/0/model/g.safetensors
	request GET $file
	cmp body g.safetensors
	[ "$(header ETag)" = "\"$sum\"" ]
	[ "$(header Repr-Digest)" = "sha-256=:$(openssl dgst -sha256 -binary g.safetensors | base64 -w0):" ]
	request HEAD $file -r 100-199
	assert_code 200
	[ "$(header Content-Length)" -eq "$(stat -c %s g.safetensors)" ]
	request GET $file -r 100-199
	assert_code 206
	cmp body <(tail -c +101 g.safetensors | head -c 100)
	[ "$(header Content-Range)" = "bytes 100-199/$(stat -c %s g.safetensors)" ]
	request GET $file -r 1000-
	cmp body <(tail -c +1001 g.safetensors)
	request GET $file -r -10
	assert_code 206
	cmp body <(tail -c 10 g.safetensors)
	request GET $file -r 99999999-
	assert_code 416
	request GET $file -r 0-1,5-6
	assert_code 200
	request GET $file -r 100-199 -H "If-Range: \"$sum\""
	assert_code 206
	request GET $file -r 100-199 -H 'If-Range: "other"'
	assert_code 200
	request GET $file -H "If-None-Match: \"x\", W/\"$sum\""
	assert_code 304
	request GET $file -H "If-None-Match: *"
	assert_code 304
	request GET $file -H "If-Match: \"x\", \"$sum\"" -r 1-2
	assert_code 206
	request GET $file -H "If-Match: W/\"$sum\""
	assert_code 412 "another entity tag"
	cp -p g.safetensors copy
	mv copy g.safetensors
	request GET $file
	assert_code 500 changed
	refute_line body "$PWD"
}

@test "tokens bind a client to its name" {
	printf '# sites\nsite-a %s\nsite-b %s\n' 0123456789abcdef fedcba9876543210 >tokens
	chmod 644 tokens
	flmem exchange serve --model g.safetensors --clients 1 --state state --token-file tokens
	assert_error 2 "every user can read"
	chmod 600 tokens
	serve --model g.safetensors --clients 2 --token-file tokens
	request GET /v1/status
	assert_code 401
	[ "$(header WWW-Authenticate)" = Bearer ]
	request GET /v1/openapi.json
	assert_code 200
	AUTH=(-H "Authorization: Bearer 0123456789abcdeX")
	request GET /v1/rounds/0/model/g.safetensors
	assert_code 401
	AUTH=(-H "Authorization: Bearer 0123456789abcdef")
	create site-b a.safetensors
	assert_code 403
	create site-a a.safetensors
	assert_code 201
	mine=$LOCATION
	AUTH=(-H "Authorization: Bearer fedcba9876543210")
	request HEAD "$mine"
	assert_code 404
	patch 0 a.safetensors
	assert_code 404
	request DELETE "$mine"
	assert_code 404
	# The name may be omitted.
	request POST /v1/uploads -H "Upload-Length: $(stat -c %s b.safetensors)" \
		-H "Upload-Metadata: round MA==,filename YQ==" "${CHUNK[@]}" --data-binary @b.safetensors
	assert_code 201
	request GET /v1/status
	assert_code 200 '"names":\["site-b"\]'
	AUTH=(-H "Authorization: Bearer 0123456789abcdef")
	request GET /v1/status
	assert_code 200 '"names":\[\]'
	refute_line server.log 0123456789abcdef
}

@test "SIGTERM ends it, the same command continues, another one is refused" {
	serve --model g.safetensors --clients 2 --json
	push a a.safetensors
	create b b.safetensors
	patch 0 <(head -c 5000 b.safetensors) -H "Transfer-Encoding: chunked"
	assert_code 204
	flmem exchange serve --model g.safetensors --clients 2 --state state --listen 127.0.0.1:0
	assert_error 2 "another server"
	kill "$SERVER"
	await_server
	[ "$CODE" -eq 0 ]
	grep -q '"stopped":[[:space:]]*true' served
	grep -q 'round 0: stopped: the same command continues$' server.log
	flmem exchange serve --model g.safetensors --clients 3 --state state --listen 127.0.0.1:0
	assert_error 2 "'clients 2', but now it is 'clients 3'"
	flmem exchange serve --model a.safetensors --clients 2 --state state --listen 127.0.0.1:0
	assert_error 2 "has changed since .*another file name"
	mkdir other && cp a.safetensors other/g.safetensors
	flmem exchange serve --model other/g.safetensors --clients 2 --state state --listen 127.0.0.1:0
	assert_error 2 "has changed since .*other bytes"
	serve --model g.safetensors --clients 2
	request GET /v1/status
	assert_code 200 '"complete":1'
	push_rest b.safetensors 100000
	await_server
	[ "$CODE" -eq 0 ]
	assert_model "$(cat served)" a.safetensors b.safetensors
}

# Starts another server, for which the deadline of the round has passed.
pass_deadline() {
	kill_server
	printf 1 >state/rounds/0/opened
	serve_quorum
}

# The server stays long enough at its end for a request on a busy machine.
serve_quorum() {
	serve --model g.safetensors --clients 3 --quorum 2 --deadline 1h --settle 8s
}

@test "a quorum at the deadline, and a round without one" {
	serve_quorum
	request GET /v1/status
	assert_code 200 '"deadline_s":3[56]'
	push a a.safetensors
	create c a.safetensors
	pass_deadline
	request GET "/v1/status?after=0&wait=60"
	assert_code 200 '"phase":"failed"'
	assert_code 200 'had 1 of 2 updates'
	[[ $(<body) != *"$PWD"* ]]
	create b b.safetensors
	assert_code 409 'exchange has failed.*had 1 of 2 updates'
	await_server
	[ "$CODE" -eq 7 ]
	# Complete updates still count, and the time begins again.
	serve_quorum
	request GET /v1/status
	assert_code 200 '"complete":1'
	assert_code 200 '"phase":"collecting"'
	push b b.safetensors
	pass_deadline
	request GET "/v1/status?after=0&wait=60"
	assert_code 200 '"published_round":1'
	await_server
	[ "$CODE" -eq 0 ]
	assert_model "$(cat served)" a.safetensors b.safetensors
	flmem exchange serve --model g.safetensors --clients 3 --quorum 2 --state s
	assert_error 2 "needs --deadline"
}

@test "parts that were sent in parallel" {
	serve --model g.safetensors --clients 1 --settle 8s
	split -n 3 a.safetensors part-
	local last parts=
	for part in part-a?; do
		request POST /v1/uploads -H "Upload-Concat: partial" \
			-H "Upload-Length: $(stat -c %s "$part")" -H "Upload-Metadata: client Yw=="
		assert_code 201
		LOCATION=$(header Location)
		parts+="${parts:+ }$URL$LOCATION"
		[ "$part" = part-ac ] || patch 0 "$part"
	done
	final() {
		request POST /v1/uploads -H "Upload-Concat: final;$parts" \
			-H "Upload-Metadata: client Yw==,round MA==,filename YQ=="
	}
	final
	assert_code 409 'not a complete part'
	last=$LOCATION
	# The refusal of an update has a reason.
	make_model other.safetensors 3 49999
	request POST /v1/uploads -H "Upload-Concat: partial" \
		-H "Upload-Length: $(stat -c %s other.safetensors)" -H "Upload-Metadata: client Yw=="
	LOCATION=$(header Location)
	patch 0 other.safetensors
	request POST /v1/uploads -H "Upload-Concat: final;$URL$LOCATION" \
		-H "Upload-Metadata: client Yw==,round MA==,filename YQ=="
	assert_code 422 'layer.weight'
	LOCATION=$last
	patch 0 part-ac
	final
	assert_code 201
	LOCATION=$(header Location)
	# The answer may be lost.
	final
	[ "$(header Location)" = "$LOCATION" ]
	await_server
	[ "$CODE" -eq 0 ]
	assert_model "$(cat served)" a.safetensors
}

@test "slow, silent and many connections" {
	serve --model g.safetensors --clients 1 --idle-timeout 2s --connections 3
	exec {silent}<>"/dev/tcp/127.0.0.1/${URL##*:}"
	# The server has ended the connection: a read returns.
	! read -r -t 60 -u "$silent" || false
	exec {slow}<>"/dev/tcp/127.0.0.1/${URL##*:}"
	create c a.safetensors
	printf 'PATCH %s HTTP/1.1\r\nHost: x\r\nTus-Resumable: 1.0.0\r\nUpload-Offset: 0\r\n%s\r\n%s\r\n\r\n' \
		"$LOCATION" "Content-Type: application/offset+octet-stream" "Content-Length: 1000" >&"$slow"
	printf 'x' >&"$slow"
	! read -r -t 60 -u "$slow" || false
	await has_offset 1
	exec {one}<>"/dev/tcp/127.0.0.1/${URL##*:}" {two}<>"/dev/tcp/127.0.0.1/${URL##*:}" \
		{three}<>"/dev/tcp/127.0.0.1/${URL##*:}"
	request GET /metrics
	[ "$CODE" = 503 ] || [ "$CODE" = 200 ]
	exec {one}>&- {two}>&- {three}>&-
	await answers_metrics
	grep -q '^flmem_exchange_slow_connections_total [1-9]' body
	tail -n 1 body | grep -q '^# EOF$'
}

has_offset() {
	offset && [ "$OFFSET" -eq "$1" ]
}

answers_metrics() {
	request GET /metrics
	[ "$CODE" = 200 ]
}

@test "a full disk" {
	[ "$(id -u)" -eq 0 ] || skip "needs root to mount a file system"
	mkdir small
	mount -t tmpfs -o size=1M,mode=700 none small 2>/dev/null || skip "may not mount"
	"$FLMEM" exchange serve --model g.safetensors --clients 2 --listen 127.0.0.1:0 --state small \
		--reserve 1K --settle 300ms >served 2>server.log 3>&- &
	SERVER=$!
	await has_line server.log 'listening at'
	URL=$(sed -n 's/.*listening at //p' server.log)
	push a a.safetensors
	code=$CODE
	create b b.safetensors
	created=$CODE
	# Another program fills the disk meanwhile.
	head -c 2M /dev/zero >small/rest 2>/dev/null || true
	patch 0 b.safetensors
	full=$CODE
	rm small/rest
	offset
	push_rest b.safetensors 70000
	await_server
	served=$CODE
	assert_model "$(cat served)" a.safetensors b.safetensors && same=yes
	umount -l small
	[ "$code $created $full $served $same" = "204 201 507 0 yes" ]
}

@test "too little space for an upload" {
	"$FLMEM" exchange serve --model g.safetensors --clients 2 --listen 127.0.0.1:0 --state state \
		--reserve 1PiB >served 2>server.log 3>&- &
	SERVER=$!
	await has_line server.log 'listening at'
	URL=$(sed -n 's/.*listening at //p' server.log)
	create a a.safetensors
	assert_code 507 'free disk space'
}

@test "an algorithm with a state, over two rounds" {
	serve --model g.safetensors --clients 2 --rounds 2 --algorithm fedadam
	push a a.safetensors
	push b b.safetensors
	request GET "/v1/status?after=0&wait=60"
	push a b.safetensors 1
	push b a.safetensors 1
	await_server
	"$FLMEM" aggregate -q -a fedadam --state s --base g.safetensors -o one.safetensors a.safetensors b.safetensors
	"$FLMEM" aggregate -q -a fedadam --state s -o two.safetensors b.safetensors a.safetensors
	cmp two.safetensors "$(cat served)"
}

@test "an algorithm that cannot work is refused before clients send anything" {
	flmem exchange serve --model g.safetensors --clients 2 --state s --algorithm krum
	assert_error 2 krum
	# Nothing of the refused command is kept.
	flmem exchange serve --model a.safetensors --clients 2 --state s --trim 0.3
	assert_error 2 "trims nothing; --trim is for trimmed-mean"
	flmem exchange serve --model g.safetensors --clients 2 --state u --algorithm sum
	assert_error 2 "adds integers"
	flmem exchange serve --model g.safetensors --clients 2 --state v --trim 1x
	assert_error 2 "for --trim"
}

@test "a model of several files" {
	"$FLMEM" aggregate generate -q --shape resnet18 -o one.safetensors
	"$FLMEM" aggregate generate -q --shape resnet18 --client 1 -o whole.safetensors
	"$FLMEM" aggregate convert --help | grep -q shard || skip "cannot make shards"
	"$FLMEM" aggregate convert --shard-size 20M -o model one.safetensors >/dev/null
	"$FLMEM" aggregate convert --shard-size 20M -o update whole.safetensors >/dev/null
	serve --model model --clients 1
	request GET /v1/rounds/0/model
	assert_code 200 model.safetensors.index.json
	count=$(find update -type f | wc -l)
	for file in update/*; do
		push c "$file" 0 "files $(base64_of "$count")"
		assert_code 204
	done
	await_server
	[ "$CODE" -eq 0 ]
	run_command "$FLMEM" aggregate diff "$(cat served)" update
	assert_status 0
}

# A client may not have more uploads than this limit: with more files its update would never be
# complete.
@test "an update of more files than a client may have uploads is refused at its first file" {
	serve --model g.safetensors --clients 1
	create c a.safetensors 0 "files $(base64_of 1001)"
	assert_code 400 'from 1 to 1000'
	create c a.safetensors 0 "files $(base64_of 1000)"
	assert_code 201
}

@test "documents are those of their schemas" {
	/usr/bin/python3 -c 'import jsonschema' 2>/dev/null || skip "needs python3-jsonschema"
	serve --model g.safetensors --clients 2 --deadline 1h --json-log --json
	valid() {
		python - "$FLMEM_TESTS/../docs/json-schema/$1" "$2" <<-'END'
			import json, sys
			import jsonschema
			schema, text = (json.load(open(name)) for name in sys.argv[1:])
			jsonschema.Draft202012Validator(schema).validate(text)
		END
	}
	request GET /v1/status
	valid exchange-state.json body
	request GET /v1/rounds/0/model
	valid exchange-model.json body
	push a a.safetensors
	request GET /v1/status
	valid exchange-state.json body
	request GET /v1/openapi.json
	cmp body "$FLMEM_TESTS/../docs/openapi/exchange.json"
	push b b.safetensors
	await_server
	python - "$URL" <<-'END'
		import json, sys
		lines = [json.loads(line) for line in open("server.log")]
		assert [line["event"] for line in lines] == [
		    "listening", "update-complete", "update-complete", "combining", "published"], lines
		assert lines[0]["detail"] == sys.argv[1] and "round" not in lines[0], lines[0]
		assert all(line["round"] == 0 for line in lines[1:-1]), lines
	END
	run_command cat served
	assert_schema exchange-serve
	grep -q '"published_round":[[:space:]]*1' served
}

# Its descriptor of the file has a number that another connection has got since.
@test "a connection that has fetched the model closes nothing of others later" {
	local first sender
	serve --model g.safetensors --clients 1
	exec {first}<>"/dev/tcp/127.0.0.1/${URL##*:}"
	printf 'GET /v1/rounds/0/model/g.safetensors HTTP/1.1\r\nHost: x\r\n\r\n' >&"$first"
	head -c "$(stat -c %s g.safetensors)" <&"$first" >/dev/null
	create c a.safetensors
	mkfifo pipe
	curl -s -o answer -w '%{http_code}' -X PATCH "${TUS[@]}" "${CHUNK[@]}" -H "Upload-Offset: 0" -T - "$URL$LOCATION" \
		<pipe >code 3>&- &
	sender=$!
	exec {bytes}>pipe
	head -c 140000 a.safetensors >&"$bytes"
	await has_open_data
	printf 'GET /v1/status HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n' >&"$first"
	cat <&"$first" >/dev/null
	exec {first}>&-
	tail -c +140001 a.safetensors >&"$bytes"
	exec {bytes}>&-
	wait "$sender"
	cat answer
	[ "$(cat code)" = 204 ]
}
