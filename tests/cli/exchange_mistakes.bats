#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Mistakes of those who use flmem exchange for the first time: what is printed, what is left.

load helpers
load exchange

setup() {
	exchange_setup
	make_model g.safetensors 0
	make_model a.safetensors 1
}

teardown() {
	exchange_teardown
}

@test "--retries 0 tries once and says nothing of retries" {
	run_command "$FLMEM" exchange status http://127.0.0.1:9 --retries 0
	assert_status 7
	[[ $stderr != *tried* ]]
	[[ $stderr != *'trying again'* ]]
	run_command "$FLMEM" aggregate inspect http://127.0.0.1:9/x --retries 0
	assert_status 7
}

@test "a client that tries again says so once, unless --quiet" {
	run_command "$FLMEM" exchange wait http://127.0.0.1:9 --round 1 --retries 3
	assert_status 7
	[ "$(grep -c 'exchange wait: trying again: ' <<<"$stderr")" -eq 1 ]
	run_command "$FLMEM" exchange pull http://127.0.0.1:9 -o x --retries 1 --quiet
	assert_status 7
	[[ $stderr != *'trying again'* ]]
}

@test "a refused server leaves no directory" {
	: >empty
	run_command "$FLMEM" exchange serve --model empty --clients 1 --state state
	assert_status 2
	[ ! -e state ]
	run_command "$FLMEM" exchange serve --model g.safetensors --clients 1 --state state --beta1 0.5
	assert_status 2
	assert_stderr 'does not use a rate or beta1'
	[ ! -e state ]
	serve --model g.safetensors --clients 1
	run_command "$FLMEM" exchange serve --model g.safetensors --clients 1 --state other \
		--listen "${URL#http://}"
	assert_status 2
	[ ! -e other ]
	[ -e state/exchange ]
	mkdir -m 700 mine
	run_command "$FLMEM" exchange serve --model empty --clients 1 --state mine
	assert_status 2
	[ -d mine ]
}

@test "a directory with names of the state, that no server has made, stays as it is" {
	local name words=(exchange serve --model g.safetensors --clients 1 --state site)
	for name in uploads/photos rounds/0 trial; do
		mkdir -p "site/$name"
		: >"site/$name/kept"
		run_command timeout 20 "$FLMEM" "${words[@]}"
		assert_error 2 "site. has .${name%%/*}., which no server created; name another --state"
		[ -e "site/$name/kept" ]
		[ "$(find site | wc -l)" -eq "$(awk -F/ '{print NF + 2}' <<<"$name")" ]
		rm -r site
	done
	mkdir site && : >site/rounds
	run_command timeout 20 "$FLMEM" "${words[@]}"
	assert_error 2 "site. has .rounds., which no server created"
	rm -r site
	# A state that a kill left before the options were kept is continued, also that of a release
	# without the mark.
	mkdir -p site/uploads site/rounds site/trial
	start_server --model g.safetensors --clients 1 --state site
	await is_listening
	kill_server
	rm -r site
	mkdir -p site/trial/more
	printf 'flmem-exchange 1\n' >site/exchange
	: >site/kept
	start_server --model g.safetensors --clients 1 --state site
	await is_listening
	[ ! -e site/trial ]
	[ -e site/kept ]
}

@test "a state directory that is moved while the server works costs no update" {
	serve --model g.safetensors --clients 1
	mv state away
	create a a.safetensors
	patch 0 a.safetensors
	assert_code 503 'state directory of the server was moved or replaced'
	has_line server.log 'request-failed a: '
	cp -r away state # with another update of the same name
	offset
	[ "$OFFSET" -eq 0 ]
	patch 0 a.safetensors
	assert_code 503
	rm -r state
	mv away state
	push_rest a.safetensors 1000000
	await_server
	[ "$CODE" -eq 0 ]
	assert_model "$(cat served)" a.safetensors
}

@test "a file in place of the state directory is named as one" {
	run_command "$FLMEM" exchange serve --model g.safetensors --clients 1 --state a.safetensors
	assert_error 2 "cannot open the directory 'a.safetensors': Not a directory"
}

