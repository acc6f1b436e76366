#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# `flmem start --supervise`: the control files of NVFlare's start script, and their meaning.

# What stands in single quotes is for another shell; every test has its own VICTIMS.
# shellcheck disable=SC2016,SC2030,SC2031
load helpers

PYTHON=/usr/bin/python3

setup() {
	unset MALLOC_ARENA_MAX MALLOC_CONF LD_PRELOAD
	W=$BATS_TEST_TMPDIR/workspace
	LOG=$BATS_TEST_TMPDIR/log
	mkdir "$W"
	cd "$BATS_TEST_TMPDIR" || return
	# Ends in order when it is asked to, after a moment; prints the signal.
	cat >polite.py <<-'END'
		import os, signal, sys, time
		def caught(number, frame):
		    print("caught", number, flush=True)
		    if number == signal.SIGTERM:
		        time.sleep(0.3)
		        print("in order", flush=True)
		        sys.exit(7)
		for number in (signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2, signal.SIGHUP, signal.SIGINT):
		    signal.signal(number, caught)
		print("up", os.getpid(), flush=True)
		while True:
		    time.sleep(0.05)  # short: one that arrives just before it does not end it
	END
	cat >stubborn.py <<-'END'
		import signal, time
		signal.signal(signal.SIGTERM, signal.SIG_IGN)
		print("up", flush=True)
		time.sleep(600)
	END
}

teardown() {
	local pid
	for pid in "${SUPERVISORS[@]}"; do
		kill -KILL "$pid" 2>/dev/null || true
	done
	# End the processes that the supervisors had started, by their announcements.
	[ ! -e "$LOG" ] || sed -n 's/.*process \([0-9]*\) started$/\1/p' "$LOG" | while read -r pid; do
		kill -KILL "$pid" 2>/dev/null || true
	done
	stop_victims
}

SUPERVISORS=()

# supervise [OPTIONS] -- COMMAND: runs it in the background; SUPERVISOR is its pid, LOG its output.
supervise() {
	"$FLMEM" start --role client --supervise --workspace "$W" "$@" >"$BATS_TEST_TMPDIR/out" 2>"$LOG" \
		3>&- </dev/null &
	SUPERVISOR=$!
	SUPERVISORS+=("$SUPERVISOR")
}

# Runs supervise, and waits until the command has printed that it runs; COMMAND is its pid.
supervise_up() {
	supervise "$@"
	wait_until 60 is_up
	COMMAND=$(command_pid)
}

# wait_anew PID STARTS: waits until another process is the command, and all its starts were
# announced.
wait_anew() {
	wait_until 60 runs_anew "$1"
	wait_until 60 eval '[ "$(grep -c ^up out)" = '"$2"' ]'
}

# Requests the end and waits for it.
shut_down() {
	touch "$W/shutdown.fl"
	await_end
	[ "$ended" = 0 ] || fail "ended with $ended"
}

# Prints the command's pid, when it is alive, found as NVFlare's script does.
command_pid() {
	local pid
	pid=$(cat "$W/pid.fl" 2>/dev/null) && [ -n "$pid" ] && kill -0 "$pid" 2>/dev/null && echo "$pid"
}

is_up() {
	command_pid >/dev/null && grep -q '^up' "$BATS_TEST_TMPDIR/out"
}

runs_anew() {
	local now
	now=$(command_pid) && [ "$now" != "$1" ]
}

is_gone() {
	! alive "$1"
}

# Waits for the supervisor; its exit status is in $ended.
await_end() {
	ended=0
	wait_until 60 is_gone "$SUPERVISOR"
	wait "$SUPERVISOR" || ended=$?
}

assert_no_files() {
	local left
	left=$(ls -A "$W")
	[ -z "$left" ] || fail "left behind: $left"
}

said() {
	grep -q "$1" "$LOG"
}

never_said() {
	! said "$1"
}

