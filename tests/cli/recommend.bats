#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# `flmem recommend` on the job folders of tests/fixtures/jobs: exactly the findings expected there.

load helpers

JOBS=$FLMEM_TESTS/fixtures/jobs

# "RULE FILE:LINE" of every finding in $output, sorted as printed.
findings() {
	/usr/bin/python3 -c '
import json, os, sys
for f in json.load(sys.stdin)["findings"]:
    print(f["rule"], "%s:%d" % (os.path.basename(f["file"]), f["line"]))' <<<"$output"
}

@test "every fixture job has exactly the findings that its folder lists" {
	local job
	for job in "$JOBS"/*/; do
		local words=(recommend --json "$job")
		if [ -e "$job/version" ]; then
			words+=(--framework-version "$(<"$job/version")")
		fi
		flmem "${words[@]}"
		assert_status 0
		assert_schema recommend
		diff <(findings) "$job/expected" || fail "$job: not as its file 'expected' has it"
	done
}

@test "text is grouped by file, with line, current and proposed value" {
	flmem recommend "$JOBS/fedavg-default"
	assert_status 0
	assert_output 'config_fed_server.json
     7  warning: NVF-SRV-GC-OFF'
	assert_output 'workflows\[0\].args.memory_gc_rounds: absent -> 5'
	assert_output '3 files checked, error: 0, warning: 2, info: 0$'
}

@test "--fail-on sets exit status 1 at its severity and above" {
	flmem recommend --fail-on warning "$JOBS/fedavg-default"
	assert_status 1
	flmem recommend --fail-on info "$JOBS/fedavg-default"
	assert_status 1
	flmem recommend --fail-on error "$JOBS/fedavg-default"
	assert_status 0
	flmem recommend --fail-on info "$JOBS/fedavg-tuned"
	assert_status 0
}

@test "a file that is named is checked alone" {
	flmem recommend "$JOBS/fedavg-default/app/config/config_fed_client.json"
	assert_status 0
	assert_output '^[^ ]*config_fed_client.json'
	assert_output '1 file checked'
	[ -z "$stderr" ]
}

@test "bad inputs are told with file and line, and the others are checked" {
	local bad=$BATS_TEST_TMPDIR/bad
	cp -r "$JOBS/fedavg-default" "$bad"
	printf '{\n  "workflows": [\n' >"$bad/app/config/config_fed_server.json"
	flmem recommend --json "$bad" "$JOBS/fedavg-default" "$BATS_TEST_TMPDIR/none"
	assert_status 8
	assert_schema recommend
	assert_stderr 'bad/app/config/config_fed_server.json:3: line 3'
	assert_stderr 'none: cannot be read: No such file'
	assert_output 'NVF-SRV-GC-OFF'
	flmem recommend "$bad/app/config/config_fed_server.json"
	assert_error 2 'config_fed_server.json:3'
	flmem recommend "$bad/expected"
	assert_error 2 'no kind of file'
	mkfifo "$bad/app/config/pipe"
	rm "$bad/app/config/config_fed_server.json"
	mv "$bad/app/config/pipe" "$bad/app/config/config_fed_server.json"
	flmem recommend "$bad"
	assert_status 8
	assert_stderr 'not a regular file'
}

@test "control characters of a file do not reach the terminal" {
	local job=$BATS_TEST_TMPDIR/job
	cp -r "$JOBS/fedavg-default" "$job"
	sed -i 's/"args": {/"args": {"memory_gc_rounds": "\\u001b[31m",/' \
		"$job/app/config/config_fed_server.json"
	mv "$job" "$BATS_TEST_TMPDIR/"$'esc\e[31m'
	flmem recommend "$BATS_TEST_TMPDIR"
	refute_output $'\e'
	assert_output 'NVF-GC-INVALID'
}

# A copy of all fixture jobs that may be written.
copy_jobs() {
	COPY=$BATS_TEST_TMPDIR/jobs
	cp -r "$JOBS" "$COPY"
	chmod -R u+w "$COPY"
}

@test "--fix does what --diff shows, keeps the old files, and has nothing to do the second time" {
	copy_jobs
	cp -r "$COPY" "$BATS_TEST_TMPDIR/patched"
	cd "$COPY"
	flmem recommend --diff .
	assert_status 0
	assert_output '\+ +"memory_gc_rounds": 5'
	printf '%s\n' "$output" >"$BATS_TEST_TMPDIR/diff"
	diff -r "$COPY" "$JOBS" || fail "--diff changed something"
	requires patch
	patch -s -p0 -d "$BATS_TEST_TMPDIR/patched" <"$BATS_TEST_TMPDIR/diff"
	flmem recommend --fix .
	assert_status 0
	assert_stderr 'written to ./fedavg-default/app/config/config_fed_server.json'
	diff "$JOBS/fedavg-default/app/config/config_fed_server.json" \
		fedavg-default/app/config/config_fed_server.json.orig
	diff -r -x '*.orig' "$COPY" "$BATS_TEST_TMPDIR/patched" || fail "not what --diff showed"
	flmem recommend --diff .
	assert_status 0
	[ -z "$output" ] || fail "something is left to correct"
	cp -r "$COPY" "$BATS_TEST_TMPDIR/once"
	flmem recommend --fix .
	[ -z "$stderr" ] || fail "something was written again"
	diff -r "$COPY" "$BATS_TEST_TMPDIR/once"
}

@test "--fix leaves read-only files and symbolic links as they are" {
	copy_jobs
	cd "$COPY/fedavg-default/app/config"
	chmod a-w config_fed_server.json
	mv config_fed_client.json elsewhere
	ln -s elsewhere config_fed_client.json
	flmem recommend --fix "$COPY/fedavg-default"
	assert_status 8
	assert_stderr "config_fed_server.json' is read-only"
	assert_stderr "config_fed_client.json' is a symbolic link"
	diff config_fed_server.json "$JOBS/fedavg-default/app/config/config_fed_server.json"
	diff elsewhere "$JOBS/fedavg-default/app/config/config_fed_client.json"
	[ ! -e config_fed_server.json.orig ]
	flmem recommend --fix config_fed_server.json
	assert_status 4
	flmem recommend --diff --fix .
	assert_error 2 'without --fix'
}

@test "a role without paths prints its table" {
	flmem recommend --role server
	assert_status 0
	assert_output 'MALLOC_ARENA_MAX = 4'
	assert_output 'server_memory_gc_rounds = 5'
	MALLOC_ARENA_MAX=7 flmem recommend --role client
	assert_output 'MALLOC_ARENA_MAX = 2'
	assert_output 'client_memory_gc_rounds = 1'
	assert_output 'cuda_empty_cache = true'
	flmem recommend --role client --json
	assert_schema recommend
	flmem recommend --role client "$JOBS"
	assert_error 2 'without paths'
	flmem recommend
	assert_error 2 'name files or folders'
	flmem recommend --framework-version x "$JOBS"
	assert_error 2 'not a version'
}