@test "a state directory on a disk that is full, or without locks, is named as such" {
	local words=(exchange serve --model g.safetensors --clients 1 --state other)
	run_command env ASAN_OPTIONS="${ASAN_OPTIONS:-}:verify_asan_link_order=0" NO_FLOCK=1 \
		LD_PRELOAD="$FLMEM_VICTIMS/sampled/slow_calls.so" "$FLMEM" "${words[@]}"
	assert_error 7 "/other' against other servers; name a directory on a file system with locks"
	assert_stderr "Function not implemented"
	[ ! -e other ]
	requires strace
	run_command env ASAN_OPTIONS="${ASAN_OPTIONS:-}:detect_leaks=0" \
		strace -f -q -o /dev/null -e trace=mkdir -e inject=mkdir:error=ENOSPC "$FLMEM" "${words[@]}"
	assert_error 7 "cannot make the directory 'other': No space left on device"
	run_command env ASAN_OPTIONS="${ASAN_OPTIONS:-}:detect_leaks=0" \
		strace -f -q -o /dev/null -e trace=mkdirat -e inject=mkdirat:error=EROFS:when=3 "$FLMEM" "${words[@]}"
	assert_error 7 "/other/trial': Read-only file system"
	run_command env ASAN_OPTIONS="${ASAN_OPTIONS:-}:verify_asan_link_order=0" NO_OPEN=/trial/g.safetensors.part \
		LD_PRELOAD="$FLMEM_VICTIMS/sampled/slow_calls.so" timeout 20 "$FLMEM" "${words[@]}"
	assert_error 7 "cannot write '.*/trial/g.safetensors.part': Input/output error"
	[ ! -e other ]
}

@test "paths in JSON: a backslash is not taken for an escape" {
	serve --model g.safetensors --clients 1 --state 'a\x1bb' --json
	push c a.safetensors
	await_server
	[ "$CODE" -eq 0 ]
	grep -F 'a\\x5cx1bb/' served
}

@test "parameters of the server's optimizer are those of aggregate" {
	serve --model g.safetensors --clients 1 --algorithm fedadam --beta1 0.5 --beta2 0.9 --tau 0.01
	push c a.safetensors
	await_server
	[ "$CODE" -eq 0 ]
	"$FLMEM" aggregate -q -a fedadam --beta1 0.5 --beta2 0.9 --tau 0.01 --base g.safetensors \
		--state s.safetensors -o expected.safetensors a.safetensors
	cmp expected.safetensors "$(cat served)"
}

@test "a round that is over: what to do next" {
	serve --model g.safetensors --clients 1 --rounds 2
	push c a.safetensors
	await state_is '"round":1'
	run_command "$FLMEM" exchange push "$URL" g.safetensors --client c --round 0
	assert_status 2
	assert_stderr 'round is over: round 0 is over; it is round 1; pull the latest model'
}

@test "http:// in front of a server with TLS, and the other way round" {
	command -v openssl >/dev/null || skip "needs openssl"
	serve --model g.safetensors --clients 1
	run_command "$FLMEM" exchange status "https://${URL#http://}" --retries 0
	assert_status 7
	assert_stderr 'its address begins with http://'
	kill_server
	openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 \
		-subj /CN=localhost -keyout server.key -out server.pem 2>/dev/null
	serve --model g.safetensors --clients 1 --tls-cert server.pem --tls-key server.key
	run_command "$FLMEM" exchange status "http://${URL#https://}" --retries 0
	assert_status 7
	assert_stderr 'its address begins with https://'
}

@test "a wrong method: the answer has those that are right" {
	serve --model g.safetensors --clients 1
	request PUT /v1/status
	assert_code 405
	[ "$(header Allow)" = 'GET, HEAD' ]
	request GET /v1/uploads
	assert_code 405
	[ "$(header Allow)" = 'OPTIONS, POST' ]
	request PUT /v1/uploads/0123
	assert_code 405
	[ "$(header Allow)" = 'OPTIONS, HEAD, PATCH, DELETE' ]
}

