#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# `flmem start --supervise` in workspaces where others may put anything: whom it takes over by
# pid.fl, and whom it never sends a signal.

# What stands in single quotes is for another shell; every test has its own VICTIMS.
# shellcheck disable=SC2016,SC2030,SC2031
load helpers

NOBODY=65534

setup() {
	umask 022
	W=$BATS_TEST_TMPDIR/workspace
	mkdir "$W"
	cd "$BATS_TEST_TMPDIR" || return
}

# start_sleeper [PREFIX...]: starts a `sleep 601`; SLEEPER is its pid.
start_sleeper() {
	"$@" sleep 601 3>&- </dev/null >/dev/null 2>&1 &
	SLEEPER=$!
	VICTIMS+=("$SLEEPER")
	wait_until 60 grep -qz '^601$' "/proc/$SLEEPER/cmdline"
}

# Runs the supervisor under timeout: one that would take a process over also ends it when it is
# ended.
supervise() {
	run --separate-stderr timeout 5 "$FLMEM" start --role client --supervise --wait 1ms --grace 1ms \
		--workspace "$W" -- "$@"
	show_run "flmem start --supervise -- $*"
}

# assert_untouched REASON: checks that it was refused for this reason, the process lives on, and its
# file is there.
assert_untouched() {
	assert_error 4 "$1"
	alive "$SLEEPER" || fail "the process was ended"
	[ -e "$W/pid.fl" ] || fail "pid.fl was removed"
	[ ! -e "$W/daemon_pid.fl" ] || fail "daemon_pid.fl was left"
}

@test "a process that another user names is not taken over, nor signalled" {
	requires root setpriv
	start_sleeper
	echo "$SLEEPER" >"$W/pid.fl"
	chown -R $NOBODY "$W"
	supervise sleep 601
	assert_untouched "names process $SLEEPER, but users other than this one could have written that"
	chown 0 "$W/pid.fl"
	supervise sleep 601
	assert_untouched 'users other than this one'
	chown 0 "$W"
	chown $NOBODY "$W/pid.fl"
	supervise sleep 601
	assert_untouched 'users other than this one'
}

@test "neither is one that others may name, in a file or a directory open to them" {
	start_sleeper
	echo "$SLEEPER" >"$W/pid.fl"
	chmod 666 "$W/pid.fl"
	supervise sleep 601
	assert_untouched 'users other than this one'
	chmod 644 "$W/pid.fl"
	chmod 777 "$W"
	supervise sleep 601
	assert_untouched 'users other than this one'
	chmod 755 "$W"
	ln "$W/pid.fl" other
	supervise sleep 601
	assert_untouched 'users other than this one'
}

@test "a process of another user is not taken over by root" {
	requires root setpriv
	start_sleeper setpriv --reuid $NOBODY --clear-groups
	echo "$SLEEPER" >"$W/pid.fl"
	supervise sleep 601
	assert_untouched "names process $SLEEPER, which runs as another user"
	# A process that could become root again, and one that is root in part.
	stop_victims
	start_sleeper setpriv --euid $NOBODY
	echo "$SLEEPER" >"$W/pid.fl"
	supervise sleep 601
	assert_untouched 'which runs as another user'
}

@test "a process that can become another user again is not taken over" {
	requires root
	local code='import os, time; os.setresuid(0, 0, 65534); time.sleep(601)'
	/usr/bin/python3 -c "$code" 3>&- </dev/null &
	SLEEPER=$!
	VICTIMS+=("$SLEEPER")
	wait_until 60 grep -q "^Uid:.*65534" "/proc/$SLEEPER/status"
	echo "$SLEEPER" >"$W/pid.fl"
	supervise /usr/bin/python3 -c "$code"
	assert_untouched 'which runs as another user'
}

@test "another user does not take over a process of root" {
	requires root setpriv
	start_sleeper
	echo "$SLEEPER" >"$W/pid.fl"
	chown -R $NOBODY "$W"
	chmod 755 "$BATS_TEST_TMPDIR"
	run --separate-stderr setpriv --reuid $NOBODY --clear-groups timeout 5 "$FLMEM" start \
		--role client --supervise --workspace "$W" -- sleep 601
	show_run "flmem start --supervise"
	[[ $stderr != *"cannot use the workspace"* ]] || skip "the test's directory is closed to others"
	assert_untouched 'which runs as another user'
}

