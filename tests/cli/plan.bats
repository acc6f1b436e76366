#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# The exit status of plans (recommend --model, --params); what they contain is in recommend.bats.

# shellcheck disable=SC2030,SC2031 # each test is a shell of its own
load helpers

@test "a plan that does not fit the given node has the status of findings" {
	flmem recommend --params 8B --framework appfl --clients 4 --node-memory 4GB
	assert_status 1
	assert_output 'does not fit a node'
	flmem recommend --params 8B --framework appfl --clients 4 --node-memory 4GB --json
	assert_status 1
	flmem recommend --params 8B --framework appfl --clients 4 --node-memory 4TB
	assert_status 0
	flmem recommend --params 8B --framework appfl --clients 4 --node-memory 4GB --fail-on info
	assert_status 1
	assert_output 'does not fit a node'
	flmem recommend --params 8B --framework appfl --clients 4 --fail-on error
	assert_status 0
}

limits() { # of containers, docker run, a batch job, a unit and a job, 2B parameters and 4 clients
	mkdir -p kit/job/app/config
	cp "$FLMEM_TESTS"/fixtures/jobs/fedavg-tuned/app/config/* kit/job/app/config
	cat >kit/compose.yaml <<-'END'
		services:
		  server:
		    mem_limit: 4g
		    command: python3 -m nvflare.private.fed.app.server.server_train -m /workspace
		  site-1:
		    command: [python3, -m, nvflare.private.fed.app.client.client_train, -m, /workspace]
		    deploy: {resources: {limits: {memory: "${MEMORY:-8g}"}}}
		  site-2:
		    command: [python3, -m, nvflare.private.fed.app.client.client_train, -m, /workspace]
		    deploy: {resources: {limits: {memory: 22gb}}}
		  database: {image: redis, mem_limit: 1g}
	END
	cat >kit/pod.yaml <<-'END'
		kind: Pod
		spec:
		  containers:
		    - command: [/bin/bash, -c, /workspace/site-1/startup/sub_start.sh]
		      resources: {limits: {memory: 30G}}
	END
	cat >kit/docker.sh <<-'END'
		#!/bin/bash
		docker run -d -m 6g $IMAGE /bin/bash -c \
			"python -u -m nvflare.private.fed.app.server.server_train -m /workspace"
		docker run -d --memory="99g" $IMAGE /bin/bash -c \
			"python -u -m nvflare.private.fed.app.server.server_train -m /workspace"
		docker run $IMAGE python -m nvflare.private.fed.app.server.server_train -m /workspace
	END
	cat >kit/run.slurm <<-'END'
		#!/bin/bash
		#SBATCH --mem=16G
		srun python3 -m nvflare.private.fed.app.client.client_train -m /workspace
	END
	cat >kit/submit.sh <<-'END'
		#!/bin/bash
		sbatch --mem=20G --job-name fl ./run.slurm
		# sbatch --mem=1G run.slurm
		sbatch --mem=1G another.slurm
	END
	cat >kit/whole.yaml <<-'END'
		kind: Pod
		spec:
		  resources: {limits: {memory: 1Gi}}
		  containers:
		    - command: [python3, -m, nvflare.private.fed.app.client.client_train, -m, /w]
	END
	cat >kit/flare.service <<-'END'
		[Service]
		ExecStart=/usr/bin/python3 -m nvflare.private.fed.app.server.server_train -m /workspace
		MemoryMax=60G
	END
	cat >kit/job/meta.json <<-'END'
		{"name": "x", "resource_spec": {
		"@default": {"memory": "8Gi"},
		"server": {"memory": "200Gi"},
		"site-2": {"memory": "32Gi"}},
		"launcher_spec": {"site-1": {"slurm": {"mem_per_node": 4096}}}}
	END
}

finding_at() { # FILE LINE RULE SEVERITY PROPOSED
	jq -e --arg file "kit/$1" --arg rule "$3" --arg severity "$4" --arg proposed "$5" \
		--argjson line "$2" '.findings[] | select(.file == $file and .line == $line and
		.rule == $rule and .severity == $severity and (.proposed // "") == $proposed)' \
		<<<"$output" >/dev/null || fail "no $3 in $1:$2"
}

@test "memory limits in files are compared with a plan" {
	cd "$BATS_TEST_TMPDIR"
	limits
	flmem recommend kit --params 2B --clients 4 --json
	assert_status 0
	assert_schema recommend
	finding_at compose.yaml 3 PLAN-LIMIT-LOW error 82g
	finding_at compose.yaml 7 PLAN-LIMIT-UNCLEAR info ''
	finding_at compose.yaml 10 PLAN-LIMIT-LOW warning 24g
	finding_at pod.yaml 5 PLAN-LIMIT-UNCLEAR info ''
	finding_at docker.sh 2 PLAN-LIMIT-LOW error 82g
	finding_at run.slurm 2 PLAN-LIMIT-LOW error 24G
	finding_at run.slurm 3 PLAN-LIMIT-LOW error 24G
	assert_output 'sbatch --mem in submit.sh'
	finding_at whole.yaml 3 PLAN-LIMIT-LOW error 24Gi
	finding_at flare.service 3 PLAN-LIMIT-LOW error 82G
	finding_at job/meta.json 2 NVF-LIMIT-LOW error 24Gi
	finding_at job/meta.json 5 NVF-LIMIT-LOW error 24576
	finding_at job/meta.json 5 NVF-SPEC-REFUSED error '' # Slurm's memory beside that of all sites
	[ "$(jq '[.findings[] | select(.rule | contains("-LIMIT-"))] | length' <<<"$output")" = 11 ]
	[ "$(jq .held_plan.limits <<<"$output")" = 12 ]
	sed -i 's/"launcher_spec".*/"launcher_spec": {}}/' kit/job/meta.json
	flmem recommend kit --params 1M --clients 4 --fail-on error --format github
	assert_status 0
	refute_output 'PLAN-LIMIT-LOW'
	flmem recommend kit --params 2B --clients 4 --node-memory 8G
	assert_status 1
	assert_stderr 'the plan does not fit a node of 8 GiB'
}

