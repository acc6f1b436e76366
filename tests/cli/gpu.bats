#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# PyTorch on a real GPU: what flmem reports of it, and `flmem trim --cuda`. Elsewhere ask.bats and
# trim_python.bats have a module in place of PyTorch.

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
assert c["pinned_bytes"] is None or c["pinned_bytes"] >= 32 << 20, c
if c["pinned_active_bytes"] is not None:
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

# Its RSS hardly changes; each time 512 MiB of the device become free.
@test "watch --auto releases GPU memory again and again, and counts it" {
	local trims
	gpu_python
	start_victim "$GPU_PYTHON" -uc '
import time, torch
kept = torch.ones(16 << 20, device="cuda")
print("ready", flush=True)
while True:
    freed = torch.ones(128 << 20, device="cuda")
    assert float(freed.sum()) == 128 << 20
    del freed
    time.sleep(0.2)'
	flmem watch --pid "$VICTIM" --auto --cuda --when 'rss > 1' --interval 100ms --cool-down 100ms \
		--min-release 256M --max-ineffective 3 --duration 10s --json
	assert_status 0
	trims=$(grep -c '"action":"trimmed"' <<<"$output")
	[ "$trims" -ge 5 ]
	refute_output '"action":"paused"'
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
		# result, released, kept before and after, sum over the allocated memory
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
result = json.load(sys.stdin)["results"][0]
step = next(s for s in result["steps"] if s["name"] == "cudaMemPoolTrimTo")
assert int(step["detail"].split()[0]) >= 192 << 20, step
assert step["outcome"] == result["outcome"] == "released", result'
	alive "$VICTIM"
}

@test "the devices are those of nvidia-smi" {
	has_nvidia || skip "this machine has no CUDA device"
	requires nvidia-smi
	flmem detect --json
	assert_status 0
	assert_schema detect
	examine '
import json, subprocess, sys
host = json.load(sys.stdin)["host"]
said = subprocess.run(["nvidia-smi", "--format=csv,noheader,nounits",
    "--query-gpu=driver_version,name,memory.total,mig.mode.current"],
    stdout=subprocess.PIPE, check=True, text=True).stdout.splitlines()
assert len(said) == len(host["gpus"]), (said, host)
mig = {"on": "Enabled", "off": "Disabled", "unsupported": "[N/A]"}
for line, gpu in zip(said, host["gpus"]):
    found = [host["gpu_driver"], gpu["name"], str(gpu["total_bytes"] >> 20), mig.get(gpu["mig"])]
    assert line.split(", ") == found, (line, found)
    assert 0 < gpu["used_bytes"] + gpu["free_bytes"] <= gpu["total_bytes"], gpu'
}

# Memory becomes free during the capture in the global mode; releasing it then would end the
# capture.
@test "a graph that PyTorch captures is not disturbed" {
	gpu_python
	start_victim "$GPU_PYTHON" -uc '
import os, time, torch
stream, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()
a = torch.ones(1 << 20, device="cuda")
out, big = torch.empty_like(a), torch.empty(512 << 20, dtype=torch.uint8, device="cuda")
torch.cuda.synchronize()
with torch.cuda.graph(graph, stream=stream):
    out.copy_(a + 1)
    del big
    print("ready", flush=True)
    while not os.path.exists("'"$BATS_TEST_TMPDIR/go"'"):
        time.sleep(0.01)
    out.mul_(2)
graph.replay()
torch.cuda.synchronize()
print("sum", int(out.sum()), flush=True)
time.sleep(1000)'
	flmem trim --pid "$VICTIM" --cuda
	assert_status 0
	assert_output "torch.cuda.empty_cache +skipped: a CUDA graph is being captured"
	assert_output "cudaMemPoolTrimTo +skipped: a CUDA graph is being captured"
	touch "$BATS_TEST_TMPDIR/go"
	wait_until 60 grep -q sum "$VICTIM_LOG"
	grep -qx "sum $((4 << 20))" "$VICTIM_LOG"
	flmem trim --pid "$VICTIM" --cuda
	assert_status 0
	assert_output "torch.cuda.empty_cache .*: 5[0-9]+ bytes of device memory"
	assert_output "RSS .*, and 5[0-9.]+ MiB of GPU memory"
	alive "$VICTIM"
}
