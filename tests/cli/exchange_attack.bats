#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2030,SC2031,SC2153 # set by helpers and setup, in each test's own shell
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

has_tracer() {
	! grep -q '^TracerPid:[[:space:]]*0$' "/proc/$SERVER/status"
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
		"Content-Type: application/offset+octet-stream" "Content-Length: $bytes" >&"$first"
	head -c 140000 a.safetensors >&"$first" # more than the server gathers before it writes
	await has_bytes 100000
	head -c 65536 a.safetensors >chunk
	create c a.safetensors 0 '' "${CHUNK[@]}" --data-binary @chunk
	assert_code 201
	exec {first}>&-
	offset
	[ "$OFFSET" -eq 140000 ] || [ "$OFFSET" -eq 65536 ]
	push_rest a.safetensors 100000
	await_server
	[ "$CODE" -eq 0 ]
	assert_model "$(cat served)" a.safetensors
}

# A client begins two files of an update of one file: the first complete one counts.
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

# raw TEXT: prints the server's answer, as long as the server keeps the connection. The text is sent
# in one piece: the server may close the connection after the first request.
raw() {
	local peer
	# shellcheck disable=SC2059 # it has escapes
	printf "$1" >request
	exec {peer}<>"/dev/tcp/127.0.0.1/${URL##*:}"
	cat request >&"$peer"
	timeout 5 cat <&"$peer" >raw || true
	exec {peer}>&-
}

# Behind a proxy that parses them differently, the bytes after them would be another client's
# request.
@test "requests whose end is ambiguous are refused, and nothing after them is read" {
	local patch fields next='GET /v1/status HTTP/1.1\r\nHost: x\r\n\r\n'
	serve --model g.safetensors --clients 1
	create c a.safetensors
	patch="PATCH $LOCATION HTTP/1.1\\r\\nHost: x\\r\\nTus-Resumable: 1.0.0\\r\\nUpload-Offset: 0\\r\\n"
	patch+='Content-Type: application/offset+octet-stream\r\n'
	for fields in 'Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n' \
		'Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n' \
		'Transfer-Encoding: chunked\r\nContent-Length: 5\r\n' \
		'Transfer-Encoding : chunked\r\nContent-Length: 5\r\n' \
		'Content-Length : 5\r\n' 'X: a\rContent-Length: 5\r\n' 'Host: y\r\n' \
		'Content-Length:\r\n 5\r\n' 'Content-Length: 5\r\n 6\r\n' 'Transfer-Encoding:\r\n chunked\r\n'; do
		raw "$patch$fields\\r\\n0\\r\\n\\r\\n$next"
		[ "$(grep -a -c '^HTTP/1.1' raw)" -eq 1 ] || fail "$fields: $(cat raw)"
		grep -a -q '^HTTP/1.1 400' raw
	done
	offset
	[ "$OFFSET" -eq 0 ]
	# A proxy does not accept these line breaks: they are chunks to the server, but nothing
	# after them may be a request.
	for fields in '5\nhello\n0\n\n' '5;x\nhello\r\n0\r\n\r\n'; do
		raw "${patch}Transfer-Encoding: chunked\\r\\n\\r\\n$fields$next"
		[ "$(grep -a -c '^HTTP/1.1' raw)" -eq 1 ] || fail "$fields: $(cat raw)"
	done
	# Without a body, the next request follows at once.
	raw "GET /v1/status HTTP/1.1\\r\\nHost: x\\r\\nHost: y\\r\\n\\r\\n$next"
	[ "$(grep -a -c '^HTTP/1.1' raw)" -eq 1 ] || fail "two hosts: $(cat raw)"
}