# Prints the first kernel thread, if this pid namespace has any.
kernel_thread() {
	local status
	for status in /proc/[0-9]*/status; do
		if grep -qs '^Kthread:[[:space:]]*1' "$status" || grep -qsx 'Name:[[:space:]]*kthreadd' "$status"; then
			basename "$(dirname "$status")"
			return
		fi
	done
}

@test "pid.fl holds the command itself, daemon_pid.fl the supervisor" {
	supervise_up -- "$PYTHON" polite.py
	[ "$(cat "$W/daemon_pid.fl")" = "$SUPERVISOR" ]
	[ "up $(cat "$W/pid.fl")" = "$(cat out)" ]
	[ "$(tr '\0' ' ' <"/proc/$(command_pid)/cmdline")" = "$PYTHON polite.py " ]
	[ "$(wc -l <"$W/pid.fl")" = 1 ]
	[ "$(ls -A "$W")" = $'daemon_pid.fl\npid.fl' ]
	tr '\0' '\n' <"/proc/$(command_pid)/environ" | grep -qx MALLOC_ARENA_MAX=2
}

@test "shutdown.fl ends the command politely, then the supervisor, with status 0" {
	supervise_up -- "$PYTHON" polite.py
	local pid=$COMMAND
	shut_down
	grep -q '^in order' out
	is_gone "$pid"
	assert_no_files
}

@test "restart.fl ends the command and starts it again at once" {
	supervise_up -- "$PYTHON" polite.py
	local pid round
	for round in 1 2 3; do
		pid=$(command_pid)
		touch "$W/restart.fl"
		wait_until 60 runs_anew "$pid"
		is_gone "$pid"
		[ ! -e "$W/restart.fl" ]
		wait_until 60 eval '[ "$(grep -c ^up out)" = '$((round + 1))' ]'
	done
	[ "$(grep -c '^in order' out)" = 3 ]
	alive "$SUPERVISOR"
	[ "$(grep -c ' started$' "$LOG")" = 4 ]
}

@test "a request that is moved into place, or taken away at once, counts" {
	supervise_up -- "$PYTHON" polite.py
	local pid=$COMMAND
	touch request
	mv request "$W/restart.fl"
	wait_anew "$pid" 2
	"$PYTHON" -c 'import os, sys; open(sys.argv[1], "w").close(); os.remove(sys.argv[1])' "$W/shutdown.fl"
	await_end
	[ "$ended" = 0 ]
	assert_no_files
}

@test "a command that ignores SIGTERM is killed after the grace period" {
	supervise_up --grace 200ms -- "$PYTHON" stubborn.py
	local pid=$COMMAND
	shut_down
	said 'did not exit in time and is killed'
	said "process $pid ended by signal 9"
	is_gone "$pid"
	assert_no_files
}

@test "a command that ends by itself, or is killed, is started again" {
	supervise_up -- "$PYTHON" polite.py
	local pid=$COMMAND
	kill -KILL "$pid"
	wait_until 60 runs_anew "$pid"
	said "process $pid ended by signal 9"
	alive "$SUPERVISOR"
}

@test "a command that cannot stay up is given up after 5 starts" {
	for file in shutdown.fl restart.fl; do touch "$W/$file"; done
	supervise -- sh -c 'echo run >>runs; exit 3'
	await_end
	[ "$ended" = 7 ]
	[ "$(wc -l <runs)" = 5 ]
	said 'System is in trouble and unable to start the task!!!!!'
	said 'ended with status 3'
	assert_no_files
}

@test "requested restarts count as starts too" {
	supervise_up -- "$PYTHON" polite.py
	local pid round
	for round in 1 2 3 4; do
		pid=$(command_pid)
		touch "$W/restart.fl"
		wait_anew "$pid" $((round + 1))
	done
	touch "$W/restart.fl"
	await_end
	[ "$ended" = 7 ]
	said 'System is in trouble'
	assert_no_files
}

@test "a shutdown is not missed while nothing runs" {
	supervise -- sh -c 'exit 1'
	wait_until 60 said 'ended with status 1'
	shut_down
	assert_no_files
}