@test "a process with another command line is not taken over" {
	start_sleeper
	echo "$SLEEPER" >"$W/pid.fl"
	local words
	for words in 'sleep 602' 'sleep' 'sleep 601 1' 'cat 601' 'sh -c 601'; do
		# shellcheck disable=SC2086
		supervise $words
		assert_untouched "names process $SLEEPER, which runs another command"
	done
}

@test "the job of a workspace that was copied is not taken over" {
	mkdir one two
	printf '#!/bin/sh\n%s\nwhile :; do sleep 0.1; done\n' 'cd "${1:-.}"; echo run >moved' | tee one/job >two/job
	chmod +x one/job two/job
	cd one
	./job 3>&- </dev/null &
	SLEEPER=$!
	VICTIMS+=("$SLEEPER")
	wait_until 60 test -e moved
	cd ../two
	echo "$SLEEPER" >"$W/pid.fl"
	supervise ./job
	assert_untouched "names process $SLEEPER, which was started in another directory"
	# A process that has changed its directory itself.
	cd ../one
	env PWD="$PWD" ./job ../two 3>&- </dev/null &
	SLEEPER=$!
	VICTIMS+=("$SLEEPER")
	wait_until 60 test -e ../two/moved
	echo "$SLEEPER" >"$W/pid.fl"
	supervise ./job ../two
	[[ $stderr == *"process $SLEEPER was already running"* ]] || fail "not taken over: $stderr"
}

@test "a process of another pid namespace is not taken over" {
	requires root unshare pgrep
	unshare --pid --fork true || skip "no pid namespace can be made here"
	unshare --pid --fork --kill-child sleep 601 3>&- </dev/null &
	VICTIMS+=("$!")
	wait_until 60 eval 'pgrep -P '$!' >/dev/null'
	SLEEPER=$(pgrep -P $!)
	wait_until 60 grep -qz '^601$' "/proc/$SLEEPER/cmdline"
	echo "$SLEEPER" >"$W/pid.fl"
	supervise sleep 601
	assert_untouched 'in another pid namespace'
}

@test "the first process is not taken over" {
	requires root unshare
	unshare --pid --fork --mount-proc true || skip "no pid namespace can be made here"
	# Run in a namespace whose first process it is for.
	run --separate-stderr unshare --pid --fork --kill-child --mount-proc sh -c '
		trap : TERM
		echo 1 >"$1/pid.fl"
		timeout 5 "$2" start --role client --supervise --workspace "$1" -- sleep 601
		exit $?' sh "$W" "$FLMEM"
	show_run "flmem start --supervise"
	assert_error 4 'names process 1, which belongs to the system'
}

@test "nor is one that flmem descends from" {
	cat >again.sh <<-'END'
		#!/bin/sh
		echo $$ >"$1/pid.fl"
		timeout 5 "$2" start --role client --supervise --workspace "$1" -- ./again.sh "$@"
	END
	chmod +x again.sh
	run --separate-stderr ./again.sh "$W" "$FLMEM"
	show_run again.sh
	assert_error 4 'which has started this one'
}

@test "what is not a regular file is neither followed nor read" {
	start_sleeper
	echo "$SLEEPER" >named
	ln -s "$PWD/named" "$W/pid.fl"
	supervise sleep 601
	assert_error 7 'pid.fl in .* is not a regular file'
	alive "$SLEEPER"
	rm "$W/pid.fl"
	mkfifo "$W/pid.fl"
	supervise sleep 601
	assert_error 7 'is not a regular file'
	rm "$W/pid.fl"
	ln -s "$PWD/named" "$W/daemon_pid.fl"
	supervise sleep 601
	assert_error 7 'daemon_pid.fl in .* is not a regular file'
	[ "$(cat named)" = "$SLEEPER" ]
	alive "$SLEEPER"
}

