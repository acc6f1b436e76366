#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Rounds of flmem exchange with server and clients; harness/exchange_rounds.py has the checks.

# shellcheck disable=SC2030,SC2031 # run_command sets status and output in the shell of the test

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

requires_nginx() {
	[ -x /usr/sbin/nginx ] || command -v nginx >/dev/null || skip "needs nginx"
}

rounds() {
	PYTHONPATH="$FLMEM_TESTS/../libcore/bindings/python" run_command "${2:-/usr/bin/python3}" -B \
		"$FLMEM_TESTS/harness/exchange_rounds.py" "$FLMEM" "$1"
	assert_status 0
}

@test "rounds with the server" {
	rounds rounds
}

@test "shards to and from the server" {
	rounds shards
}

@test "refusals of the server" {
	rounds refusals
}

@test "kill -9 of push, pull and server" {
	rounds kills
}

@test "a push outlives a restart of the server" {
	rounds restart
}

@test "the client in Python" {
	rounds python
}

@test "lockstep, with the client in Python" {
	rounds lockstep
}

@test "mutual TLS" {
	command -v openssl >/dev/null || skip "needs openssl"
	rounds certificates
}

@test "nginx with its limit for bodies" {
	requires_nginx
	rounds proxy
}

@test "nginx as the end of TLS" {
	requires_nginx
	command -v openssl >/dev/null || skip "needs openssl"
	rounds terminator
}

@test "a progress bar" {
	command -v script >/dev/null || skip "needs script (util-linux)"
	rounds progress
}

# with_python SCRIPT WORD...: runs the check with a Python that has the packages.
with_python() {
	PYTHONPATH="$FLMEM_TESTS/../libcore/bindings/python" run_command python "$@"
	[ "$status" -ne 77 ] || skip "${output#SKIP: }"
	assert_status 0
}

@test "the training loop of the guide" {
	with_python "$FLMEM_TESTS/harness/exchange_loops.py" "$FLMEM" plain
}

@test "the training loop of the guide in Flower" {
	with_python "$FLMEM_TESTS/python/frameworks.py" run flower \
		"$FLMEM_TESTS/harness/exchange_loops.py" "$FLMEM" flower
}

@test "the training loop of the guide in APPFL" {
	with_python "$FLMEM_TESTS/python/frameworks.py" run appfl \
		"$FLMEM_TESTS/harness/exchange_loops.py" "$FLMEM" appfl
}

@test "tuspy" {
	with_python "$FLMEM_TESTS/python/frameworks.py" run tuspy \
		"$FLMEM_TESTS/harness/exchange_rounds.py" "$FLMEM" stranger
}

@test "schemathesis" {
	with_python "$FLMEM_TESTS/python/frameworks.py" run schemathesis \
		"$FLMEM_TESTS/harness/exchange_schema.py" "$FLMEM"
}
