#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2016,SC2030,SC2031 # bats' run sets output in each test
# `flmem recommend --troubleshoot`, and the kernel's log as an input.

load helpers

JOBS=$FLMEM_TESTS/fixtures/jobs
GROUP=

teardown() {
	stop_victims
	if [ -n "$GROUP" ] && [ -d "$GROUP" ]; then
		wait_until 60 rmdir "$GROUP"
	fi
}

@test "--troubleshoot evaluates a live client's list with the job that it runs" {
	local job=$BATS_TEST_TMPDIR/job
	python "$FLMEM_TESTS/cli/fakes/make-frameworks" "$BATS_TEST_TMPDIR/fakes"
	export PYTHONPATH=$BATS_TEST_TMPDIR/fakes
	MALLOC_ARENA_MAX=4 start_victim /usr/bin/python3 -u \
		-m nvflare.private.fed.app.client.worker_process -m /ws -n job-1 -c site-1
	cp -r "$JOBS/fedavg-tuned" "$job"
	mkdir -p "$job/app/custom"
	printf 'import nvflare.client as flare\nflare.send(model, clear_cache=False)\n' \
		>"$job/app/custom/train.py"
	# The job is named, as the kernel may have killed in this test's own control group.
	flmem recommend --troubleshoot --pid "$VICTIM" --role client "$job"
	assert_status 0
	assert_output "process $VICTIM \(client-job\)"$'\nHigh RSS on client, as set by --role'
	assert_output '1\. \[ \] Confirm .*train.py:2:.*clear_cache is False \(NVF-CLEAR-CACHE-FALSE\)'
	assert_output '2\. \[ \] Check .*MALLOC_ARENA_MAX is 4 \(LIVE-ARENA-CLIENT-4\)'
	assert_output '3\. \[x\] Start .*memory_gc_rounds is 1 in the job'
	assert_output "4\\. \\[\\?\\] Increase .*flmem watch --pid $VICTIM --record run.rec"
	flmem recommend --troubleshoot --pid "$VICTIM" --role client "$job" --json --fail-on error
	assert_status 1
	assert_schema recommend
	examine '
import json, sys
[walk] = json.load(sys.stdin)["troubleshooting"]
assert walk["list"] == "client"
states = [(step["id"], step["state"]) for step in walk["steps"]]
assert states[:4] == [("CLI-CLEAR-CACHE", "not-done"), ("CLI-ARENA", "not-done"),
                      ("CLI-GC", "done"), ("CLI-INTERVAL", "cannot-tell")], states
assert [s for _, s in states[5:]] == ["not-done"], states'
	assert_victim_unharmed
	flmem recommend --troubleshoot --pid "$VICTIM" --role server
	assert_output 'High RSS on server, as set by --role'
	flmem recommend --troubleshoot --pid "$VICTIM" --format sarif
	assert_error 2 'cannot be combined'
}

@test "--troubleshoot evaluates recorded processes, and asks for what it cannot know" {
	local leak=$FLMEM_TESTS/recordings/leak20-glibc-1.rec
	flmem recommend --troubleshoot "$leak"
	assert_error 2 'set it with --role'
	flmem recommend --troubleshoot
	assert_error 2 'no process given'
	flmem recommend --troubleshoot "$JOBS"
	assert_error 2 'no process given'
	flmem recommend --troubleshoot --pid 4194304
	assert_error 3
	flmem recommend --troubleshoot --role client "$leak" "$JOBS/fedavg-tuned" --json
	assert_status 0
	assert_schema recommend
	assert_output 'RSS is not stable: climbing'
	flmem recommend --troubleshoot --role server "$leak" "$JOBS/fedavg-tuned" /nonexistent
	assert_status 8
	assert_stderr 'nonexistent: cannot be read'
	assert_output '2\. \[x\] Enable .*memory_gc_rounds is 5 in the job'
	assert_output '4\. \[x\] Monitor it.*recorded for .* climbing'
}

