#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# flmem detect on real processes.

load helpers

as_nobody() {
	setpriv --reuid 65534 --regid 65534 --clear-groups --inh-caps=-all --bounding-set=-all "$@"
}

PYTHON=/usr/bin/python3
SLEEP='import time; print("ready", flush=True); time.sleep(1000)'
APP=nvflare.private.fed.app

setup_file() {
	export FAKES=$BATS_FILE_TMPDIR/fakes
	"$PYTHON" "$FLMEM_TESTS/cli/fakes/make-frameworks" "$FAKES"
}

# detect_json ARGUMENTS: runs detect --json; the output must match its schema.
detect_json() {
	flmem detect --json "$@"
	assert_schema detect
}

# Prints the value of a Python expression for the report `r`, its processes `ps` and their first one
# `p`.
value() {
	printf '%s' "$output" | python -c '
import json, sys
r = json.load(sys.stdin)
ps = r.get("processes")
p = ps[0] if ps else None
print(eval("(" + sys.argv[1] + ")"))' "$1"
}

assert_value() {
	local is
	is=$(value "$1")
	[ "$is" = "$2" ] || fail "$1 is '$is', expected '$2'"
}

start_python() {
	start_victim "$PYTHON" -c "$SLEEP" "$@"
}

# start_module MODULE ARGUMENTS: starts a fake NVFlare process.
start_module() {
	PYTHONPATH=$FAKES start_victim "$PYTHON" -u -m "$APP.$1" "${@:2}"
}

# assert_identity FRAMEWORK ROLE SITE: checks VICTIM or another PID; None where there is none.
assert_identity() {
	flmem detect --json --pid "${4:-$VICTIM}"
	assert_status 0
	assert_value 'p["framework"]' "$1"
	assert_value 'p["role"]' "$2"
	assert_value 'p["site"]' "$3"
}

@test "without a target it reports on the host" {
	flmem detect
	assert_status 0
	assert_output 'system +Linux'
	detect_json
	assert_status 0
	assert_value 'r["host"]["architecture"]' "$(uname -m)"
}

@test "a setting whose reader ignores it is shown so" {
	MALLOC_ARENA_MAX=0 NVFLARE_CLIENT_MEMORY_GC_ROUNDS=two start_python
	flmem detect --pid "$VICTIM"
	assert_status 0
	assert_output 'MALLOC_ARENA_MAX=0 \(environment; not a whole number above 0, so glibc from 2.39 on sets no limit with it\)'
	detect_json --pid "$VICTIM"
	assert_schema detect
	assert_value 'p["settings"]["MALLOC_ARENA_MAX"]["note"]' \
		'not a whole number above 0, so glibc from 2.39 on sets no limit with it'
	assert_value '"flare.init()" in p["settings"]["NVFLARE_CLIENT_MEMORY_GC_ROUNDS"]["note"]' True
}

@test "settings of an allocator that is not in the process are shown so" {
	LD_PRELOAD=/nonexistent/libjemalloc.so.2 MALLOC_CONF=dirty_decay_ms:0 start_python
	flmem detect --pid "$VICTIM"
	assert_status 0
	assert_output 'libjemalloc.so.2 \(environment; not loaded: no jemalloc was found in the process\)'
	detect_json --pid "$VICTIM"
	assert_schema detect
	assert_value '"nothing reads it" in p["settings"]["MALLOC_CONF"]["note"]' True
}

