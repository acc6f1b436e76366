#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2016,SC2030,SC2031 # Python in quotes; bats' run sets output in each test
# `flmem recommend` on the job folders of tests/fixtures/jobs: exactly the findings expected there.

load helpers

JOBS=$FLMEM_TESTS/fixtures/jobs
# made by the recipes of NVFlare 2.8.1 and of a 2.9 before its release
EXPORTED=$FLMEM_TESTS/fixtures/exported

# Prints "RULE FILE:LINE" of every finding in $output, sorted as printed.
findings() {
	python -c '
import json, os, sys
for f in json.load(sys.stdin)["findings"]:
    print(f["rule"], "%s:%d" % (os.path.basename(f["file"]), f["line"]))' <<<"$output"
}

@test "every fixture job has exactly the findings that its folder lists" {
	local job
	for job in "$JOBS"/*/ "$EXPORTED"/*/; do
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

# The exported jobs themselves, with their code: FLMEM_CORPUS/VERSION/JOB.
@test "the corpus has exactly the findings of its copies" {
	[ -n "${FLMEM_CORPUS:-}" ] || skip "needs FLMEM_CORPUS, a folder VERSION/JOB of exported jobs"
	local job version copy count=0
	for job in "$FLMEM_CORPUS"/*/*/; do
		version=$(basename "$(dirname "$job")")
		version=${version/#main/2.9}
		copy=$(basename "$job")
		copy=$EXPORTED/$version-${copy//_/-}
		flmem recommend --json --framework-version "$version" "$job"
		assert_status 0
		diff <(findings) "$copy/expected" || fail "$job: not as $copy/expected has it"
		count=$((count + 1))
	done
	[ "$count" -gt 0 ]
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

@test "bad inputs are reported with file and line, and the others are checked" {
	local bad=$BATS_TEST_TMPDIR/bad
	cp -r "$JOBS/fedavg-default" "$bad"
	printf '{\n  "workflows": [\n' >"$bad/app/config/config_fed_server.json"
	flmem recommend --json "$bad" "$JOBS/fedavg-default" "$BATS_TEST_TMPDIR/none"
	assert_status 8
	assert_schema recommend
	assert_stderr 'bad/app/config/config_fed_server.json:3: column'
	assert_stderr 'none: cannot be read: No such file'
	assert_output 'NVF-SRV-GC-OFF'
	flmem recommend "$bad/app/config/config_fed_server.json"
	assert_error 2 'config_fed_server.json:3'
	flmem recommend "$bad/expected"
	assert_error 2 'no rules for what is in it'
	mkfifo "$bad/app/config/pipe"
	rm "$bad/app/config/config_fed_server.json"
	mv "$bad/app/config/pipe" "$bad/app/config/config_fed_server.json"
	flmem recommend "$bad"
	assert_status 8
	assert_stderr 'not a regular file'
}

@test "what held nothing to check is a warning, and an error when nothing at all was checked" {
	local dir=$BATS_TEST_TMPDIR
	mkdir -p "$dir/empty" "$dir/job/app/custom" "$dir/other"
	echo '{"deploy_map": {"app": ["@ALL"]}}' >"$dir/job/meta.json"
	echo '{"title": "of another program"}' >"$dir/other/meta.json"
	echo 'import socket' >"$dir/other/a.py"
	flmem recommend "$dir/empty"
	assert_error 2 "empty: nothing to check"
	flmem recommend "$dir/empty" "$dir/other" --json
	assert_status 2
	assert_stderr "empty: nothing to check"
	flmem recommend "$JOBS/fedavg-tuned" "$dir/other"
	assert_status 0
	assert_stderr "^flmem recommend: warning: .*other: nothing to check"
	assert_output '3 files checked'
	for format in json sarif github junit; do
		flmem recommend "$JOBS/fedavg-tuned" "$dir/empty" --format "$format"
		assert_status 0
		assert_output 'nothing to check'
	done
	flmem recommend "$JOBS/fedavg-tuned" "$dir/empty" --json
	assert_schema recommend
	# A job that is named twice, and found below a folder, is checked each time.
	flmem recommend "$JOBS/fedavg-tuned" "$JOBS/fedavg-tuned/app" "$JOBS/fedavg-tuned/"
	assert_status 0
	[ -z "$stderr" ] || fail "$stderr"
	# A job's meta file without its apps is not complete.
	flmem recommend "$dir/job"
	assert_status 8
	assert_stderr "deploy_map names the app 'app', which has no config/config_fed_server"
}

@test "a configuration that is not one map of settings is not checked, and reported" {
	local dir=$BATS_TEST_TMPDIR
	printf 'workflows: []\n---\na: 1\n' >"$dir/config_fed_server.yml"
	flmem recommend "$dir/config_fed_server.yml"
	assert_error 2 'not one map of settings'
	for text in '[]' '7'; do
		echo "$text" >"$dir/config_fed_client.json"
		flmem recommend "$dir/config_fed_client.json"
		assert_error 2 'not one map of settings'
	done
	: >"$dir/config_fed_client.yml"
	flmem recommend "$dir/config_fed_client.yml"
	assert_error 2 'not one map of settings'
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

# Makes a writable copy of all fixture jobs.
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
	[[ $stderr != *'written to'* ]] || fail "something was written again"
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
	assert_error 2 'cannot be combined with --fix'
}

@test "SARIF: rules, results and inputs that are bad, by the words of the standard" {
	cd "$FLMEM_TESTS/fixtures"
	mkdir "$BATS_TEST_TMPDIR/a b"
	printf '{' >"$BATS_TEST_TMPDIR/a b/config_fed_server.json"
	flmem recommend --format sarif ./jobs "$BATS_TEST_TMPDIR/a b/config_fed_server.json"
	assert_status 8
	examine '
import json, os, sys, urllib.parse
log = json.load(sys.stdin)
assert log["version"] == "2.1.0" and log["$schema"].endswith("sarif-schema-2.1.0.json")
[run] = log["runs"]
rules = run["tool"]["driver"]["rules"]
assert len(set(rule["id"] for rule in rules)) == len(rules)
assert run["results"]
for result in run["results"]:
    assert rules[result["ruleIndex"]]["id"] == result["ruleId"]
    assert result["level"] in ("error", "warning", "note") and result["message"]["text"]
    [place] = result["locations"]
    uri = place["physicalLocation"]["artifactLocation"]["uri"]
    assert os.path.isfile(urllib.parse.unquote(uri)), uri
    assert place["physicalLocation"]["region"]["startLine"] >= 1
    assert bool(result.get("fixes")) == result["properties"]["fixable"]
    for fix in result.get("fixes", []):
        [change] = fix["artifactChanges"]
        [put] = change["replacements"]
        assert change["artifactLocation"]["uri"] == uri
        with open(urllib.parse.unquote(uri), "rb") as file:
            text = file.read()
        start, length = (put["deletedRegion"][key] for key in ("byteOffset", "byteLength"))
        assert start + length <= len(text)
        text = text[:start] + put["insertedContent"]["text"].encode() + text[start + length:]
        if uri.endswith(".json"):
            json.loads(text)
[invocation] = run["invocations"]
assert invocation["executionSuccessful"] is False
[notification] = invocation["toolExecutionNotifications"]
place = notification["locations"][0]["physicalLocation"]
assert place["artifactLocation"]["uri"].endswith("/a%20b/config_fed_server.json")
assert place["region"]["startLine"] == 1'
}

@test "SARIF is valid by its own schema" {
	[ -e "${FLMEM_SARIF_SCHEMA:-}" ] ||
		skip "needs the standard's schema: FLMEM_SARIF_SCHEMA=sarif-schema-2.1.0.json"
	flmem recommend --format sarif "$JOBS" /nonexistent
	examine '
import json, jsonschema, sys
with open(sys.argv[1]) as text:
    schema = json.load(text)
check = jsonschema.validators.validator_for(schema)(schema)
errors = [error.message for error in check.iter_errors(json.load(sys.stdin))]
assert not errors, errors' "$FLMEM_SARIF_SCHEMA"
}

@test "GitHub annotations: one line for each finding, special characters encoded" {
	cp -r "$JOBS/yaml" "$BATS_TEST_TMPDIR/a,b: 100%"
	cd "$BATS_TEST_TMPDIR"
	flmem recommend --format github --fail-on error "a,b: 100%"
	assert_status 1
	[ "$(printf '%s\n' "$output" | wc -l)" -eq 2 ]
	assert_output '^::error file=a%2Cb%3A 100%25/app/config/config_fed_client.yml,line=6,title=NVF-GC-INVALID::'
}

@test "JUnit: cases for findings and bad inputs, and one that passes without them" {
	flmem recommend --format junit "$JOBS" "$BATS_TEST_TMPDIR/<&>"
	assert_status 8
	examine '
import sys, xml.etree.ElementTree as tree
[suite] = tree.fromstring(sys.stdin.read())
assert int(suite.get("tests")) == len(suite.findall("testcase"))
assert int(suite.get("failures")) == len(suite.findall("testcase/failure")) > 5
assert int(suite.get("errors")) == len(suite.findall("testcase/error")) == 1
assert suite.find("testcase/error/..").get("classname").endswith("<&>")'
	flmem recommend --format junit "$JOBS/fedavg-tuned"
	assert_status 0
	examine '
import sys, xml.etree.ElementTree as tree
[suite] = tree.fromstring(sys.stdin.read())
assert suite.get("tests") == "1" and suite.get("failures") == "0"
assert len(list(suite.iter())) == 2'
}

@test "a finding is suppressed with a reason, by a comment or by a file" {
	copy_jobs
	cd "$COPY"
	sed -i 's/memory_gc_rounds = 50/memory_gc_rounds = 50 # flmem: ignore NVF-GC-NEVER-FIRES short/' \
		hocon/app/config/config_fed_server.conf
	sed -i 's/^tensor_/# flmem: ignore NVF-CHUNK-ZERO\n&/' hocon/app/config/config_fed_server.conf
	flmem recommend --json hocon
	assert_schema recommend
	refute_output 'NEVER-FIRES'
	assert_output 'NVF-CHUNK-ZERO' # its comment gives no reason
	assert_output '"suppressed":	1'
	printf 'ignore:\n  - {rule: NVF-SRV-GC-OFF, path: fedavg-*/app/*, reason: three rounds}\n' \
		>.flmem-recommend.yaml
	local where
	for where in . "$COPY" "$COPY/"; do
		flmem recommend "$where"
		refute_output 'NVF-SRV-GC-OFF'
		assert_output 'NVF-CLI-GC-OFF'
		assert_output 'suppressed: 2'
	done
	flmem recommend --diff .
	refute_output '\+ +"memory_gc_rounds": 5'
	printf '  - rule: NO-SUCH-RULE\n    reason: x\n  - rule: NVF-CUDA-NOOP\n' >>.flmem-recommend.yaml
	flmem recommend .
	assert_status 8
	assert_stderr '.flmem-recommend.yaml:3: does not name a rule'
	assert_stderr '.flmem-recommend.yaml:5: has no reason'
	assert_output 'NVF-CUDA-NOOP'
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
	assert_error 2 'cannot be combined with paths'
	flmem recommend
	assert_error 2 'no input; give files or folders'
	flmem recommend --framework-version x "$JOBS"
	assert_error 2 'invalid version'
}

@test "a plan names the peaks, and a configuration that APPFL's rules find nothing in" {
	local what=(--model llama-3.1-8b --clients 4 --framework appfl --node-memory 128GB)
	flmem recommend "${what[@]}"
	assert_status 0
	assert_output 'llama-3.1-8b: 15 GiB of bf16, 291 tensors, largest tensor 1002 MiB'
	assert_output 'chunked \(chosen\)'
	assert_output 'peak: server .* GiB, each client .* GiB; fits a node of 119 GiB'
	assert_output 'model_chunk_size: 1073741824'
	flmem recommend "${what[@]}" --json
	assert_status 0
	assert_schema recommend
	mkdir "$BATS_TEST_TMPDIR/planned"
	python -c '
import json, sys
plan = json.load(sys.stdin)
server, client = (row["text"] for row in plan["configuration"])
for name, text in ("server", server), ("client", client + "client_id: a\ndata_configs: {}\n"):
    with open(f"{sys.argv[1]}/{name}.yaml", "w") as f:
        f.write(text)' "$BATS_TEST_TMPDIR/planned" <<<"$output"
	flmem recommend --fail-on warning "$BATS_TEST_TMPDIR/planned"
	assert_status 0
	assert_output '2 files checked, error: 0, warning: 0'
}

@test "a plan's configuration for NVFlare is JSON, and counts what a node lacks" {
	flmem recommend --params 134217728 --clients 4 --node-memory 3.5GiB --json
	assert_status 0
	assert_schema recommend
	examine '
import json, sys
plan = json.load(sys.stdin)
assert plan["chosen"] == "offload", plan["chosen"]
memory, offload = plan["strategies"]
assert not memory["fits"] and offload["fits"]
assert offload["server_disk_bytes"] == 4 * 134217728 * 4
server = json.loads(plan["configuration"][0]["text"])
assert server["workflows"][0]["args"]["enable_tensor_disk_offload"] is True
json.loads(plan["configuration"][1]["text"])'
	flmem recommend --params 1000 --dtype int8 --clients 1 --framework flower --json
	assert_status 0
	assert_schema recommend
	assert_output '"caveat":	"Flower'
}

@test "parameters have the suffixes that models are named by" {
	local plain
	flmem recommend --params 1500000000 --clients 2
	assert_status 0
	plain=$output
	flmem recommend --params 1.5B --clients 2
	assert_status 0
	[ "$output" = "$plain" ]
	flmem recommend --params 1.5 --clients 2
	assert_error 2 'invalid count'
}

@test "a real checkpoint and a real safetensors file are measured" {
	requires torch
	cd "$BATS_TEST_TMPDIR"
	python -c '
import json, struct, torch
state = {"a": torch.zeros(300, 70), "b": torch.zeros(11, dtype=torch.float32)}
torch.save(state, "m.pt")
torch.save(state, "old.pt", _use_new_zipfile_serialization=False)
header = json.dumps({"a": {"dtype": "F32", "shape": [300, 70], "data_offsets": [0, 84000]},
                     "b": {"dtype": "F32", "shape": [11], "data_offsets": [84000, 84044]}}).encode()
with open("m.safetensors", "wb") as f:
    f.write(struct.pack("<Q", len(header)) + header + bytes(84044))'
	flmem recommend --model m.pt --clients 1 --json
	assert_status 0
	assert_output '"model_bytes":	84044,'
	assert_output '"largest_tensor_bytes":	84000,'
	flmem recommend --model m.safetensors --clients 1 --json
	assert_output '"model_bytes":	84044,'
	assert_output '"parameters":	21011,'
	flmem recommend --model old.pt --clients 1 --json
	assert_status 0
	assert_schema recommend
	assert_output '"tensors":	null,'
	truncate -s 80000 m.pt m.safetensors
	flmem recommend --model m.pt --clients 1
	assert_error 2 'm.pt'
	flmem recommend --model m.safetensors --clients 1
	assert_error 2 'do not end with the file|after the end of the file|range of bytes'
}

@test "a plan that is not whole is refused" {
	flmem recommend --model llama-3.1-8b
	assert_error 2 'needs --clients'
	flmem recommend --clients 4
	assert_error 2 '--clients needs --model'
	flmem recommend --model llama-3.1-8b --params 7 --clients 2
	assert_error 2 'exclude each other'
	flmem recommend --model /nonexistent --clients 2
	assert_error 2 'neither the name of a known model'
	flmem recommend --model llama-3.1-8b --dtype fp33 --clients 2
	assert_error 2 'invalid number type'
	flmem recommend --model llama-3.1-8b --clients 2 --format sarif
	assert_error 2 '--format of findings'
}

@test "a live process is held against what its settings asked for, and not touched" {
	local library
	library=$(find /usr/lib -name 'libjemalloc.so.2' | head -n 1)
	local sleeper=(-c 'import time; print("ready", flush=True); time.sleep(1000)')
	LD_PRELOAD=/nonexistent/libjemalloc.so.2 start_victim /usr/bin/python3 "${sleeper[@]}"
	flmem recommend --pid "$VICTIM"
	assert_status 0
	assert_output "process $VICTIM"
	assert_output 'error: LIVE-JEMALLOC-NOT-LOADED'
	assert_output 'malloc is served by glibc'
	flmem recommend --pid "$VICTIM" --json --fail-on error
	assert_status 1
	assert_schema recommend
	assert_victim_unharmed
	[ -n "$library" ] || skip "needs libjemalloc2"
	MALLOC_ARENA_MAX=2 LD_PRELOAD=$library start_victim /usr/bin/python3 "${sleeper[@]}"
	flmem recommend --pid "$VICTIM"
	assert_status 0
	refute_output 'NOT-LOADED'
	assert_output 'LIVE-JEMALLOC-DECAY'
	assert_output 'MALLOC_CONF: absent -> dirty_decay_ms:5000,muzzy_decay_ms:5000'
	assert_output 'info: LIVE-ARENA-USELESS'
	MALLOC_CONF=dirty_decay_ms:5000,muzzy_decay_ms:5000 LD_PRELOAD=$library \
		start_victim /usr/bin/python3 "${sleeper[@]}"
	flmem recommend --pid "$VICTIM" --fail-on info
	assert_status 0
	assert_output '^1 process checked, error: 0, warning: 0, info: 0$'
}

@test "a recording is checked like a file, with the job that its process ran" {
	local recordings=$FLMEM_TESTS/recordings
	flmem recommend "$recordings/leak20-glibc-1.rec" --fail-on warning
	assert_status 1
	assert_output 'warning: TREND-CLIMBING'
	assert_output 'process [0-9]+: trend.verdict: climbing'
	assert_output '1 file checked, error: 0, warning: 1, info: 0$'
	flmem recommend "$recordings/flat-glibc-1.rec" --fail-on info
	assert_status 0
	flmem watch --pid $$ --interval 100ms --duration 300ms --record "$BATS_TEST_TMPDIR/short.rec"
	assert_status 0
	flmem recommend "$BATS_TEST_TMPDIR/short.rec" --fail-on warning
	assert_status 0
	assert_output 'info: TREND-TOO-EARLY'
	assert_output 'trend.verdict: too-early'
	flmem recommend --json "$recordings/leak20-jemalloc-1.rec" "$JOBS/fedavg-tuned"
	assert_status 0
	assert_schema recommend
	flmem recommend --format github "$recordings/leak20-glibc-1.rec"
	assert_output '^::warning file=.*leak20-glibc-1.rec,title=TREND-CLIMBING'
	flmem recommend --format sarif "$recordings/leak20-glibc-1.rec"
	assert_status 0
	flmem recommend --diff "$recordings/leak20-glibc-1.rec"
	assert_status 0
	[ -z "$output" ]
	printf 'FLMB' >"$BATS_TEST_TMPDIR/cut"
	flmem recommend "$BATS_TEST_TMPDIR/cut"
	assert_error 2 "the recording '.*cut' is damaged"
	{ cat "$FLMEM_TESTS/recordings/flat-glibc-1.rec" && printf FLMB; } >"$BATS_TEST_TMPDIR/cut"
	flmem recommend "$BATS_TEST_TMPDIR/cut"
	assert_status 8
	assert_stderr '4 bytes of the recording are damaged and not checked'
}

@test "a recorded NVFlare client that is flat may clean up less often" {
	local round=0 client=job/app/config/config_fed_client.json
	cd "$BATS_TEST_TMPDIR"
	python "$FLMEM_TESTS/cli/fakes/make-frameworks" fakes
	PYTHONPATH=fakes start_victim /usr/bin/python3 -u \
		-m nvflare.private.fed.app.client.worker_process -m /ws -n job-1 -c site-1
	: >log.txt
	"$FLMEM" watch --pid "$VICTIM" --log log.txt --interval 10ms --rounds 16 --quiet \
		--record r.rec >watch.out 2>&1 3>&- &
	local watch=$!
	while alive "$watch" && [ "$round" -lt 600 ]; do
		echo "2026-01-01 00:00:00,000 - INFO - Round $round started." >>log.txt
		round=$((round + 1))
		sleep 0.1
	done
	wait "$watch" || fail "$(cat watch.out)"
	cp -r "$JOBS/fedavg-tuned" job
	flmem recommend --json r.rec job
	assert_status 0
	assert_schema recommend
	examine '
import json, sys
found = [f for f in json.load(sys.stdin)["findings"] if f["file"] == "r.rec"]
assert [f["rule"] for f in found] == ["NVF-CLI-GC-TUNE"], found
assert found[0]["path"].endswith("(client-job): memory_gc_rounds"), found
assert (found[0]["current"], found[0]["proposed"]) == ("1", "2"), found'
	sed -i 's/"memory_gc_rounds": 1/"memory_gc_rounds": 5/' "$client"
	flmem recommend r.rec job
	refute_output 'NVF-CLI-GC-TUNE'
	flmem recommend r.rec
	assert_output '^1 file checked, error: 0, warning: 0, info: 0$'
}

@test "processes go with jobs, and without what is about files" {
	flmem recommend --pid $$ "$JOBS/fedavg-default"
	assert_status 0
	assert_output '4 inputs checked'
	flmem recommend --pid $$ --format sarif
	assert_error 2 '--format that names files'
	flmem recommend --pid 4194304
	assert_error 3
}

@test "no input makes any number of findings: the rest is counted, and a problem" {
	cp -r "$JOBS/fedavg-default" "$BATS_TEST_TMPDIR/many"
	cd "$BATS_TEST_TMPDIR/many/app/config"
	python -c '
maps = ", ".join(["{\"a\": 1, \"a\": 2}"] * 12000)
print("{\"workflows\": [{}], \"components\": [%s]}" % maps)' >config_fed_server.json
	run --separate-stderr bash -c '"$FLMEM" recommend --json config_fed_server.json |
		/usr/bin/python3 -c "import json, sys; print(len(json.load(sys.stdin)[\"findings\"]))"'
	assert_output '10000'
	assert_stderr ' 2000 findings beyond the first 10000 are left out'
	flmem recommend --fail-on error config_fed_server.json
	assert_status 8
}

@test "a server whose job offloads tensors to a directory in memory is reported" {
	local job=$BATS_TEST_TMPDIR/job
	python "$FLMEM_TESTS/cli/fakes/make-frameworks" "$BATS_TEST_TMPDIR/fakes"
	export PYTHONPATH=$BATS_TEST_TMPDIR/fakes
	[ "$(stat -f -c %T /dev/shm)" = tmpfs ] || skip "needs /dev/shm on tmpfs"
	[ "$(stat -f -c %T /var)" != tmpfs ] || skip "needs /var on a disk"
	cp -r "$JOBS/fedavg-tuned" "$job"
	sed -i 's/"memory_gc_rounds": 5/&, "enable_tensor_disk_offload": true/' \
		"$job/app/config/config_fed_server.json"
	local server=(-u -m nvflare.private.fed.app.server.runner_process -m /ws -n job-1)
	TMPDIR=/dev/shm/fl MALLOC_ARENA_MAX=4 start_victim /usr/bin/python3 "${server[@]}"
	flmem recommend --pid "$VICTIM" "$job" --fail-on error
	assert_status 1
	assert_output 'error: LIVE-OFFLOAD-TMPFS'
	assert_output 'TMPDIR: /dev/shm/fl'
	flmem recommend --pid "$VICTIM" "$JOBS/fedavg-tuned"
	refute_output 'LIVE-OFFLOAD-TMPFS'
	assert_victim_unharmed
	TMPDIR=/var/tmp MALLOC_ARENA_MAX=4 start_victim /usr/bin/python3 "${server[@]}"
	flmem recommend --pid "$VICTIM" "$job"
	refute_output 'LIVE-OFFLOAD-TMPFS'
	assert_victim_unharmed
	mkdir "$BATS_TEST_TMPDIR/links"
	ln -s ../there "$BATS_TEST_TMPDIR/links/fast"
	ln -s /var/tmp "$BATS_TEST_TMPDIR/there"
	TMPDIR=$BATS_TEST_TMPDIR/links/fast MALLOC_ARENA_MAX=4 \
		start_victim /usr/bin/python3 "${server[@]}"
	flmem recommend --pid "$VICTIM" "$job"
	refute_output 'LIVE-OFFLOAD-TMPFS'
	ln -sfn /dev/shm "$BATS_TEST_TMPDIR/there"
	flmem recommend --pid "$VICTIM" "$job"
	assert_output 'LIVE-OFFLOAD-TMPFS'
	assert_output 'is on tmpfs or ramfs'
	assert_victim_unharmed
}
