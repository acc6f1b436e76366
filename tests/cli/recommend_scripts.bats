#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2016,SC2030,SC2031 # Python in quotes; bats' run sets output in each test
# `flmem recommend` on scripts that start jobs, and on what runs behind them.

load helpers

# "RULE FILE:LINE" of every finding in $output, sorted as printed.
findings() {
	/usr/bin/python3 -c '
import json, os, sys
for f in json.load(sys.stdin)["findings"]:
    print(f["rule"], "%s:%d" % (os.path.basename(f["file"]), f["line"]))' <<<"$output"
}

@test "a folder is read with what its hidden CI files and launchers run" {
	local job=$BATS_TEST_TMPDIR/job
	mkdir -p "$job/.circleci"
	printf 'jobs: {a: {steps: [{run: {command: "nvflare simulator j"}}]}}\n' >"$job/.circleci/config.yml"
	printf '#!/bin/sh\ntorchrun --nproc_per_node $N client.py\n' >"$job/run.sh"
	printf 'import nvflare\nSimEnv(2)\n' >"$job/client.py"
	printf 'import gc\nimport nvflare\ngc.collect = lambda: 0\n' >"$job/job.py"
	flmem recommend --json "$job"
	assert_status 0
	assert_schema recommend
	diff <(findings) - <<-'END' || fail "other findings"
		NVF-LAUNCH-CANNOT-TELL config.yml:1
		NVF-CLEANUP-REPLACED job.py:3
		NVF-ARENA-UNSET run.sh:2
	END
}

@test "a script that runs no checked file and names no framework is none" {
	printf '#!/bin/sh\ntorchrun client.py\n' >"$BATS_TEST_TMPDIR/run.sh"
	flmem recommend "$BATS_TEST_TMPDIR/run.sh"
	assert_status 2
	printf 'import nvflare\n' >"$BATS_TEST_TMPDIR/client.py"
	flmem recommend "$BATS_TEST_TMPDIR/run.sh" "$BATS_TEST_TMPDIR/client.py"
	assert_status 0
	assert_output '2 files checked, error: 0, warning: 0, info: 0'
}

@test "what is installed beside a job is not searched, a named environment is" {
	local top=$BATS_TEST_TMPDIR/work
	local start=$'#!/bin/sh\nnvflare simulator j\n'
	mkdir -p "$top"/{tools/lib,conda/conda-meta,lib/site-packages/x,lib/dist-packages,conda-meta}
	: >"$top/tools/pyvenv.cfg"
	: >"$top/conda/conda-meta/history"
	printf '%s' "$start" | tee "$top"/{tools/lib,conda,lib/site-packages/x,lib/dist-packages}/run.sh >"$top/lib/own.sh"
	printf '%s' "$start" >"$top/conda-meta/mine.sh"
	flmem recommend --json "$top"
	assert_status 0
	diff <(findings) - <<-'END' || fail "other findings"
		NVF-ARENA-UNSET mine.sh:2
		NVF-ARENA-UNSET own.sh:2
	END
	flmem recommend --json "$top/tools" # also a project whose environment is made in its folder
	diff <(findings) <(echo 'NVF-ARENA-UNSET run.sh:2') || fail "other findings"
}