@test "a state directory with damaged files is refused, and nothing is combined from less" {
	make_model b.safetensors 2
	serve --model g.safetensors --clients 2 --rounds 2
	push a a.safetensors
	push b b.safetensors
	await state_is '"published_round": *1'
	push a a.safetensors 1
	kill_server
	cp state/rounds/1/model/g.safetensors kept
	truncate -s 1000 state/rounds/1/model/g.safetensors
	run_command "$FLMEM" exchange serve --model g.safetensors --clients 2 --rounds 2 --state state
	assert_error 7 'is not the file that was published'
	cp kept state/rounds/1/model/g.safetensors
	cp state/rounds/1/index kept
	for index in '' 'x' "$(cat kept)" "$(cat kept)\n\nx"; do
		# shellcheck disable=SC2059 # it has escapes
		printf "$index" >state/rounds/1/index
		run_command "$FLMEM" exchange serve --model g.safetensors --clients 2 --rounds 2 --state state
		assert_error 7 'rounds/1/index. is damaged, which lists the files'
	done
	cp kept state/rounds/1/index
	for inputs in '' '2\n1 a /rounds/1/updates/a/a.safetensors\n' 'x' '1\n1 ../a /x\n'; do
		# shellcheck disable=SC2059 # it has escapes
		printf "$inputs" >state/rounds/1/inputs
		run_command "$FLMEM" exchange serve --model g.safetensors --clients 2 --rounds 2 --state state
		assert_error 7 'inputs. is damaged'
	done
	rm state/rounds/1/inputs
	serve --model g.safetensors --clients 2 --rounds 2
	push b b.safetensors 1
	await_server
	[ "$CODE" -eq 0 ]
	assert_model "$(cat served)" a.safetensors b.safetensors
}

@test "an upload whose record cannot be removed is not reported as deleted" {
	requires strace
	make_traced unlinkat:error=EROFS:when=1 -P "$PWD/state/uploads"
	FLMEM=./traced serve --model g.safetensors --clients 1
	create a a.safetensors
	request DELETE "$LOCATION"
	kill "$(pgrep -P "$SERVER")" # strace would only detach from it
	assert_code 500 'cannot delete it: Read-only file system'
	[ -e "state/uploads/${LOCATION##*/}.info" ]
}

@test "a body that is compressed, or whose checksum follows it, is refused, and nothing of it is kept" {
	serve --model g.safetensors --clients 1
	create c a.safetensors
	patch 0 a.safetensors -H "Content-Encoding: gzip"
	assert_code 415 'has a Content-Encoding; send the bytes as they are'
	patch 0 a.safetensors -H "Transfer-Encoding: chunked" -H "Trailer: X-Time, upload-checksum"
	assert_code 400 'as a trailer, which is not verified'
	offset
	[ "$OFFSET" -eq 0 ]
	patch 0 a.safetensors -H "Content-Encoding: identity"
	assert_code 204
}

@test "a model that is no longer kept is gone, one that is not published yet is not there" {
	serve --model g.safetensors --clients 1 --rounds 4
	for round in 0 1 2; do
		push a a.safetensors "$round"
		await state_is "\"published_round\": *$((round + 1))"
	done
	request GET /v1/rounds/1/model
	assert_code 410 'round 1 is no longer kept'
	request GET /v1/rounds/4/model
	assert_code 404 'round 4 is not published yet'
}

# Each part costs a record; here the records are written at once.
@test "an upload in very small parts is refused after a while" {
	serve --model g.safetensors --clients 1
	create a a.safetensors
	kill_server
	python - "state/uploads/${LOCATION##*/}" "$FLMEM_TESTS" <<-'END'
		import struct, sys
		sys.path.insert(0, sys.argv[2])
		from harness.digests import crc32c
		one = crc32c(b"\0")
		with open(sys.argv[1] + ".data", "wb") as data:
		    data.truncate(65600)
		with open(sys.argv[1] + ".journal", "wb") as journal:
		    for end in range(1, 65601):
		        record = struct.pack("<QI", end, one)
		        journal.write(record + struct.pack("<I", crc32c(record)))
	END
	serve --model g.safetensors --clients 1
	offset
	[ "$OFFSET" -eq 65600 ]
	patch "$OFFSET" g.safetensors
	assert_code 429 'send at least 4 KiB at once'
}