ranged() { # NAMESPACE LIMITS of a pod, and of a LimitRange with a default, a maximum, a minimum
	cat >kit/pod.yaml <<-END
		kind: Pod
		metadata: {namespace: $1}
		spec:
		  containers:
		    - command: [python3, -m, nvflare.private.fed.app.client.client_train, -m, /w]
		      resources: {$2}
		    - command: [sleep, "9"]
	END
	cat >kit/range.yaml <<-END
		kind: LimitRange
		metadata: {namespace: $3}
		spec:
		  limits:
		    - type: Container
		      default: {memory: $4}
		      max: {memory: $5}
		      min: {memory: $6}
	END
}

@test "a container without a limit gets that of a LimitRange" {
	cd "$BATS_TEST_TMPDIR"
	mkdir kit
	ranged fl '' fl 8Gi 64Gi 1Gi
	flmem recommend kit --params 2B --clients 4 --json
	finding_at pod.yaml 5 PLAN-LIMIT-LOW error 24Gi
	assert_output 'default 8Gi of the LimitRange in range.yaml'
	[ "$(jq '[.findings[] | select(.rule | contains("-LIMIT-"))] | length' <<<"$output")" = 1 ]
	flmem recommend kit/range.yaml kit/pod.yaml --params 2B --clients 4 --json
	finding_at pod.yaml 5 PLAN-LIMIT-LOW error 24Gi
	[ "$(jq '.problems | length' <<<"$output")" = 0 ]
	ranged fl '' fl 64Gi 64Gi 1Gi # enough
	flmem recommend kit --params 2B --clients 4 --json
	[ "$(jq '[.findings[] | select(.rule | contains("-LIMIT-"))] | length' <<<"$output")" = 0 ]
	[ "$(jq .held_plan.limits <<<"$output")" = 1 ]
	ranged fl '' fl 8Gi 9Gi 1Gi # its maximum is its default
	sed -i '/default:/d' kit/range.yaml
	flmem recommend kit --params 2B --clients 4 --json
	finding_at pod.yaml 5 PLAN-LIMIT-LOW error 24Gi
	assert_output 'default 9Gi of the LimitRange in range.yaml'
	ranged fl '' other 8Gi 64Gi 1Gi
	flmem recommend kit --params 2B --clients 4 --json
	[ "$(jq '[.findings[] | select(.rule | contains("-LIMIT-"))] | length' <<<"$output")" = 0 ]
	ranged fl '' '' 8Gi 64Gi 1Gi
	flmem recommend kit --params 2B --clients 4 --json
	finding_at pod.yaml 5 PLAN-LIMIT-UNCLEAR info ''
	assert_output 'only one of the pod and the LimitRange has a namespace'
	ranged '' '' '' '{{ .Values.memory }}' 64Gi 1Gi
	flmem recommend kit --params 2B --clients 4 --json
	finding_at pod.yaml 5 PLAN-LIMIT-UNCLEAR info ''
	ranged '' '' '' 8Gi 64Gi 1Gi
	sed 's/8Gi/9Gi/' kit/range.yaml >kit/other.yaml
	flmem recommend kit --params 2B --clients 4 --json
	finding_at pod.yaml 5 PLAN-LIMIT-UNCLEAR info ''
	assert_output 'several LimitRanges have a default'
}