@test "one process: allocator, memory, python, settings, limit" {
	MALLOC_ARENA_MAX=2 PYTORCH_ALLOC_CONF=expandable_segments:True start_python
	flmem detect --pid "$VICTIM"
	assert_status 0
	[ -z "$stderr" ]
	assert_output "process +$VICTIM  /usr/bin/python3 -c"
	assert_output 'allocators +glibc [0-9.]+, shared, serves malloc'
	assert_output 'MALLOC_ARENA_MAX=2 \(environment\)'
	detect_json --pid "$VICTIM"
	assert_status 0
	assert_value '[a["name"] for a in p["allocators"] if a["serves_malloc"]]' "['glibc']"
	assert_value 'p["settings"]["MALLOC_ARENA_MAX"]["value"]' 2
	assert_value 'p["settings"]["PYTORCH_ALLOC_CONF"]["value"]' expandable_segments:True
	assert_value 'p["memory"]["rss_bytes"] == p["memory"]["anon_bytes"] +
		p["memory"]["file_bytes"] + p["memory"]["shmem_bytes"] > 1000000' True
	assert_value 'p["cuda"]["used_bytes"]' 0
	assert_value 'p["pid"]' "$VICTIM"
	assert_value 'p["start_time_ticks"]' "$(awk '{ print $22 }' "/proc/$VICTIM/stat")"
	assert_value 'p["framework"]' None
	assert_victim_unharmed
}

@test "the classes add up to RSS, for every process" {
	start_python
	flmem detect --json --all
	assert_status 0
	assert_value 'len([q for q in ps if q["verdict"]["bytes"]["live_bytes"] is not None]) > 0' True
	assert_value '[q["pid"] for q in ps if q["memory"]["rss_bytes"] is not None and
		sum(v for k, v in q["verdict"]["bytes"].items()
			if k not in ("unknown", "error_bytes")) != q["memory"]["rss_bytes"]]' '[]'
	assert_value '[q["pid"] for q in ps if (q["verdict"]["class"] is None) !=
		("class" in q["verdict"]["unknown"])]' '[]'
}

@test "without the heap it is unknown what is live" {
	start_python
	detect_json --no-heap --pid "$VICTIM"
	assert_status 0
	assert_value 'p["verdict"]["bytes"]["live_bytes"]' 0
	assert_value 'p["verdict"]["bytes"]["unknown_bytes"] == p["memory"]["anon_bytes"]' True
	assert_value 'p["heap"]["unknown"]["in_use_bytes"]' 'heap not read (--no-heap)'
}

@test "one process fits on one screen, in plain characters where the locale has no others" {
	start_python
	LC_ALL=C flmem detect --pid "$VICTIM"
	assert_status 0
	assert_output 'file +#+ +[0-9.]+ MiB +[0-9]+ %'
	[ "$(printf '%s\n' "$output" | wc -l)" -le 24 ] || fail "more than 24 lines"
	[ "$(printf '%s\n' "$output" | wc -L)" -le 80 ] || fail "wider than 80 columns"
	[[ $output != *[^[:print:][:space:]]* ]] || fail "not ASCII"
	LC_ALL=C.UTF-8 flmem detect --pid "$VICTIM"
	assert_output 'file +█+'
}

@test "a preloaded jemalloc serves malloc, beside glibc" {
	local library
	library=$(find /usr/lib -name 'libjemalloc.so.2' | head -n 1)
	[ -n "$library" ] || skip "needs libjemalloc2"
	LD_PRELOAD=$library MALLOC_CONF=dirty_decay_ms:5000 start_python
	detect_json --pid "$VICTIM"
	assert_status 0
	assert_value '[a["name"] for a in p["allocators"] if a["serves_malloc"]]' "['jemalloc']"
	assert_value '"glibc" in [a["name"] for a in p["allocators"]]' True
	assert_value 'p["settings"]["LD_PRELOAD"]["value"]' "$library"
	assert_value 'p["settings"]["MALLOC_CONF"]["value"]' dirty_decay_ms:5000
}

tell_the_version() {
	local expected
	start_victim "$PYTHON" -c "import sys, time
sys.stdout.write('ready\n'); sys.stdout.flush(); time.sleep(1000)"
	expected=$("$PYTHON" -c 'import sys; print(sys.version.split()[0])')
	flmem detect --json --pid "$VICTIM"
	assert_status 0
	assert_value 'p["python"]["version"]' "$expected"
}

@test "the version of every python that is here" {
	each_python tell_the_version
	each_older_python tell_the_version
}

