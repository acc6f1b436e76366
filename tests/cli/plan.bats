#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# The exit status of plans (recommend --model, --params); what they contain is in recommend.bats.

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
