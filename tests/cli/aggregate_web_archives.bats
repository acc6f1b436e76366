#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Checkpoints and NumPy archives on web servers; harness/web_archives.py has the checks.

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
	run_command python "$FLMEM_TESTS/harness/web_archives.py" "$FLMEM" "$@"
	assert_status 0
}

@test "checkpoints and NumPy archives: the result is that of the same files on the disk" {
	check means
}

@test "inspect, diff, convert, records of 64 bits, checksums after the bytes" {
	check others
}

@test "an archive takes a request for each entry" {
	check requests
}

@test "lies about archives have their own messages" {
	check lies
}

@test "damaged archives are treated as on the disk" {
	check damage
}