@test "a program without python has none" {
	start_victim /bin/sh -c 'echo ready; exec sleep 1000'
	wait_until 60 grep -q sleep "/proc/$VICTIM/comm"
	detect_json --pid "$VICTIM"
	assert_value 'p["python"]' None
	assert_value '"python" in p["unknown"]' False
}

@test "the processes of NVFlare and their sites" {
	start_module server.server_train -m /ws -s fed_server.json --set secure_train=true org=o
	assert_identity nvflare server None
	start_module server.runner_process -m /ws -n job-1 -t the-secret -ts the-secret -d the-secret
	assert_identity nvflare server-job None
	refute_output the-secret
	start_module client.client_train -m /ws -s fed_client.json --set uid=site-4 org=o
	assert_identity nvflare client site-4
	start_module client.worker_process -m /ws -t the-secret -ts the-secret -d the-secret -c site-5
	assert_identity nvflare client-job site-5
	refute_output the-secret
	assert_output '-t <redacted> -ts <redacted> -d <redacted> -c site-5'
	start_module client.sub_worker_process -m /ws --ports 1-2-3
	assert_identity nvflare client-job None
	start_module relay.relay -m /ws --set uid=relay-1
	assert_identity nvflare None relay-1
	assert_value 'p["part"]' relay
}

@test "tokens of NVFlare 2.9 stay in the environment of the process" {
	export NVFLARE_JOB_AUTH_TOKEN=the-secret NVFLARE_JOB_TOKEN_SIGNATURE=the-secret
	export NVFLARE_JOB_SSID=the-secret NVFLARE_STREAMING_MAX_BLOB_SIZE=1
	start_module client.worker_process -m /ws -n job-1 -c site-1
	assert_identity nvflare client-job site-1
	refute_output the-secret
	assert_value 'p["settings"]["NVFLARE_JOB_AUTH_TOKEN"]["value"]' '<redacted>'
	assert_value 'p["settings"]["NVFLARE_STREAMING_MAX_BLOB_SIZE"]["value"]' 1
	flmem detect --pid "$VICTIM"
	refute_output the-secret
}

@test "external trainers of NVFlare, up to 2.8 and from 2.9 on" {
	local directory=$BATS_TEST_TMPDIR/job/app_site-8
	mkdir -p "$directory"
	cd "$directory"
	CLIENT_API_TYPE=EX_PROCESS_API start_victim "$PYTHON" -u "$FAKES/appfl/run_client.py"
	assert_identity nvflare trainer site-8
	NVFLARE_CLIENT_API_BOOTSTRAP=$directory/client_api_bootstrap_1.json start_python
	assert_identity nvflare trainer site-8
	CLIENT_API_TYPE=IN_PROCESS_API start_python
	assert_identity None None None
}

@test "the three simulator processes that share a command line" {
	local launcher manager server
	start_module simulator.simulator job -w ws -n 1 -t 1
	launcher=$VICTIM
	wait_until 60 grep -q '^manager ' "$VICTIM_LOG"
	wait_until 60 grep -q '^server ' "$VICTIM_LOG"
	manager=$(awk '$1 == "manager" { print $2 }' "$VICTIM_LOG")
	server=$(awk '$1 == "server" { print $2 }' "$VICTIM_LOG")
	detect_json --tree "$launcher"
	assert_status 0
	refute_output the-secret
	assert_value 'len(ps)' 4
	assert_value '{q["pid"]: q["role"] for q in ps if q["role"] != "simulator-client"} ==
		{'"$launcher: None, $manager: None, $server"': "simulator-server"}' True
	assert_value '[q["site"] for q in ps if q["role"] == "simulator-client"]' "['site-1']"
	assert_value '{q["framework"] for q in ps}' "{'nvflare'}"
	assert_identity nvflare simulator-server None "$server"
	detect_json --tree "$launcher" --role client
	assert_value '[q["role"] for q in ps]' "['simulator-client']"
	detect_json --tree "$launcher" --role server
	assert_value '[q["pid"] for q in ps]' "[$server]"
}