# One program, for example a proxy with rules, reads these differently from another.
@test "paths with NUL, and two of a field that may occur once, are refused" {
	local request end='Host: x\r\nConnection: close\r\n\r\n' one='Authorization: Bearer 0123456789abcdef\r\n'
	local other='Authorization: Bearer fedcba9876543210\r\n'
	printf 'c 0123456789abcdef\nd fedcba9876543210\n' >tokens
	serve --model g.safetensors --clients 1 --token-file tokens
	for request in /v1/status http://x:9/v1/status HTTPS://x/v1/status http://x/v1/rounds/0/model/g.safetensors; do
		raw "GET $request HTTP/1.1\r\n$one$end"
		grep -a -q '^HTTP/1.1 200' raw || fail "$request: $(cat raw)"
	done
	for request in "GET /v1/status%%00 HTTP/1.1\r\n$one" \
		"GET /v1/rounds/0/model/g.safetensors%%00.bin HTTP/1.1\r\n$one" \
		"GET /v1/status HTTP/1.1\r\n$one$other" \
		"HEAD /v1/uploads/x HTTP/1.1\r\n${one}Tus-Resumable: 1.0.0\r\ntus-resumable: 0.2.2\r\n" \
		"PATCH /v1/uploads/x HTTP/1.1\r\n${one}Upload-Offset: 0\r\nUpload-Offset: 1\r\n"; do
		raw "$request$end"
		grep -a -q '^HTTP/1.1 400' raw || fail "$request: $(cat raw)"
	done
}

has_upload_open() {
	find "/proc/$SERVER/fd" -lname '*.data' | grep -q .
}

limit_descriptors() {
	prlimit --pid "$SERVER" --nofile="$1:4096"
}

# The update is valid: it is neither refused, nor counted as complete before it was checked. Without
# any descriptor its bytes are not kept; with one more they are, but the file to check them cannot
# be opened.
@test "an update that cannot be checked now is sent again, not lost" {
	local way mode more bytes first spare
	command -v prlimit >/dev/null || skip "needs prlimit"
	bytes=$(stat -c %s a.safetensors)
	for way in 'staged 0' 'lockstep 0' 'staged 1'; do
		read -r mode more <<<"$way"
		rm -rf state
		serve --model g.safetensors --clients 1 --mode "$mode"
		create c a.safetensors
		exec {first}<>"/dev/tcp/127.0.0.1/${URL##*:}"
		printf 'PATCH %s HTTP/1.1\r\nHost: x\r\nTus-Resumable: 1.0.0\r\n%s\r\n%s\r\n%s\r\n\r\n' \
			"$LOCATION" "Upload-Offset: 0" "${CHUNK[1]}" "Content-Length: $bytes" >&"$first"
		head -c 40 a.safetensors >&"$first"
		await has_upload_open
		spare=0
		while [ -e "/proc/$SERVER/fd/$spare" ]; do spare=$((spare + 1)); done
		limit_descriptors $((spare + more))
		tail -c +41 a.safetensors >&"$first"
		head -n 1 <&"$first" >raw
		grep -q '^HTTP/1.1 50[03]' raw
		has_line server.log 'request-failed c: '
		limit_descriptors 1024
		exec {first}>&-
		offset
		[ "$OFFSET" -lt "$bytes" ]
		push_rest a.safetensors 1000000
		await_server
		[ "$CODE" -eq 0 ]
		assert_model "$(cat served)" a.safetensors
	done
}

@test "an update above the limit for files of the server is refused, and the server goes on" {
	local mode
	make_model large.safetensors 3 500000
	for mode in staged lockstep; do
		rm -rf state
		ulimit -S -f 1000
		serve --model g.safetensors --clients 1 --mode "$mode" --settle 1h
		ulimit -S -f unlimited
		create c large.safetensors
		assert_code 201
		patch 0 large.safetensors
		assert_code 507 'File too large'
		has_line server.log 'disk-full c: .*File too large'
		request DELETE "$LOCATION"
		push c a.safetensors
		assert_code 204
		await state_is '"published_round": *1'
		# shellcheck disable=SC2016 # for the inner shell
		run_command bash -c 'ulimit -f 100 && exec "$FLMEM" exchange pull "$1" -o pulled' - "$URL"
		assert_error 7 'File too large'
		kill "$SERVER"
		await_server
	done
}