@test "a job in Python is evidence, and what it leaves open is not ticked" {
	local leak=$FLMEM_TESTS/recordings/leak20-glibc-1.rec job=$BATS_TEST_TMPDIR/job.py
	local recipe='from nvflare.app_opt.pt.recipes import FedAvgRecipe
import nvflare.client as flare
'
	printf '%sFedAvgRecipe(client_memory_gc_rounds=0)\nflare.send(m, clear_cache=0)\n' "$recipe" >"$job"
	flmem recommend --troubleshoot --role client "$leak" "$job"
	assert_output '1\. \[ \] Confirm .*job.py:4:.*clear_cache.*NVF-CLEAR-CACHE-FALSE'
	assert_output '3\. \[ \] Start .*job.py:3:.*client_memory_gc_rounds.*is.*0'
	printf '%sFedAvgRecipe(client_memory_gc_rounds=n)\nflare.send(m, clear_cache=n)\n' "$recipe" >"$job"
	flmem recommend --troubleshoot --role client "$leak" "$job"
	assert_output '1\. \[\?\] Confirm .*cannot tell:.*clear_cache'
	assert_output '3\. \[\?\] Start .*cannot tell: the value in'
	printf '%sFedAvgRecipe(client_memory_gc_rounds=1)\nflare.send(m)\n' "$recipe" >"$job"
	flmem recommend --troubleshoot --role client "$leak" "$job"
	assert_output '1\. \[x\] Confirm .*'
	assert_output '3\. \[x\] Start .*memory_gc_rounds is 1 in the job'
}

@test "a side whose interval is not known leaves the list of kills open, and one without any does not" {
	local log=$FLMEM_TESTS/fixtures/oom/linux-4.14-group.txt job=$BATS_TEST_TMPDIR/job.py
	local given=('server_memory_gc_rounds=1, client_memory_gc_rounds=n' 'server_memory_gc_rounds=1, **kw'
		'server_memory_gc_rounds=1, client_memory_gc_rounds="x"' 'server_memory_gc_rounds=1, client_memory_gc_rounds=-1'
		'server_memory_gc_rounds=n, client_memory_gc_rounds=1')
	for arguments in "${given[@]}"; do
		printf 'from nvflare.recipe import FedAvgRecipe\nFedAvgRecipe(%s)\n' "$arguments" >"$job"
		flmem recommend --troubleshoot "$log" "$job"
		assert_output '3\. \[\?\] Clean up .*cannot tell: the value in a checked file is'
	done
	printf 'from nvflare.recipe import FedTaskRecipe\nFedTaskRecipe(client_memory_gc_rounds=1)\n' >"$job"
	flmem recommend --troubleshoot "$log" "$job"
	assert_output '3\. \[x\] Clean up .*memory_gc_rounds is 1 in the job'
}

@test "a kernel's log of a kill is an input, and its list is walked" {
	local logs=$FLMEM_TESTS/fixtures/oom
	flmem recommend --json --fail-on warning "$logs/linux-6.18-shared.txt"
	assert_status 1
	assert_schema recommend
	examine '
import json, sys
found = json.load(sys.stdin)["findings"]
assert [(f["rule"], f["line"]) for f in found] == [("OOM-KILLED", 87), ("OOM-SHARED", 87)], found
assert "/flmem-fixture" in found[0]["message"], found'
	flmem recommend --format github "$logs/linux-4.14-group.txt"
	assert_output '^::warning file=.*linux-4.14-group.txt,line=13,title=OOM-KILLED::'
	flmem recommend --troubleshoot --json "$logs/linux-5.10-host-two-kills.txt" \
		"$JOBS/fedavg-tuned"
	assert_status 0
	assert_schema recommend
	examine '
import json, sys
[walk] = json.load(sys.stdin)["troubleshooting"]
assert walk["list"] == "oom" and walk["reason"].endswith("the last of 2 kills"), walk
assert walk["subject"].endswith("two-kills.txt: process 2100 (python (x) tot)"), walk
assert walk["steps"][2]["state"] == "not-done", walk'
	flmem recommend "$logs/README.md"
	assert_error 2 'no rules for what is in it'
	printf 'Killed process 1 (\e[31m) total-vm:1kB, anon-rss:1kB' >"$BATS_TEST_TMPDIR/hostile"
	flmem recommend --troubleshoot "$BATS_TEST_TMPDIR/hostile"
	assert_status 0
	refute_output $'\e'
}

# kill_one GROUP: makes the kernel kill a program of the group that is out of memory; sets KILLED.
kill_one() {
	"$BASH" -c 'echo $$ >"$1/cgroup.procs" &&
		exec /usr/bin/python3 -c "held = bytearray(b\"x\") * (200 << 20)"' _ "$1" 3>&- &
	KILLED=$!
	local ended=0
	wait "$KILLED" || ended=$?
	[ "$ended" = 137 ] || skip "the kernel killed nothing: it has swap, or another limit is met"
}