@test "a script that outlived its supervisor is known by its words behind the interpreter" {
	mkdir bin
	printf '#!/bin/sh\necho run >>"$2"\nwhile :; do sleep 0.1; done\n' >bin/job
	chmod +x bin/job
	PATH=$PWD/bin:$PATH job 601 "$PWD/runs" 3>&- </dev/null &
	SLEEPER=$!
	VICTIMS+=("$SLEEPER")
	wait_until 60 test -e runs
	echo "$SLEEPER" >"$W/pid.fl"
	PATH=$PWD/bin:$PATH "$FLMEM" start --role client --supervise --workspace "$W" -- \
		job 601 "$PWD/runs" 2>log 3>&- </dev/null &
	local supervisor=$!
	VICTIMS+=("$supervisor")
	wait_until 60 grep -q "process $SLEEPER was already running" log
	touch "$W/shutdown.fl"
	wait_until 60 eval '! alive '"$supervisor"
	! alive "$SLEEPER" || fail "the script was not ended"
	[ "$(wc -l <runs)" = 1 ]
}

@test "a workspace that is exchanged for another while it is supervised stays the one" {
	"$FLMEM" start --role client --supervise --wait 1ms --workspace "$W" -- sleep 601 2>log 3>&- \
		</dev/null &
	local supervisor=$!
	VICTIMS+=("$supervisor")
	wait_until 60 test -s "$W/pid.fl"
	local first
	first=$(cat "$W/pid.fl")
	VICTIMS+=("$first")
	mv "$W" aside
	mkdir "$W"
	echo mine >"$W/pid.fl"
	touch aside/restart.fl
	wait_until 60 eval '[ "$(grep -c " started$" log)" = 2 ]'
	wait_until 60 eval '[ "$(cat aside/pid.fl)" != '"$first"' ]'
	VICTIMS+=("$(cat aside/pid.fl)")
	[ "$(cat "$W/pid.fl")" = mine ] || fail "written to another directory"
	touch aside/shutdown.fl
	wait_until 60 eval '! alive '"$supervisor"
	[ -z "$(ls -A aside)" ]
	[ "$(ls -A "$W")" = pid.fl ]
}

@test "a directory is not a request" {
	mkdir "$W/shutdown.fl" "$W/restart.fl"
	supervise sleep 601
	[ "$(grep -c ' started$' <<<"$stderr")" = 1 ] || fail "restarted"
	[[ $stderr != *'on request'* ]] || fail "a directory counted"
	rmdir "$W/shutdown.fl" "$W/restart.fl"
	[ -z "$(ls -A "$W")" ]
}

# The directory of others only lets the owner of a file remove it.
@test "a request that cannot be removed is refused before the start, and counts once after it" {
	requires root setpriv
	local open
	open=$(mktemp -d /tmp/flmem-sticky-XXXXXX)
	W=$open/workspace
	mkdir "$W"
	chmod 755 "$open"
	chmod 1777 "$W"
	# This directory may be closed to others; the command finds the library beside it.
	mkdir -m 755 "$open/cli" "$open/libcore"
	install -m 755 "$FLMEM" "$open/cli/flmem"
	install -m 755 "${FLMEM%/cli/*}"/libcore/libflmem.so.0 "$open/libcore/"
	touch "$W/shutdown.fl"
	run --separate-stderr setpriv --reuid $NOBODY --clear-groups timeout 5 "$open/cli/flmem" start \
		--role client --supervise --workspace "$W" -- sleep 601
	show_run "flmem start --supervise"
	assert_error 4 'shutdown.fl in .* cannot be removed'
	rm "$W/shutdown.fl"
	setpriv --reuid $NOBODY --clear-groups "$open/cli/flmem" start --role client --supervise --wait 1ms \
		--workspace "$W" -- sleep 601 2>log 3>&- </dev/null &
	local supervisor=$!
	VICTIMS+=("$supervisor")
	wait_until 60 test -s "$W/pid.fl"
	touch "$W/restart.fl"
	wait_until 60 grep -q 'takes no further restart requests: restart.fl cannot be removed' log
	wait_until 60 eval '[ "$(grep -c " started$" log)" = 2 ]'
	touch "$W/shutdown.fl"
	wait_until 60 eval '! alive '"$supervisor"
	rm -r "$open"
	[ "$(grep -c ' started$' log)" = 2 ] || fail "$(cat log)"
}