# A client whose connection was lost asks for the offset: if it is the whole length, the update
# counts.
@test "a complete upload is not confirmed while it is checked, which may still refuse it" {
	local wrong sender codes=
	wrong=$(printf 0%.0s {1..64})
	head -c 200M /dev/zero >>a.safetensors
	serve --model g.safetensors --clients 1 --quota 1G --settle 1h
	create c a.safetensors 0 "sha256 $(base64_of "$wrong")"
	assert_code 201
	curl -s -o refused -w '%{http_code}' -X PATCH "${TUS[@]}" "${CHUNK[@]}" -H "Upload-Offset: 0" \
		-T a.safetensors "$URL$LOCATION" >code &
	sender=$!
	await has_bytes "$(stat -c %s a.safetensors)"
	while kill -0 "$sender" 2>/dev/null; do
		request HEAD "$LOCATION"
		codes+=" $CODE"
		[ "$CODE" != 200 ] || [ "$(header Upload-Offset)" = 0 ]
		create c a.safetensors 0 "sha256 $(base64_of "$wrong")"
		[ "$CODE" != 201 ] || [ "$(header Upload-Offset)" = 0 ]
	done
	wait "$sender"
	[ "$(cat code)" = 422 ]
	echo "$codes"
}

# The upload is removed while its bytes arrive, which is a failure of neither the client nor the
# server.
@test "an upload whose update is refused or complete meanwhile gets that as the reason" {
	local file first
	head -c 3000 /dev/urandom >noise
	serve --model g.safetensors --clients 2
	cp a.safetensors slow.safetensors
	for file in noise a.safetensors; do
		create c slow.safetensors
		first=$LOCATION
		mkfifo "pipe-$file"
		curl -s -o answer -w '%{http_code}' -X PATCH "${TUS[@]}" "${CHUNK[@]}" -H "Upload-Offset: 0" \
			-T - "$URL$first" <"pipe-$file" >code 3>&- &
		sender=$!
		exec {bytes}>"pipe-$file"
		head -c 150000 slow.safetensors >&"$bytes"
		await has_bytes 10000
		create c "$file"
		patch 0 "$file"
		[ "$CODE" = 422 ] || [ "$CODE" = 204 ]
		exec {bytes}>&-
		wait "$sender"
		cat answer
		[ "$(cat code)" = 409 ]
		has_line answer 'another file of the update counted or was refused'
	done
}

is_placed() {
	[ -e "state/rounds/0/updates/c/$1" ]
}

# Of an update with three files four arrive: the surplus one was removed after the check had seen
# it.
@test "a file beyond those of an update, while that is checked, takes nothing from it" {
	local name tracer sender index=model.safetensors.index.json locations=()
	command -v strace >/dev/null || skip "needs strace"
	mv a.safetensors m.safetensors
	sed 's/layer.weight/layer.height/' m.safetensors >n.safetensors
	echo '{"weight_map": {"layer.weight": "m.safetensors", "layer.height": "n.safetensors"}}' >"$index"
	mkdir model && cp m.safetensors n.safetensors "$index" model
	echo extra >extra
	serve --model model --clients 2
	strace -f -q -o trace -e trace=renameat,pread64 -e inject=renameat:delay_exit=1500000 \
		-e inject=pread64:delay_enter=700000 -p "$SERVER" 3>&- &
	tracer=$!
	await has_tracer
	for name in m.safetensors n.safetensors extra "$index"; do
		create c "$name" 0 "files $(base64_of 3)"
		assert_code 201
		locations+=("$LOCATION")
	done
	for name in m n; do
		LOCATION=${locations[0]}
		patch 0 "$name.safetensors"
		assert_code 204
		locations=("${locations[@]:1}")
	done
	curl -s -o extra.answer -X PATCH "${TUS[@]}" "${CHUNK[@]}" -H "Upload-Offset: 0" -T extra \
		"$URL${locations[0]}" 3>&- &
	sender=$!
	await is_placed extra
	LOCATION=${locations[1]}
	patch 0 "$index"
	# Neither request has failed, and the round has the checked file.
	kill "$tracer"
	wait "$tracer" "$sender" || true
	for name in m.safetensors n.safetensors "$index"; do
		push d "$name" 0 "files $(base64_of 3)"
		create c "$name" 0 "files $(base64_of 3)"
		[ "$CODE" != 201 ] || patch 0 "$name"
	done
	await_server
	[ "$CODE" -eq 0 ]
	"$FLMEM" aggregate diff "$(cat served)" model
}

