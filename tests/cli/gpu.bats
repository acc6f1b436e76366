#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# PyTorch on a real GPU: what flmem reports of it, and `flmem trim --cuda`. Elsewhere ask.bats and
# trim_python.bats have a module in the place of PyTorch.

load helpers

gpu_python() {
	has_nvidia || skip "this machine has no CUDA device"
	GPU_PYTHON=${FLMEM_GPU_PYTHON:-/usr/bin/python3}
	"$GPU_PYTHON" -c 'import sys, torch; sys.exit(not torch.cuda.is_available())' 2>/dev/null ||
		skip "no PyTorch that can use the CUDA device (FLMEM_GPU_PYTHON names its Python)"
}

@test "GPU memory that PyTorch keeps is reported, and trim --cuda releases it" {
	gpu_python
	start_victim "$GPU_PYTHON" -uc '
import time, torch
kept = torch.ones(16 << 20, device="cuda")
freed = torch.ones(64 << 20, device="cuda")
pinned = torch.ones(8 << 20).pin_memory()
torch.cuda.synchronize()
del freed, pinned
print("ready", flush=True)
time.sleep(1000)'
	flmem detect --ask-runtime --pid "$VICTIM" --json
	assert_status 0
	assert_schema detect
	examine '
import json, sys
report = json.load(sys.stdin)["processes"][0]
c, of = report["cuda"], report["verdict"]["bytes"]
assert c["reserved_bytes"] >= 320 << 20, c
assert 64 << 20 <= c["allocated_bytes"] < 256 << 20, c
assert c["used_bytes"] is None or c["used_bytes"] >= c["reserved_bytes"], c
if c["pinned_bytes"] is not None:
    assert c["pinned_bytes"] - c["pinned_active_bytes"] >= 32 << 20, c
    assert of["runtime_bytes"] >= 32 << 20, of'
	flmem trim --pid "$VICTIM" --cuda --json
	assert_status 0
	flmem detect --ask-runtime --pid "$VICTIM" --json
	assert_status 0
	examine '
import json, sys
report = json.load(sys.stdin)["processes"][0]
c, of = report["cuda"], report["verdict"]["bytes"]
assert 64 << 20 <= c["allocated_bytes"] <= c["reserved_bytes"] < 256 << 20, c
assert c["pinned_bytes"] in (None, 0), c
assert of["runtime_bytes"] < 32 << 20, of'
	alive "$VICTIM"
}
