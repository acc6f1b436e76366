# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Common to all bats files: `load helpers`. ctest sets FLMEM (the binary), FLMEM_TESTS (this
# tree's tests/) and FLMEM_VICTIMS (the built target programs).
#
#	flmem trim --pid 1	runs it: $status, $output (stdout), $stderr
#	assert_status 3		... and others check the last run
#	start_victim PROGRAM ARGS	sets VICTIM to the pid of a program that printed "ready"
#	assert_victim_unharmed	after every call into VICTIM

bats_require_minimum_version 1.5.0

: "${FLMEM:?run the tests through ctest, or set FLMEM to the binary}"
: "${FLMEM_TESTS:?set FLMEM_TESTS to the tests directory}"

VICTIMS=()
VICTIM_MAY=()

# Runs a function in which bats does not note the place of each command, which takes longer than most
# commands. The place of a failure is that of its caller then.
unnoted() {
	local -
	set +T
	"$@"
}

# Runs flmem with separate stdout and stderr; a failed test shows the whole run.
flmem() {
	unnoted run_apart "flmem $*" "$FLMEM" "$@"
}

# run_apart SHOWN COMMAND: sets $status, $output, its $lines that are not empty, and $stderr, as
# bats' `run --separate-stderr` does in four times the time.
run_apart() {
	set -- "${BATS_TEST_TMPDIR:-$BATS_FILE_TMPDIR}/stderr.$BASHPID" "$@" # a function may use any other name
	set +eE
	output=$("${@:3}" 2>"$1") && status=0 || status=$?
	read -d '' -r stderr <"$1" || true
	show_run "$2"
	split_output
}

# shellcheck disable=SC2034,SC2206 # the tests read them; each word is a line
split_output() {
	local IFS=$'\n'
	set -f
	lines=($output)
}

# Runs flmem, again while it found no moment within a short --timeout, as on a busy machine.
flmem_in_time() {
	local tries
	for tries in {1..50}; do
		flmem "$@"
		[[ $output$stderr == *"try again or give a longer --timeout"* ]] || return 0
	done
	fail "no moment came in $tries tries"
}

# Runs the Python of the tests themselves, as a fork where tests/harness/python_server.py runs;
# targets are started by /usr/bin/python3 or $PYTHON. It cannot be a target, since its command line
# is that of the server.
python() {
	"$FLMEM_VICTIMS/../harness/python" -B "$@"
}

# Runs any other command the same way.
run_command() {
	unnoted run_apart "$*" "$@"
}

show_run() {
	printf '$ %s\nstatus: %s\nstdout: %s\nstderr: %s\n' "$1" "$status" "$output" "$stderr"
}

fail() {
	echo "$*"
	return 1
}

assert_status() {
	[ "$status" -eq "$1" ] || fail "exit status $status, expected $1"
}

# The regular expressions are bash's and are matched against the whole text.
assert_output() {
	[[ $output =~ $1 ]] || fail "stdout does not match: $1"
}

refute_output() {
	[[ ! $output =~ $1 ]] || fail "stdout matches: $1"
}

assert_stderr() {
	[[ $stderr =~ $1 ]] || fail "stderr does not match: $1"
}

# Checks the contract of a failure: its exit status, one line on stderr from flmem, nothing on
# stdout.
assert_error() {
	assert_status "$1"
	[ -z "$output" ] || fail "stdout is not empty"
	[ "$(printf '%s\n' "$stderr" | wc -l)" -eq 1 ] || fail "not one line on stderr"
	[[ $stderr == flmem* ]] || fail "stderr does not say who speaks"
	[ -z "${2:-}" ] || assert_stderr "$2"
}

# Prints the names of all commands, one a line, with their subcommands ("aggregate inspect").
all_commands() {
	local command
	for command in $("$FLMEM" help | rows_of commands); do
		echo "$command"
		"$FLMEM" help "$command" | rows_of subcommands | sed "s/^/$command /"
	done
}

# Prints the first words of the section `$1` of a help text.
rows_of() {
	awk -v head="$1:" '$0 == head { on = 1; next } /^$/ { on = 0 } on && /^  [a-z]/ { print $1 }'
}