# Comparing the SHA-256 of the whole file takes longer than sending another file; strace delays it.
@test "a wrong SHA-256 of another file takes nothing from a complete update" {
	local tracer sender wrong
	command -v strace >/dev/null || skip "needs strace"
	wrong=$(printf 0%.0s {1..64})
	cp a.safetensors other
	serve --model g.safetensors --clients 2
	strace -f -q -o trace -e trace=pread64 -e inject=pread64:delay_enter=3000000:when=1 -p "$SERVER" 3>&- &
	tracer=$!
	await has_tracer
	create c other 0 "sha256 $(base64_of "$wrong")"
	assert_code 201
	curl -s -o refused -X PATCH "${TUS[@]}" "${CHUNK[@]}" -H "Upload-Offset: 0" -T other \
		"$URL$LOCATION" 3>&- &
	sender=$!
	await grep -q pread64 trace
	push c a.safetensors
	assert_code 204
	wait "$sender"
	kill "$tracer"
	wait "$tracer" || true
	cat refused
	push d a.safetensors
	assert_code 204
	await_server
	[ "$CODE" -eq 0 ]
	assert_model "$(cat served)" a.safetensors a.safetensors
}

# The aggregation refuses weights whose products would not be exact.
@test "no weight of a client ends the exchange" {
	serve --model g.safetensors --clients 2
	push a a.safetensors 0 "weight $(base64_of 1e15)"
	assert_code 204
	create b a.safetensors 0 "weight $(base64_of 1e-200)"
	assert_code 400 'from 1e-15 to 1e15'
	push b a.safetensors 0 "weight $(base64_of 1e-15)"
	assert_code 204
	await_server
	[ "$CODE" -eq 0 ]
	assert_model "$(cat served)" a.safetensors
}

# make_nan FILE: writes a model whose last element is NaN.
make_nan() {
	head -c -4 a.safetensors >"$1"
	printf '\0\0\300\177' >>"$1"
}

@test "a NaN where the algorithm needs each update is refused, and does not end the exchange" {
	local client
	make_nan nan.safetensors
	for client in b c d e; do
		cp a.safetensors "$client.safetensors"
	done
	serve --model g.safetensors --clients 5 --algorithm krum
	push a nan.safetensors
	assert_code 422 "'layer.weight' has a NaN or an infinity"
	for client in a b c d e; do
		push "$client" "$client.safetensors"
		assert_code 204
	done
	await_server
	[ "$CODE" -eq 0 ]
	rm -rf state
	serve --model g.safetensors --clients 1
	push a nan.safetensors
	assert_code 422 'NaN or an infinity'
	push a a.safetensors
	assert_code 204
	await_server
	[ "$CODE" -eq 0 ]
}

@test "a NaN of a client that can be spared is left out" {
	make_nan nan.safetensors
	serve --model g.safetensors --clients 2
	push a a.safetensors
	push b nan.safetensors
	assert_code 204
	await_server
	[ "$CODE" -eq 0 ]
	has_line server.log "update-skipped b: it has a NaN"
	assert_model "$(cat served)" a.safetensors
}

# pushes CODE CLIENT FILE: checks that the update is answered with CODE.
pushes() {
	push "$2" "$3"
	assert_code "$1"
}

@test "more NaN than the algorithm can spare are refused, and do not end the exchange" {
	local client
	make_nan nan.safetensors
	serve --model g.safetensors --clients 6 --algorithm krum
	pushes 204 a nan.safetensors
	pushes 422 b nan.safetensors
	grep "'layer.weight' has a NaN or an infinity" body
	for client in b c d e f; do
		pushes 204 "$client" a.safetensors
	done
	await_server
	[ "$CODE" -eq 0 ]
	has_line server.log "update-skipped a: it has a NaN"
	rm -rf state
	serve --model g.safetensors --clients 3
	pushes 204 a nan.safetensors
	pushes 204 b nan.safetensors
	pushes 422 c nan.safetensors
	pushes 204 c a.safetensors
	await_server
	[ "$CODE" -eq 0 ]
	assert_model "$(cat served)" a.safetensors
}

