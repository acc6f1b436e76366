# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# A server of flmem exchange, and curl as its client. For tests of several bats files.
#
#	make_model FILE SEED [COUNT]	a safetensors file with COUNT floats
#	serve ARGS			starts a server in the background: $SERVER, $URL, server.log
#	request METHOD PATH ARGS	sets $CODE, the body is in `body`, the headers in `head`
#	push CLIENT FILE [ROUND]	an update in one request

SERVER=
URL=
CODE=
LOCATION=
TUS=(-H "Tus-Resumable: 1.0.0")
CHUNK=(-H "Content-Type: application/offset+octet-stream")
AUTH=()

exchange_setup() {
	command -v curl >/dev/null || skip "needs curl"
	mkdir "$BATS_TEST_TMPDIR/work" && cd "$BATS_TEST_TMPDIR/work" || return
	unset http_proxy https_proxy all_proxy HTTPS_PROXY ALL_PROXY
	umask 077
}

exchange_teardown() {
	[ -n "$SERVER" ] || return 0
	kill "$SERVER" || true
	wait "$SERVER" || true
}

# Values depend on the seed; they are exact in every order of additions.
make_model() {
	python - "$@" <<-'END'
		import array, json, random, struct, sys
		name, seed, count = sys.argv[1], int(sys.argv[2]), int((sys.argv[3:] or [50000])[0])
		draw = random.Random(seed)
		# A prime number of values is drawn, and repeated: so large models are made quickly.
		values = array.array("f", (draw.randrange(-1000, 1000) / 8 for _ in range(min(count, 65521))))
		values = (values * (count // len(values) + 1))[:count]
		head = json.dumps({"layer.weight": {"dtype": "F32", "shape": [count],
		                                    "data_offsets": [0, 4 * count]}}).encode()
		head += b" " * (-len(head) % 8)
		with open(name, "wb") as out:
		    out.write(struct.pack("<Q", len(head)) + head + values.tobytes())
	END
}

# Waits for a state, not for a time; the limit is for a machine that hangs.
await() {
	local tries
	for tries in {1..1200}; do
		! "$@" || return 0
		nap 0.05
	done
	cat server.log 2>/dev/null
	fail "never: $*"
}

has_line() {
	grep -q -s -e "$2" "$1"
}

refute_line() {
	! has_line "$@" || fail "$1 has $2"
}

start_server() {
	rm -f server.log
	"$FLMEM" exchange serve --listen 127.0.0.1:0 --state state --settle 300ms \
		--reserve 1M "$@" >served 2>server.log 3>&- &
	SERVER=$!
}

is_listening() {
	kill -0 "$SERVER" && has_line server.log 'listening\(",\| at\)'
}

serve() {
	start_server "$@"
	await is_listening
	URL=$(sed -n '/listening/s/.*\(https\?:[^"]*\).*/\1/p' server.log)
}

# Waits for the server's end and sets $CODE to its exit status.
await_server() {
	CODE=0
	wait "$SERVER" || CODE=$?
	SERVER=
	cat server.log
}

kill_server() {
	kill -9 "$SERVER"
	wait "$SERVER" || true
	SERVER=
}

request() {
	local method=$1 path=$2
	shift 2
	[[ $path == http* ]] || path=$URL$path
	if [ "$method" = HEAD ]; then
		set -- -I "$@"
	else
		set -- -X "$method" "$@"
	fi
	: >body
	CODE=$(curl -s --path-as-is --max-time 120 -o body -D head -w '%{http_code}' \
		"${AUTH[@]}" "${TUS[@]}" "$@" "$path") || true
	echo "$method $path: $CODE $(head -c 400 body)"
}

assert_code() {
	[ "$CODE" = "$1" ] || fail "status $CODE, expected $1: $(cat body)"
	[ -z "${2:-}" ] || grep -q -e "$2" body || fail "the answer does not match: $2"
}

header() {
	sed -n "s/^$1: //Ip" head | tr -d '\r' | tail -n 1
}

base64_of() {
	printf %s "$1" | base64 -w0
}

# create CLIENT FILE [ROUND] [MORE METADATA] [CURL ARGS]: creates an upload.
create() {
	local client=$1 file=$2 round=${3:-0} more=${4:-} meta
	meta="round $(base64_of "$round"),client $(base64_of "$client")"
	meta+=",filename $(base64_of "$(basename "$file")")"
	[ -z "$more" ] || meta+=",$more"
	shift $(($# > 4 ? 4 : $#))
	request POST /v1/uploads -H "Upload-Length: $(stat -c %s "$file")" \
		-H "Upload-Metadata: $meta" "$@"
	LOCATION=$(header Location)
}

# patch OFFSET FILE [CURL ARGS]: sends the whole file to $LOCATION.
patch() {
	local offset=$1 file=$2
	shift 2
	request PATCH "$LOCATION" "${CHUNK[@]}" -H "Upload-Offset: $offset" -T "$file" "$@"
}

push() {
	create "$1" "$2" "${3:-0}" "${4:-}"
	assert_code 201
	patch 0 "$2"
}

# offset: sets $OFFSET to the offset of $LOCATION.
offset() {
	request HEAD "$LOCATION"
	assert_code 200
	OFFSET=$(header Upload-Offset)
}

# Sends the rest from the committed offset on, in chunks of SIZE.
push_rest() {
	local file=$1 size=$2 length
	length=$(stat -c %s "$file")
	offset
	while [ "$OFFSET" -lt "$length" ]; do
		tail -c "+$((OFFSET + 1))" "$file" | head -c "$size" >chunk
		patch "$OFFSET" chunk
		assert_code 204
		OFFSET=$(header Upload-Offset)
	done
}

state_is() {
	curl -s "${AUTH[@]}" "$URL/v1/status" | grep -q -e "$1"
}

# Checks that the model is the result of the files, in the order of the clients' names.
assert_model() {
	local model=$1
	shift
	"$FLMEM" aggregate -q -o expected.safetensors "$@"
	cmp expected.safetensors "$model"
}

# make_traced FAILURE [OPTION...]: makes ./traced, a flmem in which strace injects this failure of a
# system call.
make_traced() {
	local failure=$1
	shift
	cat >traced <<-END
		#!/bin/sh
		export ASAN_OPTIONS="\${ASAN_OPTIONS:-}:detect_leaks=0"
		exec strace -f -q -o /dev/null$(printf " '%s'" "$@" -e "trace=${failure%%:*}" -e "inject=$failure") \
			"$FLMEM" "\$@"
	END
	chmod +x traced
}