# assert_schema NAME: checks that stdout is one JSON object that matches docs/json-schema/NAME.json,
# and would not with any field more or less.
assert_schema() {
	local ended=0
	printf '%s' "$output" | python "$FLMEM_TESTS/schema/check.py" \
		"$FLMEM_TESTS/../docs/json-schema" "$1" || ended=$?
	[ "$ended" != 77 ] || skip "needs python3-jsonschema"
	[ "$ended" = 0 ] || fail "not as docs/json-schema/$1.json says"
}

# Runs a Python program on $output.
examine() {
	python -c "$1" "${@:2}" <<<"$output" || fail "not as it should be"
}

# True if this machine has a GPU of NVIDIA, as flmem decides it.
has_nvidia() {
	local node
	for node in /dev/nvidia[0-9]* /dev/dxg; do
		[ ! -e "$node" ] || return 0
	done
	return 1
}

# True if /usr/bin/python3 can import a module. It is tried once in a run of bats, as NumPy takes
# 0.07 s of processor time and PyTorch 1 s.
has_module() {
	local answer=$BATS_RUN_TMPDIR/module.$1
	if [ ! -s "$answer" ]; then
		python -c "import $1" 2>/dev/null && echo yes >"$answer" || echo no >"$answer"
	fi
	[ "$(<"$answer")" = yes ]
}

# Skips when something is absent: requires zsh jq, requires root, requires python3.9, requires torch
requires() {
	local need
	for need in "$@"; do
		case $need in
		root) [ "$(id -u)" = 0 ] || skip "needs root" ;;
		numpy | torch) has_module "$need" || skip "needs python3-$need" ;;
		victim:*) [ -x "${FLMEM_VICTIMS:-}/${need#victim:}" ] ||
			skip "needs the victim ${need#victim:}, which was not built" ;;
		/*) [ -e "$need" ] || skip "needs $need" ;;
		*) command -v "$need" >/dev/null || skip "needs $need" ;;
		esac
	done
}

# True if flmem is built with AddressSanitizer, which has memory of its own and cannot be combined
# with a preloaded jemalloc.
sanitized() {
	ldd "$FLMEM" | grep -q libasan
}

# Reports that a part of a test was left out; it is in the list at the end of `make check`.
skip_part() {
	echo "SKIP: $*" >&3
}

# Prints the output of tests/harness/pythons.py, which starts every interpreter: once in a run of
# bats.
pythons() {
	local list=$BATS_RUN_TMPDIR/pythons
	[ -s "$list" ] || python "$FLMEM_TESTS/harness/pythons.py" >"$list"
	cat "$list"
}

# each_python COMMAND ARGS: runs it with PYTHON and PYTHON_VERSION set to each CPython that flmem
# samples and runs code in. An absent one is reported; with none at all the test is skipped.
each_python() {
	local version python reason count=0
	while read -r version python reason <&4; do
		if [ "$python" = - ]; then
			skip_part "$BATS_TEST_DESCRIPTION: $reason"
			continue
		fi
		count=$((count + 1))
		echo "with Python $version, $python"
		PYTHON=$python PYTHON_VERSION=$version "$@" 4<&-
		stop_victims
	done 4< <(pythons)
	[ "$count" -gt 0 ] || fail "no Python at all: is tests/harness/pythons.py in order?"
}

# Like each_python, with those that flmem only reads, as far as pyenv or Debian has them.
each_older_python() {
	local python
	for python in /usr/bin/python2 "$HOME"/.pyenv/versions/{2.7,3.6,3.7}.*/bin/python; do
		if [ ! -x "$python" ]; then
			[[ $python != *'*'* ]] || skip_part "$BATS_TEST_DESCRIPTION: no $python"
			continue
		fi
		echo "with $python"
		PYTHON=$python PYTHON_VERSION=older "$@"
		stop_victims
	done
}

# nap SECONDS: sleeps without another process, which costs more processor time than one poll.
nap() {
	local never=$BATS_RUN_TMPDIR/never # a pipe that never has anything to read
	[ -p "$never" ] || mkfifo "$never"
	read -rt "$1" <>"$never" || true
}

# wait_until SECONDS COMMAND: polls until the command succeeds; the time is a limit, not a
# measurement.
wait_until() {
	unnoted poll_until "$@"
}

poll_until() {
	local left=$(($1 * 1000)) step=20
	shift
	until "$@"; do
		[ "$left" -gt 0 ] || fail "did not happen in time: $*" || return 1
		left=$((left - step))
		nap "0.0$step"
		[ "$step" = 50 ] || step=$((step + 1))
	done
}