# make_group LIMIT: makes a separate memory control group; sets GROUP.
make_group() {
	local top=/sys/fs/cgroup/memory
	NO_LIMIT=-1
	LIMIT_FILE=memory.limit_in_bytes
	if [ ! -d "$top" ]; then
		top=/sys/fs/cgroup
		NO_LIMIT=max
		LIMIT_FILE=memory.max
	fi
	mkdir "$top/flmem-test-$$" 2>/dev/null || skip "needs control groups that may be written"
	GROUP=$top/flmem-test-$$
	echo "$1" 2>/dev/null >"$GROUP/$LIMIT_FILE" || skip "needs a memory controller below $top"
	[ ! -e "$GROUP/memory.swap.max" ] || echo 0 >"$GROUP/memory.swap.max"
}

@test "a process that the kernel really killed is found in its log" {
	requires root
	dmesg >/dev/null 2>&1 || skip "needs a kernel's log that may be read"
	make_group 33554432
	kill_one "$GROUP"
	dmesg | sed "/Killed process $KILLED /q" >"$BATS_TEST_TMPDIR/dmesg.txt"
	grep -q "Killed process $KILLED " "$BATS_TEST_TMPDIR/dmesg.txt" ||
		skip "the kernel's log does not report this container's kills"
	flmem recommend --troubleshoot "$BATS_TEST_TMPDIR/dmesg.txt"
	assert_status 0
	assert_output "dmesg.txt: process $KILLED \(python3\)"
	assert_output 'OOM errors, as the kernel killed it'
	flmem recommend --json "$BATS_TEST_TMPDIR/dmesg.txt"
	assert_output "process $KILLED: [0-9.]+ MiB anonymous, the limit of 32 MiB of [^ ]*/flmem-test-"
}

@test "a live process in whose control group the kernel has killed gets the list of OOM errors" {
	requires root
	python "$FLMEM_TESTS/cli/fakes/make-frameworks" "$BATS_TEST_TMPDIR/fakes"
	export PYTHONPATH=$BATS_TEST_TMPDIR/fakes
	make_group 67108864
	start_victim "$BASH" -c 'echo $$ >"$1/cgroup.procs" && exec /usr/bin/python3 -u \
		-m nvflare.private.fed.app.client.worker_process -m /ws -n job-1 -c site-1' _ "$GROUP"
	flmem recommend --troubleshoot --pid "$VICTIM"
	assert_output 'High RSS on client, as its role is client-job'
	kill_one "$GROUP"
	alive "$VICTIM" || skip "the kernel chose the other process"
	flmem recommend --troubleshoot --pid "$VICTIM"
	assert_output 'the kernel has killed 1 process in its control group since the group was created,'
	assert_output 'OOM errors, as '
	flmem recommend --troubleshoot --pid "$VICTIM" --role client
	assert_output 'High RSS on client, as set by --role'
	# Nothing limits the group any more: the kills may have been for the host's memory.
	echo "$NO_LIMIT" >"$GROUP/$LIMIT_FILE"
	flmem recommend --troubleshoot --pid "$VICTIM"
	assert_output 'High RSS on client, as its role is client-job'
}

@test "CUDA out of memory in a job's log is a finding, and evidence of the OOM list" {
	local log=$BATS_TEST_TMPDIR/log.txt
	{
		echo '2026-11-01 10:00:00 - train - INFO - epoch 1'
		printf '%s %s %s %s\n' \
			'torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0' \
			'has a total capacity of 79.15 GiB of which 17.25 MiB is free. Of the allocated' \
			'memory 77.00 GiB is allocated by PyTorch, and 1.00 GiB is reserved by PyTorch' \
			'but unallocated.'
	} >"$log"
	flmem recommend "$log"
	assert_status 0
	assert_output ' 2  warning: OOM-GPU\b'
	assert_output 'OOM-GPU-FRAGMENTED'
	flmem recommend --fail-on warning "$log"
	assert_status 1
	flmem recommend --troubleshoot "$log" --json
	assert_status 0
	assert_schema recommend
	examine '
import json, sys
[walk] = json.load(sys.stdin)["troubleshooting"]
assert walk["list"] == "oom", walk
steps = {step["id"]: step for step in walk["steps"]}
assert "20 MiB of GPU memory" in steps["OOM-BATCH"]["evidence"], steps
assert steps["OOM-JEMALLOC"]["state"] == "not-needed", steps'
	echo 'to avoid CUDA out of memory, use smaller batches' >"$log"
	flmem recommend --troubleshoot "$log"
	assert_error 2 'no rules for what is in it'
}