@test "a NaN among more finite updates than the algorithm needs is left out, also after a kill" {
	local client
	make_nan nan.safetensors
	serve --model g.safetensors --clients 3
	pushes 204 a a.safetensors # it is read when it is needed
	pushes 204 b nan.safetensors
	pushes 204 c nan.safetensors
	await_server
	[ "$CODE" -eq 0 ]
	rm -rf state
	serve --model g.safetensors --clients 8 --quorum 5 --deadline 10m --algorithm krum
	for client in a b c d e; do
		pushes 204 "$client" a.safetensors
	done
	pushes 204 f nan.safetensors
	pushes 204 g nan.safetensors
	kill_server
	serve --model g.safetensors --clients 8 --quorum 5 --deadline 10m --algorithm krum
	refute_line server.log refused
	await state_is '"complete": *7'
	pushes 204 h a.safetensors
	await_server
	[ "$CODE" -eq 0 ]
	has_line server.log "update-skipped g: it has a NaN"
}

# make_checkpoint FILE STORAGE_OF_V: writes tensors u and v of two storages, or both of storage 0.
make_checkpoint() {
	python - "$FLMEM_TESTS" "$@" <<-'END'
		import struct, sys
		sys.path.insert(0, sys.argv[1])
		from harness import checkpoints as c
		rows = [(name, c.tensor("F32", at, 4, [4])) for name, at in (("u", 0), ("v", int(sys.argv[3])))]
		entries = {"data.pkl": c.finish(c.dictionary(rows)), "data/0": struct.pack("<4f", 0, 1, 2, 3),
		           "data/1": struct.pack("<4f", 4, 5, 6, 7), "version": b"3\n"}
		with open(sys.argv[2], "wb") as out:
		    out.write(c.archive([{"name": "m/" + name, "data": data} for name, data in entries.items()]))
	END
}

# The next model is a copy of the first update with other tensors.
@test "an update that ties other tensors than the model is refused, and does not end the exchange" {
	local ours other
	make_checkpoint loose.pt 1
	make_checkpoint tied.pt 0
	for ours in tied loose; do
		other=$([ "$ours" = loose ] && echo tied || echo loose)
		rm -rf state
		cp "$ours.pt" g.pt
		serve --model g.pt --clients 2
		push a "$other.pt"
		assert_code 422 'share bytes in one of'
		push a "$ours.pt"
		assert_code 204
		push b "$ours.pt"
		assert_code 204
		await_server
		[ "$CODE" -eq 0 ]
		"$FLMEM" aggregate diff "$ours.pt" "$(cat served)"
	done
}

# The option --key of 'push' names the key of its certificate.
@test "an update whose tensors are in a dict of its own: the reason names the option of the server" {
	make_checkpoint g.pt 1
	python - "$FLMEM_TESTS" <<-'END'
		import struct, sys
		sys.path.insert(0, sys.argv[1])
		from harness import checkpoints as c
		rows = [(name, c.tensor("F32", at, 4, [4])) for name, at in (("u", 0), ("v", 1))]
		entries = {"data.pkl": c.finish(c.dictionary([("state_dict", c.dictionary(rows))])),
		           "data/0": struct.pack("<4f", 0, 1, 2, 3), "data/1": struct.pack("<4f", 4, 5, 6, 7),
		           "version": b"3\n"}
		with open("nested.pt", "wb") as out:
		    out.write(c.archive([{"name": "m/" + name, "data": data} for name, data in entries.items()]))
	END
	serve --model g.pt --clients 1
	push a nested.pt
	assert_code 422 "with --key.*an option of the server, 'flmem exchange serve'"
	push a g.pt
	assert_code 204
	await_server
	[ "$CODE" -eq 0 ]
}