@test "requests from before the start do not count" {
	touch "$W/shutdown.fl" "$W/restart.fl"
	supervise_up -- "$PYTHON" polite.py
	[ ! -e "$W/shutdown.fl" ]
	[ ! -e "$W/restart.fl" ]
	sleep 0.3
	alive "$SUPERVISOR"
	[ "$(grep -c ' started$' "$LOG")" = 1 ]
}

@test "a second supervisor is refused, also when the file is lost" {
	supervise_up -- "$PYTHON" polite.py
	local pid=$COMMAND
	flmem start --role client --supervise --workspace "$W" -- touch started
	assert_error 7 "process $SUPERVISOR supervises '$W' already; stop it with: touch $W/shutdown.fl"
	rm "$W/daemon_pid.fl"
	flmem start --role client --supervise --workspace "$W" -- touch started
	assert_error 7 "another process supervises"
	[ ! -e started ]
	[ "$(command_pid)" = "$pid" ]
}

@test "NVFlare's own supervisor is respected" {
	printf '#!/usr/bin/env bash\nwhile :; do sleep 0.2; done\n' >sub_start.sh
	chmod +x sub_start.sh
	./sub_start.sh 3>&- </dev/null &
	VICTIMS+=("$!")
	wait_until 60 grep -qz bash "/proc/$!/cmdline"
	echo "$!" >"$W/daemon_pid.fl"
	flmem start --role client --supervise --workspace "$W" -- touch started
	assert_error 7 "process $! supervises"
	[ ! -e started ]
	[ "$(cat "$W/daemon_pid.fl")" = "$!" ]
}

# The state after a restart of a container, or of a host whose workspace was copied: the file is
# new, and its number is that of a process that never supervised anything.
@test "a process that is not a script does not block the start" {
	local name
	sleep 600 &
	VICTIMS+=("$!")
	wait_until 60 grep -q ^sleep "/proc/$!/cmdline" # before that it is a shell
	for name in "$!" 1 "$(kernel_thread)"; do
		[ -n "$name" ] || { skip_part "$BATS_TEST_DESCRIPTION: needs a kernel thread"; continue; }
		tr '\0' '\n' <"/proc/$name/cmdline" | head -1 | grep -q 'sh$' && continue
		echo "$name" >"$W/daemon_pid.fl"
		supervise_up -- "$PYTHON" polite.py
		[ "$(cat "$W/daemon_pid.fl")" = "$SUPERVISOR" ]
		shut_down
		: >out
	done
	alive "${VICTIMS[0]}"
}

@test "what a dead supervisor left does not hinder, also when its PID is reused" {
	local content
	sleep 600 &
	VICTIMS+=("$!")
	for content in "$!" 4194303 1 '' garbage -5 99999999999 "$(head -c 3000 /dev/zero | tr '\0' 1)"; do
		echo "$content" >"$W/daemon_pid.fl"
		echo "$content" >"$W/pid.fl"
		touch -d '3 days ago' "$W/daemon_pid.fl" "$W/pid.fl"
		[ "$content" = 1 ] && touch -d '1971-01-01' "$W/daemon_pid.fl" "$W/pid.fl"
		supervise_up -- "$PYTHON" polite.py
		[ "$(cat "$W/daemon_pid.fl")" = "$SUPERVISOR" ]
		shut_down
		: >out
	done
	alive "${VICTIMS[0]}"
}

@test "a command that outlived its supervisor is taken over, not doubled" {
	supervise_up -- "$PYTHON" polite.py
	local pid=$COMMAND
	kill -KILL "$SUPERVISOR"
	wait "$SUPERVISOR" || true
	[ "$(command_pid)" = "$pid" ]
	VICTIMS+=("$pid")
	supervise -- "$PYTHON" polite.py
	wait_until 60 said "process $pid was already running"
	[ "$(cat "$W/daemon_pid.fl")" = "$SUPERVISOR" ]
	touch "$W/restart.fl"
	wait_until 60 runs_anew "$pid"
	is_gone "$pid"
	shut_down
	assert_no_files
}