@test "a LimitRange that does not admit the limit of a container is an error" {
	cd "$BATS_TEST_TMPDIR"
	mkdir kit
	ranged '' 'limits: {memory: 70Gi}' '' 8Gi 64Gi 1Gi
	{ echo ---; cat kit/range.yaml; } >>kit/pod.yaml # several documents of one file
	rm kit/range.yaml
	flmem recommend kit --params 2B --clients 4 --json
	finding_at pod.yaml 6 PLAN-LIMIT-RANGE error ''
	assert_output 'it admits at most 64Gi'
	ranged '' 'limits: {memory: 30Gi}' '' 8Gi 64Gi 40Gi
	flmem recommend kit --params 2B --clients 4 --json
	finding_at pod.yaml 6 PLAN-LIMIT-RANGE error ''
	assert_output 'it admits at least 40Gi'
	ranged '' '' '' 8Gi 8Gi 1Gi
	flmem recommend kit --params 2B --clients 4 --json
	finding_at pod.yaml 5 PLAN-LIMIT-LOW error 24Gi
	finding_at pod.yaml 5 PLAN-LIMIT-RANGE error ''
	assert_output 'it admits at most 8Gi, and a client needs 21.3 GiB'
	sed -i 's/default:.*//; s/min:.*//; s/Container/Pod/' kit/range.yaml
	flmem recommend kit --params 2B --clients 4 --json # a pod has a maximum, and no default
	finding_at pod.yaml 5 PLAN-LIMIT-RANGE error ''
	[ "$(jq '[.findings[] | select(.rule | contains("-LIMIT-"))] | length' <<<"$output")" = 1 ]
	ranged '' 'limits: {memory: 30Gi}' '' 8Gi 30Gi 30Gi # within the limits
	flmem recommend kit --params 2B --clients 4 --json
	[ "$(jq '[.findings[] | select(.rule | contains("-LIMIT-"))] | length' <<<"$output")" = 0 ]
}

@test "a plan names the parent processes that it does not count" {
	flmem recommend --params 2B --clients 4
	assert_output 'Beside each process of a job runs the parent process'
	flmem recommend --params 2B --clients 4 --json
	assert_schema recommend
	[ "$(jq -r .not_counted <<<"$output" | cut -c 1-6)" = Beside ]
	flmem recommend --params 2B --clients 4 --simulator 2 --json # it has no such process
	[ "$(jq .not_counted <<<"$output")" = null ]
	flmem recommend --params 2B --clients 4 --framework flower --json
	[ "$(jq .not_counted <<<"$output")" = null ]
}

@test "a check that held no limit against the plan has not passed" {
	flmem recommend "$FLMEM_TESTS/fixtures/jobs/fedavg-tuned" --params 2B --clients 4 --fail-on error
	assert_status 9
	assert_stderr 'no memory limit was compared with the plan'
	assert_output '0 memory limits compared with the plan: server 73.7 GiB, each client 21.3 GiB'
	flmem recommend "$FLMEM_TESTS/fixtures/jobs/fedavg-tuned" --params 2B --clients 4
	assert_status 0
	flmem recommend "$FLMEM_TESTS/fixtures/jobs/fedavg-tuned" --params 2B
	assert_error 2 'needs --clients'
	flmem recommend "$FLMEM_TESTS/fixtures/jobs/fedavg-tuned" --params 2B --clients 4 --fix
	assert_error 2 'cannot be combined with processes, --role, --diff, --fix'
}
