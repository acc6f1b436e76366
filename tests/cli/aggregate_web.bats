#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Inputs of flmem aggregate on web servers; harness/web_checks.py has the checks.

load helpers

setup() {
	requires numpy
	mkdir "$BATS_TEST_TMPDIR/work" && cd "$BATS_TEST_TMPDIR/work" || return
	# A proxy of the machine would answer instead of the servers of the tests.
	unset http_proxy https_proxy all_proxy HTTPS_PROXY ALL_PROXY SSL_CERT_FILE
	run_command "$FLMEM" aggregate inspect http://127.0.0.1:9/x --retries 1
	case $stderr in
	*"without libcurl"* | *"needs libcurl"*) skip "$stderr" ;;
	esac
}

check() {
	run_command python "$FLMEM_TESTS/harness/web_checks.py" "$FLMEM" "$@"
	assert_status 0
}

@test "the result is that of the same files on the disk" {
	check means
}

@test "inspect, diff, convert, two passes, a base" {
	check others
}

@test "shards by the address of their index" {
	check shards
}

@test "every lie of a server has its own message" {
	check lies
}

@test "headers and signatures stay secret" {
	check secrets
}

@test "a run that a server broke off is resumed" {
	check resume
}

@test "a server that does not answer does not delay Ctrl-C" {
	check stopped
}

@test "certificates, and redirects from https to http" {
	command -v openssl >/dev/null || skip "needs openssl"
	check certificates
}

@test "a folder in place of certificates is refused before any request" {
	mkdir folder
	run_command "$FLMEM" aggregate -q -o out --cacert folder https://127.0.0.1:9/a https://127.0.0.1:9/b
	assert_error 2 "cannot read the certificate or key 'folder': Is a directory"
}

@test "nginx" {
	PATH="$PATH:/usr/sbin"
	command -v nginx >/dev/null || skip "needs nginx"
	check nginx
}