@test "a folder that cannot be flushed: what was not confirmed is sent again, and nothing is published" {
	requires strace
	make_traced fsync:error=EIO:when=1 -P "$PWD/state/rounds/0/updates/a" -P "$PWD/state/rounds/1/model"
	FLMEM=./traced serve --model g.safetensors --clients 1
	run_command "$FLMEM" exchange push "$URL" a.safetensors --client a
	assert_status 0
	assert_stderr "status 500.*cannot keep the upload: Input/output error"
	has_line server.log 'request-failed a: cannot keep the upload: Input/output error'
	await_server
	[ "$CODE" -eq 7 ]
	has_line server.log "failed: cannot flush the directory of 'rounds/1/model/g.safetensors' to the disk"
}

@test "a quota of the disk that is used up is 507, also where an upload begins" {
	requires strace
	make_traced fsync:error=EDQUOT:when=1 -P "$PWD/state/uploads"
	FLMEM=./traced serve --model g.safetensors --clients 1
	create a a.safetensors
	kill "$(pgrep -P "$SERVER")" # strace would only detach from it
	assert_code 507 'cannot make an upload: Disk quota exceeded'
	has_line server.log 'disk-full a: cannot make an upload: Disk quota exceeded'
}

@test "what another program put in place of a part is not what was pulled" {
	serve --model g.safetensors --clients 1
	touch slow
	env ASAN_OPTIONS="${ASAN_OPTIONS:-}:verify_asan_link_order=0" SLOW_FLUSH="$PWD/slow" \
		LD_PRELOAD="$FLMEM_VICTIMS/sampled/slow_calls.so" \
		"$FLMEM" exchange pull "$URL" -o m.safetensors 2>late 3>&- &
	await test -e slow.begun
	rm m.safetensors.part
	echo other >m.safetensors.part
	rm slow
	! wait "$!" || fail "it succeeded"
	has_line late "'m.safetensors.part' was removed, replaced or truncated while it was received"
	[ ! -e m.safetensors ]
}

@test "a commit that could not be flushed, and so was not confirmed, leaves no record" {
	requires strace
	local journal
	serve --model g.safetensors --clients 1
	create a a.safetensors
	kill_server
	journal=$PWD/state/uploads/${LOCATION##*/}.journal
	make_traced fdatasync:error=EIO:when=1 -P "$journal"
	FLMEM=./traced serve --model g.safetensors --clients 1
	patch 0 a.safetensors
	kill "$(pgrep -P "$SERVER")"
	assert_code 500
	has_line server.log 'request-failed a: the server cannot write the upload: Input/output error'
	[ -e "$journal" ]
	[ ! -s "$journal" ]
}

# The kernel treats data that it failed to write as written, so another flush would confirm them.
@test "bytes that could not be flushed are sent again, also those of earlier requests" {
	requires strace
	serve --model g.safetensors --clients 1
	create a a.safetensors
	head -c 50000 a.safetensors >first
	tail -c +50001 a.safetensors >rest
	kill_server
	make_traced fdatasync:error=EIO:when=1 -P "$PWD/state/uploads/${LOCATION##*/}.data"
	FLMEM=./traced serve --model g.safetensors --clients 1
	patch 0 first
	assert_code 204
	patch 50000 rest
	assert_code 500 'Input/output error'
	offset
	[ "$OFFSET" -eq 0 ]
	"$FLMEM" exchange push -q "$URL" a.safetensors --client a
	await_server
	[ "$CODE" -eq 0 ]
	"$FLMEM" aggregate -q -o expected.safetensors a.safetensors
	cmp expected.safetensors state/rounds/1/model/g.safetensors
}

@test "a model that could not be flushed is received again" {
	requires strace
	serve --model g.safetensors --clients 1
	run_command env ASAN_OPTIONS="${ASAN_OPTIONS:-}:detect_leaks=0" strace -f -q -o /dev/null -P "$PWD/m.safetensors.part" \
		-e trace=fsync -e inject=fsync:error=EIO "$FLMEM" exchange pull -q "$URL" -o m.safetensors
	assert_error 7 "cannot write 'm.safetensors.part': Input/output error"
	[ -z "$(find . -name 'm.safetensors*')" ]
}