@test "the processes of Flower" {
	start_victim "$FAKES/bin/flower-superlink" --insecure
	assert_identity flower server None
	start_victim "$FAKES/bin/flower-supernode" --superlink localhost:9092
	assert_identity flower client None
	start_victim "$FAKES/bin/flwr-serverapp" --token the-secret
	assert_identity flower server-job None
	refute_output the-secret
	start_victim "$FAKES/bin/flwr-clientapp" --token=the-secret
	assert_identity flower client-job None
	refute_output the-secret
}

@test "the processes of APPFL, by what their configuration says" {
	cd "$FAKES"
	start_victim "$PYTHON" appfl/run_server.py --config appfl/server.yaml
	assert_identity appfl server None
	start_victim "$PYTHON" appfl/run_client.py --config "$FAKES/appfl/client.yaml"
	assert_identity appfl client Client7
	start_victim "$PYTHON" -c "$SLEEP" --config appfl/server.yaml
	assert_identity None None None
}

@test "several processes make a table" {
	local first
	start_python
	first=$VICTIM
	start_module server.server_train -m /ws
	flmem detect --pid "$first,$VICTIM" --pid "$first"
	assert_status 0
	assert_output 'PID +ROLE +RSS +VERDICT +ALLOCATOR +PYTHON +COMMAND'
	assert_output "$first +- .*glibc"
	assert_output "$VICTIM +server .*glibc"
	[ "$(printf '%s\n' "$output" | wc -l)" -eq 3 ] || fail "not three lines"
}

@test "processes by command line, narrowed by size" {
	local mark=flmem-mark-$$-$RANDOM
	start_python "$mark"
	detect_json --name "flmem-mark-[0-9]+-${mark##*-}\$"
	assert_status 0
	assert_value '[q["pid"] for q in ps]' "[$VICTIM]"
	detect_json --name "$mark" --min-rss 1K
	assert_value 'len(ps)' 1
	flmem detect --name "$mark" --min-rss 1000G
	assert_error 3 'no process matches'
	flmem detect --name "$mark" --role server
	assert_error 3 'no process matches'
}

@test "the shell that starts flmem is not what --name looks for" {
	local mark=flmem-mark-$$-$RANDOM
	run_command bash -c "'$FLMEM' detect --name $mark; status=\$?; exit \$status"
	assert_error 3 "no command line matches --name '$mark'"
}

@test "all processes: flmem itself and kernel threads are not among them" {
	start_python
	flmem detect --json --all
	assert_status 0
	assert_value "$VICTIM in [q['pid'] for q in ps]" True
	assert_value 'any("detect --json --all" in q["command"] for q in ps)' False
	assert_value '2 in [q["pid"] for q in ps] and not p["command"]' False
}

@test "one of two targets is gone: the other is reported" {
	start_python
	flmem detect --json --pid "$VICTIM" --pid 4194303
	assert_status 8
	assert_schema detect
	assert_stderr 'no process 4194303'
	assert_value '[q["pid"] for q in ps]' "[$VICTIM]"
	assert_value 'r["skipped"][0]["code"]' noproc
}

@test "bad targets are refused with one line" {
	flmem detect --pid 0
	assert_error 2 "invalid process ID '0' for --pid"
	flmem detect --pid -1
	assert_error 2 "invalid process ID '-1' for --pid"
	flmem detect --pid 99999999999999999999
	assert_error 2 'invalid process ID'
	flmem detect --pid 4194303
	assert_error 3 'no process 4194303'
	flmem detect --tree 4194303
	assert_error 3 'no process 4194303'
	flmem detect --pid 1 --all
	assert_error 2 '--pid and --all exclude each other'
	flmem detect --name x --tree 1
	assert_error 2 '--name and --tree exclude each other'
	flmem detect --role server
	assert_error 2 '--role only filters targets'
	flmem detect --all --role boss
	assert_error 2 "invalid value 'boss' for --role; choose from server"
	flmem detect --min-rss 5Q --all
	assert_error 2 "invalid size '5Q' for --min-rss"
	flmem detect --name 'a('
	assert_error 2 "invalid regular expression for names: 'a\\('"
	flmem detect --name ''
	assert_error 2 'empty name'
	flmem detect word
	assert_error 2 "unexpected argument 'word'"
}

