#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# action.yml, docs/ci/gitlab.yml and .pre-commit-hooks.yaml: their commands, run as written there.

load helpers

ROOT=$FLMEM_TESTS/..

setup() {
	/usr/bin/python3 -c 'import yaml' 2>/dev/null || skip "needs python3-yaml"
	mkdir "$BATS_TEST_TMPDIR/bin"
	ln -s "$FLMEM" "$BATS_TEST_TMPDIR/bin/flmem"
	PATH=$BATS_TEST_TMPDIR/bin:$PATH
	cp -r "$FLMEM_TESTS/fixtures/jobs/fedavg-default" "$BATS_TEST_TMPDIR/job"
	cp -r "$FLMEM_TESTS/fixtures/jobs/fedavg-tuned" "$BATS_TEST_TMPDIR/tuned"
	cd "$BATS_TEST_TMPDIR" || return
}

# value FILE PYTHON: prints a value of a YAML file, whose document is `d`.
value() {
	python -c '
import sys, yaml
d = yaml.safe_load(open(sys.argv[1]))
print(eval(sys.argv[2]))' "$ROOT/$1" "$2"
}

# Runs the steps of the action with its defaults, as the runner does: an error ends them.
run_action() {
	local step
	for step in 0 1; do
		value action.yml "d['runs']['steps'][$step]['run']" >"step$step"
	done
	run_command env "WHEEL=" "PATHS=$1" "VERSION=${2:-}" "SARIF=$(value action.yml "d['inputs']['sarif']['default']")" \
		"FAIL_ON=$(value action.yml "d['inputs']['fail-on']['default']")" \
		bash -e -c 'bash --noprofile --norc -eo pipefail step0 && bash --noprofile --norc -eo pipefail step1'
}

@test "the action writes SARIF, annotates and fails at a warning" {
	run_action job
	assert_status 1
	assert_output '^::warning file=job/'
	[ "$(python -c '
import json
print(json.load(open("flmem.sarif"))["runs"][0]["results"][0]["ruleId"])')" = NVF-CLI-GC-OFF ]
}

@test "the action checks several folders, and one without findings passes" {
	run_action tuned 2.9
	assert_status 0
	[ -s flmem.sarif ]
	run_action "tuned job" 2.9
	assert_status 1
}

@test "the action without flmem and without a wheel reports that" {
	rm bin/flmem
	value action.yml "d['runs']['steps'][0]['run']" >step0
	run_command env "WHEEL=" "PATH=$BATS_TEST_TMPDIR/bin" /bin/bash -e step0
	assert_status 1
	assert_output '^::error::flmem is not installed'
}

@test "every input of the action is used, and every step has its shell" {
	[ "$(value action.yml "all('inputs.' + i in str(d['runs']) for i in d['inputs'])")" = True ]
	[ "$(value action.yml "{s['shell'] for s in d['runs']['steps']}")" = "{'bash'}" ]
}

@test "the job for GitLab writes JUnit's format and fails at a warning" {
	value docs/ci/gitlab.yml "d['flmem-recommend']['script'][0]" >step
	run_command env FLMEM_PATHS=job FLMEM_FAIL_ON=warning sh -e step
	assert_status 1
	python -c 'import xml.etree.ElementTree as e; e.parse("flmem.xml")'
	grep -q 'NVF-CLI-GC-OFF' "$(value docs/ci/gitlab.yml "d['flmem-recommend']['artifacts']['reports']['junit']")"
	run_command env FLMEM_PATHS=tuned FLMEM_FAIL_ON=warning sh -e step
	assert_status 0
}

@test "the hook of pre-commit fails at a warning" {
	value .pre-commit-hooks.yaml "d[0]['entry'] + ' ' + ' '.join(d[0]['args'])" >step
	run_command sh -e step
	assert_status 1
	assert_output 'NVF-CLI-GC-OFF'
}
