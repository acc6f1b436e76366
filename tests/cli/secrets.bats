#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# What a target's command line and environment hold of secrets is in nothing that flmem prints or
# stores, and what flmem stores is not wider open than its user's umask.

# shellcheck disable=SC2030,SC2031,SC2153 # each test is a shell of its own; helpers.bash sets VICTIM
load helpers

# Part of every secret below, and of nothing else.
MARK=hunter2

setup() {
	umask 022
	cd "$BATS_TEST_TMPDIR" || return
	mkdir -p nvflare/private/fed/app/client
	printf '%s\n' 'import time' 'held = [bytes(1000) for _ in range(50000)]' 'del held[::2]' \
		'print("ready", flush=True)' 'while True:' '    time.sleep(0.05)' \
		>nvflare/private/fed/app/client/worker_process.py
	cat >words <<-END
		-t
		$MARK-session
		-ts
		$MARK+sig/=
		-d
		$MARK-ssid
		-c
		site-1
		--tokenizer-auth-token
		$MARK
		--pass
		$MARK
		--db-pwd=$MARK
		-u
		me:$MARK
		--url=https://me:$MARK@host/x
		me:$MARK@tcp(db:3306)/x
		https://h/c?sv=1&sig=$MARK
		AccountName=a;AccountKey=$MARK
		{"auth": {"api_key": "$MARK"}}
		Authorization: Basic $MARK
		--tok
		$MARK
		--api-keys
		$MARK
		$MARK
		--x=AIzaSyA012345678901234567890${MARK}6789
		hf_0123456789abcdefghij$MARK
		sh -c 'mysql -h db -p$MARK'
		--secret
		$MARK
	END
	mapfile -t words <words
}

start_secretive() {
	PYTHONPATH=$PWD NVFLARE_JOB_AUTH_TOKEN=$MARK NVFLARE_PASS=$MARK \
		NVFLARE_TOKENIZER_AUTH_TOKEN=$MARK NVFLARE_PROXY=http://me:$MARK@h:3128 \
		NVFLARE_EXTRA="{\"sig\": \"$MARK\"}" MALLOC_CONF="x:1,password:$MARK" \
		start_victim /usr/bin/python3 -u -m nvflare.private.fed.app.client.worker_process \
		"${words[@]}"
	grep -qa "$MARK" "/proc/$VICTIM/cmdline"
	grep -qa "$MARK" "/proc/$VICTIM/environ"
}

# Runs flmem, and checks that its output and every file that it writes are free of secrets.
assert_silent() {
	local file
	flmem "$@"
	[ "$status" -le 1 ] || [ "${EXPECTED:-0}" = "$status" ] || fail "exit status $status"
	[[ $output$stderr != *$MARK* ]] || fail "flmem $* printed a secret"
	for file in run.rec page.html; do
		[ ! -e "$file" ] || ! grep -qa "$MARK" "$file" || fail "flmem $* wrote a secret to $file"
	done
}

@test "no command prints or stores a secret of a process" {
	start_secretive
	assert_silent detect --pid "$VICTIM"
	assert_output 'site-1.*<redacted>'
	assert_silent detect --pid "$VICTIM" --json
	assert_output 'NVFLARE_TOKENIZER_AUTH_TOKEN'
	assert_silent detect --tree "$VICTIM" --json
	assert_silent detect --name "--secret $MARK"
	assert_silent trim --pid "$VICTIM"
	assert_silent trim --pid "$VICTIM" --json
	EXPECTED=5 assert_silent trim --pid "$VICTIM" --dry-run --json
	assert_silent watch --pid "$VICTIM" --interval 20ms --duration 600ms
	assert_silent watch --pid "$VICTIM" --interval 20ms --duration 600ms --json --record run.rec \
		--report page.html
	grep -qa 'redacted' run.rec
	grep -q 'redacted' page.html
	assert_silent watch --replay run.rec
	assert_silent watch --replay run.rec --json --report page.html
	assert_silent watch --name "--secret $MARK" --interval 20ms --duration 200ms --json
	assert_silent recommend --pid "$VICTIM"
	assert_silent recommend --pid "$VICTIM" --json
	assert_silent recommend --pid "$VICTIM" --troubleshoot
	assert_silent recommend --pid "$VICTIM" --troubleshoot --json
	assert_silent recommend run.rec
	assert_silent recommend run.rec --json
	assert_victim_unharmed
}

@test "the metrics endpoint serves no secret of a process" {
	start_secretive
	"$FLMEM" watch --quiet --pid "$VICTIM" --interval 50ms --listen 127.0.0.1:0 >out 2>err 3>&- &
	VICTIMS+=("$!")
	wait_until 60 grep -q 'http://' err
	python -c '
import re, sys, urllib.request
address = re.search(r"http://[0-9.:]+", open("err").read()).group()
text = urllib.request.urlopen(address + "/metrics").read().decode()
assert "flmem_process_info" in text and "redacted" in text, text
assert sys.argv[1] not in text, text' "$MARK" || fail "$(cat err)"
	! grep -q "$MARK" out err || fail "printed a secret"
}

# mode FILE: prints its permissions.
mode() {
	stat -c %a "$1"
}

@test "what is written is within the umask, and what was private stays so" {
	start_victim safe_blocked epoll_wait
	umask 077
	flmem watch --pid "$VICTIM" --interval 20ms --duration 300ms --record run.rec --report page.html
	assert_status 0
	[ "$(mode page.html) $(mode run.rec)" = "600 600" ]
	flmem start --role client --emit snippet --output snippet.sh
	assert_status 0
	[ "$(mode snippet.sh)" = 600 ] || fail "$(mode snippet.sh)"
	flmem start --role client --emit sub_start --output sub_start.sh
	[ "$(mode sub_start.sh)" = 700 ] || fail "$(mode sub_start.sh)"
	umask 022
	rm run.rec
	flmem watch --pid "$VICTIM" --interval 20ms --duration 300ms --record run.rec --report page.html
	assert_status 0
	[ "$(mode page.html) $(mode run.rec)" = "600 600" ] || fail "page.html was opened to others"
	flmem start --role client --emit sub_start --output sub_start.sh --force
	[ "$(mode sub_start.sh)" = 700 ] || fail "sub_start.sh was opened to others"
	rm page.html sub_start.sh
	flmem watch --replay run.rec --report page.html
	[ "$(mode page.html)" = 644 ]
	flmem start --role client --emit sub_start --output sub_start.sh
	[ "$(mode sub_start.sh)" = 755 ]
	umask 027
	flmem start --role client --emit sub_start --output other.sh
	[ "$(mode other.sh)" = 750 ]
}
