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

@test "the clean-up of a C program that uses CUDA" {
	has_nvidia || skip "this machine has no CUDA device"
	requires victim:cuda_pool
	local how
	for how in cleanup capture; do
		run --separate-stderr "$FLMEM_VICTIMS/cuda_pool" "$how"
		[ "$status" != 77 ] || skip "no CUDA device can be used: $stderr"
		assert_status 0
		# result, released, kept before and after, sum over what is allocated
		read -r result released before after sum <<<"$output"
		[ "$result" = 0 ]
		[ "$sum" = $((64 << 20)) ]
		[ "$released" -ge $((192 << 20)) ] && [ "$released" = $((before - after)) ]
	done
}

@test "the pools of CUDA are reported and trimmed from outside" {
	gpu_python
	start_victim "$GPU_PYTHON" -uc '
import ctypes, time, torch
torch.ones(1, device="cuda")
runtime = next(line.split()[-1] for line in open("/proc/self/maps") if "libcudart" in line)
cuda = ctypes.CDLL(runtime)
pool, kept, freed = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
threshold = ctypes.c_uint64(2**64 - 1)
assert cuda.cudaDeviceGetDefaultMemPool(ctypes.byref(pool), 0) == 0
assert cuda.cudaMemPoolSetAttribute(pool, 4, ctypes.byref(threshold)) == 0
assert cuda.cudaMallocAsync(ctypes.byref(kept), ctypes.c_size_t(64 << 20), None) == 0
assert cuda.cudaMallocAsync(ctypes.byref(freed), ctypes.c_size_t(192 << 20), None) == 0
assert cuda.cudaFreeAsync(freed, None) == 0 and cuda.cudaDeviceSynchronize() == 0
print("ready", flush=True)
time.sleep(1000)'
	flmem detect --ask-runtime --pid "$VICTIM" --json
	assert_status 0
	examine '
import json, sys
c = json.load(sys.stdin)["processes"][0]["cuda"]
assert c["pool_bytes"] >= 256 << 20 and 64 << 20 <= c["pool_used_bytes"] < 128 << 20, c'
	flmem trim --pid "$VICTIM" --cuda --json
	assert_status 0
	examine '
import json, sys
steps = {s["name"]: s for s in json.load(sys.stdin)["results"][0]["steps"]}
assert int(steps["cudaMemPoolTrimTo"]["detail"].split()[0]) >= 192 << 20, steps'
	alive "$VICTIM"
}
