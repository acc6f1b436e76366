#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Every command's --json output is what docs/json-schema says, results and errors alike.

load helpers

SCHEMAS=$FLMEM_TESTS/../docs/json-schema

setup() {
	/usr/bin/python3 -c 'import jsonschema' 2>/dev/null || skip "needs python3-jsonschema"
}

# Prints the commands that print JSON, according to their help.
json_commands() {
	local command
	while read -ra command; do
		if "$FLMEM" help "${command[@]}" | grep -q -- '--json'; then
			(IFS=- && echo "${command[*]}")
		fi
	done < <(all_commands)
}

@test "the schemas are schemas, and name what the headers name" {
	run_command python "$FLMEM_TESTS/schema/check.py" "$SCHEMAS" --self \
		"$FLMEM_TESTS/../libcore/include"
	assert_status 0
}

@test "every command with --json has a schema" {
	local commands command
	commands=$(json_commands)
	[ -n "$commands" ]
	for command in $commands; do
		[ -e "$SCHEMAS/$command.json" ] || fail "no schema for $command"
	done
}

# Prints an object of the class "error" after one change in python.
altered() {
	python -c '
import json, sys
error = {"code": "noproc", "exit_status": 3, "message": "no process 7"}
report = {"schema": "flmem.trim/1", "error": error}
exec(sys.argv[1])
print(json.dumps(report))' "$1"
}

@test "what is not as the schema says is refused" {
	local change
	output=$(altered pass)
	assert_schema trim
	for change in 'error["code"] = "elsewhere"' 'report["schema"] = "flmem.detect/1"' \
		'del error["exit_status"]' 'error["more"] = 1' 'error["exit_status"] = 0' \
		'del report["error"]' 'report["results"] = []' 'report = []'; do
		output=$(altered "$change")
		run assert_schema trim
		[ "$status" -ne 0 ] || fail "accepted: $change"
	done
}

@test "thousands of processes are checked as well as one" {
	start_victim /usr/bin/python3 -c 'import time; print("ready", flush=True); time.sleep(1000)'
	flmem watch --pid "$VICTIM" --duration 100ms --interval 50ms --quiet --json
	assert_status 0
	run_command python -c '
import copy, json, sys
summary = json.loads(sys.argv[1])
first = summary["processes"][0]
summary["processes"] = [copy.deepcopy(first) for _ in range(3000)]
print(json.dumps(summary))
summary["processes"][1234]["trend"]["more"] = 1
print(json.dumps(summary))
' "$output"
	output=${lines[0]}
	assert_schema watch
	output=${lines[1]}
	run assert_schema watch
	[ "$status" -ne 0 ] || fail "accepted a field too many"
}

@test "errors are objects too, with the exit status that the command has" {
	local command words
	for command in $(json_commands); do
		IFS=- read -ra words <<<"$command"
		flmem "${words[@]}" --json unexpected
		[ "$status" -ne 0 ]
		assert_schema "$command"
		# One line, so that it is a line of commands that print an object per line.
		[[ $output == *"\"exit_status\":$status,"* && $output != *$'\n'* ]]
	done
}

@test "trim: done, planned, refused and gone" {
	start_victim /usr/bin/python3 -c 'import time; print("ready", flush=True); time.sleep(1000)'
	flmem trim --json --dry-run --pid "$VICTIM"
	assert_status 0
	assert_schema trim
	flmem trim --json --pid "$VICTIM"
	assert_status 0
	assert_schema trim
	flmem trim --json --pid "$VICTIM" --pid 2 --pid 4194303
	assert_status 8
	assert_schema trim
	assert_victim_unharmed
}

@test "--version: how it was built" {
	flmem --version --json
	assert_status 0
	assert_schema version
	flmem -V --json
	assert_status 0
	flmem --version --yaml
	assert_status 2
	[ -z "$output" ]
	[[ $stderr = *"--version takes only --json"* ]]
}

@test "env: every role" {
	local role
	for role in server client trainer; do
		flmem env --json --role "$role"
		assert_status 0
		assert_schema env
	done
	flmem env --json --role client --gpu --framework-version 2.9
	assert_schema env
}

@test "detect: the host, without and with GPUs" {
	flmem detect --json
	assert_status 0
	assert_schema detect
	# A stand-in for the driver's library, which this machine lacks (tests/fakes/nvml.c).
	run_command env "LD_LIBRARY_PATH=$FLMEM_VICTIMS/../fakes/nvml_3" "$FLMEM" detect --json
	assert_status 0
	assert_schema detect
	assert_output '"gpu_driver":	"555.42.06"'
	assert_output '"used_bytes":	3221225472'
	run_command env "LD_LIBRARY_PATH=$FLMEM_VICTIMS/../fakes/nvml_3" "$FLMEM" detect
	assert_output 'Fake GPU 80GB, 80 GiB, 3 GiB used, 76.5 GiB free, driver 555.42.06'
	assert_output 'parted, 80 GiB, 2 GiB used, 77.5 GiB free, MIG with 2 instances, driver'
	assert_output 'cuda .*the driver supports up to 12.5'
	assert_output 'torch.cuda.empty_cache\(\)  yes '
}