@test "kernel threads, zombies and threads are refused" {
	local zombie
	if grep -q '^PPid:[[:space:]]0' /proc/2/status && [ ! -s /proc/2/cmdline ]; then
		flmem detect --pid 2
		assert_error 5 'process 2 is a kernel thread'
	fi
	start_victim "$PYTHON" -c 'import os, time
child = os.fork()
if not child: os._exit(0)
os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
print("ready", child, flush=True)
time.sleep(1000)'
	zombie=$(awk '{ print $2 }' "$VICTIM_LOG")
	flmem detect --pid "$zombie"
	assert_error 3 "process $zombie is a zombie: it has exited"
	# A process in a list of inputs is named once, too.
	flmem recommend --pid "$zombie"
	assert_error 3 "flmem recommend: process $zombie is a zombie: it has exited"
	start_victim "$PYTHON" -c 'import threading, time
t = threading.Thread(target=time.sleep, args=(1000,), daemon=True)
t.start()
print("ready", t.native_id, flush=True)
time.sleep(1000)'
	flmem detect --pid "$(awk '{ print $2 }' "$VICTIM_LOG")"
	assert_error 2 'is a thread, not a process'
}

@test "a closed or full standard output is an error" {
	start_python
	# shellcheck disable=SC2016 # expanded by the inner shell
	run_command bash -c '"$FLMEM" detect --pid "$1" >&-' -- "$VICTIM"
	assert_error 7 'cannot write the result'
	# shellcheck disable=SC2016
	run_command bash -c '"$FLMEM" detect --json --pid "$1" >/dev/full' -- "$VICTIM"
	assert_error 7 'cannot write the result'
}

@test "hostile command lines do not reach the terminal" {
	# shellcheck disable=SC2016 # expanded by the inner shell
	start_victim /bin/bash -c 'exec -a "$(printf "a\033[31m\302\233\377b")" \
		/usr/bin/python3 -c "$0"' "$SLEEP"
	flmem detect --pid "$VICTIM"
	assert_status 0
	[[ $output == *'a\x1b[31m\xc2\x9b\xffb'* ]] || fail "not escaped"
	[[ $output != *$'\e'* ]] || fail "an escape came through"
	detect_json --pid "$VICTIM"
	assert_value 'p["command"].startswith("a\\x1b[31m")' True
}

# Runs flmem as nobody.
flmem_as_nobody() {
	run_command setpriv --reuid 65534 --regid 65534 --clear-groups "$FLMEM" "$@"
}

@test "another user's process: what may be read, and the way to the rest" {
	requires root setpriv
	setpriv --reuid 65534 --clear-groups "$FLMEM" --version || skip "nobody may not run $FLMEM"
	MALLOC_ARENA_MAX=2 start_python
	flmem_as_nobody detect --pid "$VICTIM"
	assert_status 4
	assert_stderr "cannot read the memory of process $VICTIM: .*CAP_SYS_PTRACE"
	assert_output 'memory +RSS [0-9]'
	assert_output 'allocators +unknown: '
	flmem_as_nobody detect --json --pid "$VICTIM"
	assert_status 4
	assert_schema detect
	assert_value 'p["allocators"]' None
	assert_value 'p["settings"]' None
	assert_value 'p["memory"]["rss_bytes"] > 0' True
	flmem_as_nobody detect --tree "$VICTIM"
	assert_status 4
	assert_stderr "cannot read the memory of process $VICTIM: .*CAP_SYS_PTRACE"
	flmem_as_nobody recommend --pid "$VICTIM"
	assert_status 4
	refute_output 'checked'
	flmem_as_nobody detect --json --all
	[[ $status == [034] ]]
	refute_output "\"pid\":	$VICTIM,"
}