@test "SIGTERM ends both, with the command's exit status" {
	supervise_up -- "$PYTHON" polite.py
	kill -TERM "$SUPERVISOR"
	await_end
	[ "$ended" = 7 ]
	grep -q '^caught 15' out
	assert_no_files
}

@test "a command that dies of the signal makes the supervisor die of it" {
	supervise -- sleep 600
	wait_until 60 command_pid
	kill -TERM "$SUPERVISOR"
	await_end
	[ "$ended" = 143 ]
	assert_no_files
}

@test "a signal that is survived ends nothing, others are passed on" {
	supervise_up --grace 100ms -- "$PYTHON" polite.py
	local pid=$COMMAND name
	for name in USR1 USR2 HUP; do
		kill "-$name" "$SUPERVISOR"
		wait_until 60 grep -q "^caught $(kill -l "$name")" out
	done
	[ "$(command_pid)" = "$pid" ]
	sleep 0.2
	kill -KILL "$pid"
	wait_until 60 runs_anew "$pid"
}

@test "SIGHUP that ends the command ends the supervision" {
	supervise -- sleep 600
	wait_until 60 command_pid
	kill -HUP "$SUPERVISOR"
	await_end
	[ "$ended" = 129 ]
	assert_no_files
}

@test "SIGTERM to a stubborn command becomes SIGKILL after the grace period" {
	supervise_up --grace 200ms -- "$PYTHON" stubborn.py
	kill -TERM "$SUPERVISOR"
	await_end
	[ "$ended" = 137 ]
	assert_no_files
}

@test "Ctrl-C, which the terminal sends to both, is not passed on a second time" {
	cat >terminal.py <<-'END'
		import os, pty, sys, time
		pid, fd = pty.fork()
		if pid == 0:
		    os.execvp(sys.argv[1], sys.argv[1:])
		seen = b""
		def wait_for(text):
		    global seen
		    while text not in seen:
		        try:
		            seen += os.read(fd, 1000)
		        except OSError:
		            sys.exit(f"ended with {os.waitpid(pid, 0)[1]:#x} before {text}: {seen}")
		wait_for(b"up")
		os.write(fd, b"\x03")
		wait_for(b"caught 2")
		os.kill(pid, 15)
		try:
		    while True:
		        seen += os.read(fd, 1000)
		except OSError:
		    pass
		_, status = os.waitpid(pid, 0)
		print(b"receives a signal (2)" in seen, os.waitstatus_to_exitcode(status))
	END
	run_command timeout 60 "$PYTHON" terminal.py "$FLMEM" start --role client --supervise \
		--workspace "$W" -- "$PYTHON" polite.py
	[ "$output" = 'False 7' ]
}

# Makes a program that ends as nvflare.private.fed.app.client.client_train does: the request first,
# then the work, then the end; it has no handler for SIGTERM.
make_nvflare() {
	mkdir -p nvflare/private/fed/app/client
	for directory in nvflare nvflare/private nvflare/private/fed nvflare/private/fed/app nvflare/private/fed/app/client; do
		: >"$directory/__init__.py"
	done
	cat >nvflare/private/fed/app/client/client_train.py <<-'END'
		import os, sys, time
		workspace, request = sys.argv[1:]
		for name in ("restart.fl", "shutdown.fl"):
		    if os.path.exists(os.path.join(workspace, name)):
		        os.remove(os.path.join(workspace, name))
		print("up", flush=True)
		if request and not os.path.exists("requested"):
		    open("requested", "w").close()
		    open(os.path.join(workspace, request), "a").close()
		    time.sleep(1.5)
		    print("closed in order", flush=True)
		    sys.exit(0)
		time.sleep(600)
	END
}

@test "NVFlare's own shutdown: request, orderly end, no SIGTERM" {
	make_nvflare
	supervise -- "$PYTHON" -u -m nvflare.private.fed.app.client.client_train "$W" shutdown.fl
	await_end
	[ "$ended" = 0 ]
	grep -q '^closed in order' out
	said 'shuts down on request'
	never_said 'SIGTERM'
	said 'ended with status 0'
	assert_no_files
}

