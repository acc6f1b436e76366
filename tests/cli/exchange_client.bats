#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# The client's verbs of flmem exchange; harness/exchange_checks.py has the checks.

load helpers

setup() {
	mkdir "$BATS_TEST_TMPDIR/work" && cd "$BATS_TEST_TMPDIR/work" || return
	# A proxy of the machine would answer instead of the servers of the tests.
	unset http_proxy https_proxy all_proxy HTTPS_PROXY ALL_PROXY SSL_CERT_FILE
	run_command "$FLMEM" exchange status http://127.0.0.1:9 --retries 1
	case $stderr in
	*"without libcurl"* | *"needs libcurl"*) skip "$stderr" ;;
	esac
}

check() {
	run_command python "$FLMEM_TESTS/harness/exchange_checks.py" "$FLMEM" "$@"
	assert_status 0
}

@test "that no server answers is reported at once by status" {
	run_command "$FLMEM" exchange status http://127.0.0.1:9
	assert_status 7
	[[ $stderr == *"a request to 'http://127.0.0.1:9' failed"* ]]
	[[ $stderr != *"trying again"* ]]
	run_command "$FLMEM" exchange status http://127.0.0.1:9 --retries 1
	[[ $stderr == *"trying again"* ]]
}

@test "a server that is not an exchange is reported as such" {
	local port
	timeout 60 /usr/bin/python3 -u -m http.server --bind 127.0.0.1 0 >log 2>&1 &
	SERVER=$!
	wait_until 20 grep -q 'port [0-9]' log
	port=$(sed -n 's/.*port \([0-9]*\).*/\1/p' log | head -1)
	run_command "$FLMEM" exchange status "http://127.0.0.1:$port"
	kill "$SERVER"
	assert_status 2
	[[ $stderr == *"check that this is the address of flmem exchange serve"* ]]
}

@test "all bytes of an update arrive" {
	check push
}

@test "limits of servers and proxies are kept" {
	check limits
}

@test "shards" {
	check shards
}

@test "all bytes of a model arrive" {
	check pull
}

@test "a pull goes on where an earlier one ended" {
	check resume
}

@test "files of others with the names of an unfinished pull stay" {
	check foreign
}

@test "two pulls to one place at the same time" {
	check together
}

@test "every lie of a server has its own message" {
	check lies
}

@test "bad usage" {
	check usage
}

@test "tokens stay secret" {
	check tokens
}

@test "certificates of both sides" {
	command -v openssl >/dev/null || skip "needs openssl"
	check certificates
}

@test "a silent server does not delay Ctrl-C" {
	check stopped
}

# bats test_tags=unsanitised
@test "kill -9 at any instant" {
	! sanitized || skip "AddressSanitizer finds nothing in what is killed, and takes most of the time"
	check kills
}