@test "a base that was replaced is not the start of a step" {
	serve --model g.safetensors --clients 1 --algorithm fedadam
	make_model other 9
	mv other g.safetensors
	push a a.safetensors
	await_server
	[ "$CODE" -eq 7 ]
	has_line server.log 'initial model .g.safetensors. changed while it was served'
	[ ! -e state/rounds/1/index ]
}

# Some programs set the time of a file to whole seconds, others write it twice within one.
@test "an initial model that changed within a second is not served" {
	touch -d @1000000000.2 g.safetensors
	serve --model g.safetensors --clients 1
	request GET /v1/rounds/0/model/g.safetensors
	assert_code 200
	printf x | dd of=g.safetensors bs=1 seek=1000 conv=notrunc status=none
	touch -d @1000000000.7 g.safetensors
	request GET /v1/rounds/0/model/g.safetensors
	[ "$CODE" -ge 400 ] || fail "it is served"
}

# A running server uses only the steady clock; a server that starts reads from the file when the
# round began.
@test "a clock that jumped while the server was down" {
	make_model b.safetensors 2
	local options=(--model g.safetensors --clients 2 --quorum 2 --deadline 1h)
	serve "${options[@]}"
	push a a.safetensors
	assert_code 204
	kill_server
	[[ $(cat state/rounds/0/opened) =~ ^[0-9]{16}$ ]]
	printf 9999999999999999 >state/rounds/0/opened
	serve "${options[@]}"
	request GET /v1/status
	assert_code 200 '"deadline_s":3[56]'
	kill_server
	printf 1 >state/rounds/0/opened
	run_command "$FLMEM" exchange serve "${options[@]}" --listen 127.0.0.1:0 --state state --reserve 1M --settle 1ms
	assert_status 7
	assert_stderr 'had 1 of 2 updates'
	serve "${options[@]}"
	request GET /v1/status
	assert_code 200 '"deadline_s":3[56]'
	push b b.safetensors
	assert_code 204
	await_server
	[ "$CODE" -eq 0 ]
	assert_model "$(cat served)" a.safetensors b.safetensors
}

# The writer has written nothing yet when the file is read.
@test "files of options may be pipes that are written later" {
	make_model b.safetensors 2
	"$FLMEM" aggregate -q -o new --weights-from <(sleep 1 && echo '{"a": 1, "b": 0}') a.safetensors b.safetensors
	"$FLMEM" aggregate diff new a.safetensors
	serve --model g.safetensors --clients 1 --token-file <(sleep 1 && echo "c 0123456789abcdef")
	"$FLMEM" exchange push -q "$URL" a.safetensors --token-file <(sleep 1 && echo 0123456789abcdef)
	await_server
	[ "$CODE" -eq 0 ]
	mkfifo nobody
	run_command "$FLMEM" aggregate -q -o new --weights-from nobody a.safetensors b.safetensors
	assert_status 2
}

# Clients do not know paths of the server, and the reason is at the end, after them.
@test "a long path of the state: the reason stays, and clients do not see the path" {
	local folder
	folder=$(printf 'private-%.0s' {1..25})
	mkdir -p "$folder/$folder/$folder"
	make_model small.safetensors 1 10
	for state in "$folder/$folder/state" "$folder/$folder/$folder/state"; do
		serve --model g.safetensors --clients 1 --state "$state"
		push a small.safetensors
		assert_code 422 "50000\] in the model, but F32 \[10\] in '[^ ]*small.safetensors'"
		refute_line body private
		kill_server
	done
}