@test "NVFlare's own restart: request, orderly end, a new process" {
	make_nvflare
	supervise -- "$PYTHON" -u -m nvflare.private.fed.app.client.client_train "$W" restart.fl
	wait_until 60 eval '[ "$(grep -c ^up out)" = 2 ]'
	grep -q '^closed in order' out
	never_said 'SIGTERM'
	[ ! -e "$W/restart.fl" ]
	command_pid
}

@test "an NVFlare process behind a wrapper gets its time too" {
	make_nvflare
	printf '#!/bin/sh\n"$@"\n' >wrapper
	chmod +x wrapper
	supervise -- ./wrapper "$PYTHON" -u -m nvflare.private.fed.app.client.client_train "$W" shutdown.fl
	await_end
	[ "$ended" = 0 ]
	grep -q '^closed in order' out
	never_said 'SIGTERM'
}

@test "one that does not end by itself is asked after --wait" {
	make_nvflare
	supervise_up --wait 300ms -- "$PYTHON" -u -m nvflare.private.fed.app.client.client_train "$W" ''
	shut_down
	said 'ended by signal 15'
}

@test "a lost pid.fl is written again" {
	supervise_up -- "$PYTHON" polite.py
	local pid=$COMMAND
	rm "$W/pid.fl"
	wait_until 60 command_pid
	[ "$(command_pid)" = "$pid" ]
	[ "$(grep -c ' started$' "$LOG")" = 1 ]
}

@test "the command has the signals that flmem found" {
	run_command env --default-signal "$PYTHON" -c '
import re
status = open("/proc/self/status").read()
print(re.findall(r"Sig(?:Ign|Blk):\s+\w+", status))'
	local bare=$output
	env --default-signal "$FLMEM" start --role client --supervise --workspace "$W" -- "$PYTHON" -c '
import os, re, sys
status = open("/proc/self/status").read()
print(re.findall(r"Sig(?:Ign|Blk):\s+\w+", status), flush=True)
open(sys.argv[1] + "/shutdown.fl", "w").close()' "$W" >out 2>"$LOG"
	[ "$(cat out)" = "$bare" ]
}

@test "jemalloc is proven once and then holds for every start" {
	requires /usr/lib/x86_64-linux-gnu/libjemalloc.so.2
	supervise_up --jemalloc -- "$PYTHON" polite.py
	grep -q libjemalloc "/proc/$(command_pid)/maps"
	[ "$(grep -c libjemalloc "/proc/$SUPERVISOR/maps")" = 0 ]
}

@test "bad input is refused and nothing is started" {
	flmem start --role client --supervise -- touch started
	assert_error 2 '--supervise needs --workspace'
	flmem start --role client --supervise --workspace "$W/none" -- touch started
	assert_error 2 "cannot use the workspace '$W/none': No such file"
	flmem start --role client --supervise --workspace polite.py -- touch started
	assert_error 2 "Not a directory"
	flmem start --role client --supervise --workspace "$W"
	assert_error 2 'no command to start'
	flmem start --role client --workspace "$W" -- touch started
	assert_error 2 'need --supervise'
	flmem start --role client --supervise --workspace "$W" --grace soon -- touch started
	assert_error 2 "invalid duration 'soon' for --grace"
	flmem start --role client --supervise --dry-run --workspace "$W" -- touch started
	assert_error 2 'exclude each other'
	run -127 --separate-stderr "$FLMEM" start --role client --supervise --workspace "$W" -- no-such-command
	assert_error 127 "no such command in PATH"
	[ ! -e started ]
	assert_no_files
}

@test "a workspace that cannot be written is refused" {
	requires root setpriv
	local place
	place=$(mktemp -d)
	chmod 755 "$place"
	run_command setpriv --reuid 65534 --clear-groups "$FLMEM" start --role client --supervise \
		--workspace "$place" -- true
	rmdir "$place"
	assert_error 4 "cannot write '$place/daemon_pid.fl': Permission denied"
}