# Starts a program (a name in FLMEM_VICTIMS, or a path) and waits for its line "ready". Its output
# is in $VICTIM_LOG. The teardown below ends it.
start_victim() {
	local program=$1
	shift
	[[ $program == */* ]] || program=$FLMEM_VICTIMS/$program
	VICTIM_LOG=$BATS_TEST_TMPDIR/victim.${#VICTIMS[@]}
	: >"$VICTIM_LOG" # remove the output of an earlier victim in the same place
	"$program" "$@" >"$VICTIM_LOG" 2>&1 3>&- </dev/null &
	VICTIM=$!
	VICTIMS+=("$VICTIM")
	wait_until "${VICTIM_TIMEOUT:-60}" victim_ready_or_gone "$VICTIM" "$VICTIM_LOG"
	alive "$VICTIM" || fail "$program ended early: $(cat "$VICTIM_LOG")"
	snapshot_victim "$VICTIM"
}

# Like start_victim, for a program that ends when its standard input does: a pipe whose other end
# the test holds.
start_reader() {
	local program=$1
	shift
	[[ $program == */* ]] || program=$FLMEM_VICTIMS/$program
	start_victim /usr/bin/python3 -c '
import os, sys
reader, writer = os.pipe()
os.dup2(reader, 0)
os.set_inheritable(writer, True)
os.execv(sys.argv[1], sys.argv[1:])' "$program" "$@"
}

# Checks a victim without another process, as it is called every 20 ms.
victim_ready_or_gone() {
	local line
	while read -r line || [ -n "$line" ]; do
		[[ $line != ready* ]] || return 0
	done <"$2"
	! alive "$1"
}

# mapfile reads the whole file at once.
alive() {
	local lines line
	{ mapfile -t lines <"/proc/$1/status"; } 2>/dev/null || return 1
	for line in "${lines[@]}"; do
		[[ $line != State:* ]] || break
	done
	[[ $line == State:$'\t'[RSDItT]* ]]
}

# Read the file at once: bash's read goes back after each line, in a file that has changed
# meanwhile.
status_field() {
	awk -v name="$2:" '$1 == name { print $2 }' "/proc/$1/status"
}

# Remembers the state that a call must not change. A snapshot belongs to one process.
snapshot_victim() {
	local pid=${1:-$VICTIM}
	python "$FLMEM_TESTS/harness/unharmed.py" snapshot "$pid" \
		>"$BATS_TEST_TMPDIR/snapshot.$pid"
}

# allow_victim --code|--moved: sets what tests/harness/unharmed.py accepts from now on.
allow_victim() {
	VICTIM_MAY+=("$1")
}

# Runs the checks of tests/harness/unharmed.py.
assert_victim_unharmed() {
	local pid=${1:-$VICTIM} found
	alive "$pid" || fail "the victim died: $(cat "$VICTIM_LOG")"
	[ -s "$BATS_TEST_TMPDIR/snapshot.$pid" ] || fail "there is no snapshot of $pid"
	found=$(python "$FLMEM_TESTS/harness/unharmed.py" check "$pid" \
		"$BATS_TEST_TMPDIR/snapshot.$pid" "${VICTIM_MAY[@]}" 2>&1) || fail "victim $pid: $found"
}

# Ends the programs that start_victim started, by pid, stopped ones included.
stop_victims() {
	local pid
	for pid in "${VICTIMS[@]}"; do
		kill -KILL "$pid" 2>/dev/null || true
		wait "$pid" 2>/dev/null || true
	done
	VICTIMS=()
}

# make_control_group CONTROLLER: makes GROUP, of version 1, or of version 2, which may lack the
# controller.
make_control_group() {
	local parent
	parent=/sys/fs/cgroup/$1$(sed -n "s/^[0-9]*:\(.*,\)*$1\(,.*\)*://p" /proc/self/cgroup)
	[ -d "$parent" ] || parent=/sys/fs/cgroup$(sed -n 's/^0:://p' /proc/self/cgroup)
	mkdir "$parent/flmem-test-$$" 2>/dev/null || skip "needs control groups that may be written"
	GROUP=$parent/flmem-test-$$
}

remove_control_group() {
	[ -z "${GROUP:-}" ] || wait_until 60 rmdir "$GROUP" 2>/dev/null
}

# A file with a separate teardown calls stop_victims there.
teardown() {
	stop_victims
}