@test "a process of the same user, without root" {
	requires root setpriv
	setpriv --reuid 65534 --clear-groups "$FLMEM" --version || skip "nobody may not run $FLMEM"
	start_victim "$(command -v setpriv)" --reuid 65534 --regid 65534 --clear-groups \
		"$PYTHON" -c "$SLEEP"
	flmem_as_nobody detect --json --pid "$VICTIM"
	assert_status 0
	assert_schema detect
	assert_value '[a["name"] for a in p["allocators"]]' "['glibc']"
}

@test "a process in other mount and pid namespaces is read through its own root" {
	requires root unshare /bin/busybox
	unshare --mount --pid --fork true || skip "may not make namespaces"
	local inner="
set -e
mount -t tmpfs none $BATS_TEST_TMPDIR/world
cp /bin/busybox $BATS_TEST_TMPDIR/world/busybox
export MALLOC_ARENA_MAX=3
echo ready
exec $BATS_TEST_TMPDIR/world/busybox sleep 1000"
	mkdir "$BATS_TEST_TMPDIR/world"
	start_victim "$(command -v unshare)" --mount --pid --fork --kill-child /bin/sh -c "$inner"
	wait_until 60 grep -q . "/proc/$VICTIM/task/$VICTIM/children"
	local child
	child=$(tr -d ' ' <"/proc/$VICTIM/task/$VICTIM/children")
	wait_until 60 grep -q busybox "/proc/$child/cmdline"
	[ ! -e "$BATS_TEST_TMPDIR/world/busybox" ]
	detect_json --pid "$child"
	assert_status 0
	assert_value 'p["allocators"][0]["path"]' "$BATS_TEST_TMPDIR/world/busybox"
	assert_value 'p["allocators"][0]["linkage"]' static
	assert_value 'p["settings"]["MALLOC_ARENA_MAX"]["value"]' 3
}

@test "what may not be read has one reason, which fits the process" {
	requires root setpriv /usr/bin/python3
	local reason
	start_victim /usr/bin/python3 -uc 'import time; print("ready", flush=True); time.sleep(1000)'
	run_command as_nobody "$FLMEM" detect --pid "$VICTIM"
	assert_status 4
	assert_stderr 'tracing processes of other users or groups needs CAP_SYS_PTRACE'
	run_command as_nobody "$FLMEM" detect --pid "$VICTIM" --pid 1
	assert_status 4
	run_command as_nobody "$FLMEM" detect --pid "$VICTIM" --pid 4194303
	assert_status 8
	[ "$(grep -c 'tracing processes of other users or groups' <<<"$output")" = 1 ]
	start_victim /usr/bin/setpriv --reuid 65534 --regid 65534 --clear-groups /usr/bin/python3 -uc '
import ctypes, time
ctypes.CDLL(None).prctl(4, 0)
print("ready", flush=True)
time.sleep(1000)'
	run_command as_nobody "$FLMEM" detect --pid "$VICTIM"
	assert_status 4
	assert_stderr 'the process is not dumpable'
	run_command as_nobody "$FLMEM" trim --dry-run --pid "$VICTIM"
	assert_error 4 'the process is not dumpable'
}

@test "a /proc of another PID namespace is refused" {
	requires root unshare
	unshare --pid --fork true || skip "no PID namespace can be made here"
	local command
	for command in 'detect --pid 1' 'trim --dry-run --pid 1' 'watch --duration 1s --pid 1'; do
		# shellcheck disable=SC2086 # words
		run_command unshare --pid --fork "$FLMEM" $command
		assert_error 5 'belongs to another PID namespace'
	done
}

@test "without the heap there is no verdict" {
	start_victim /usr/bin/python3 -uc 'import time; print("ready", flush=True); time.sleep(1000)'
	detect_json --no-heap --pid "$VICTIM"
	assert_value 'p["verdict"]["class"]' None
	flmem detect --no-heap --pid "$VICTIM"
	assert_output 'verdict +none: heap not read \(--no-heap\)'
}
