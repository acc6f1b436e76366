#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# flmem detect --ask-runtime: what allocators report through a borrowed thread, compared with
# what they report to the process itself.
# shellcheck disable=SC2030,SC2031 # each test is a shell of its own

load helpers

setup() {
	requires python3
	# Neither allocator nor program may change anything between the two answers.
	export MALLOC_CONF=dirty_decay_ms:-1,muzzy_decay_ms:-1,background_thread:false
	export TCMALLOC_RELEASE_RATE=0
}

# ask EXPRESSION: evaluates it with `p`, the process, `a`, its serving allocator, `h`, that
# allocator's heap, `o`, the figures under the allocator's names, and `stats`, the victim's output.
ask() {
	python -c '
import json, sys
p = json.load(sys.stdin)["processes"][0]
a = next(x for x in p["allocators"] if x["serves_malloc"])
h, o = a["heap"], a["own"]
stats = {n: int(v) for n, v in (l.split() for l in open(sys.argv[2]) if " " in l)}
def near(x, y, of=4 << 20):
    return abs(x - y) <= max(of, 0.02 * y)
print(eval("(" + sys.argv[1] + ")"))' "$1" "$VICTIM_LOG" <<<"$output"
}

detect_asking() {
	flmem detect --ask-runtime --pid "$VICTIM" --json
	assert_status 0
	assert_schema detect
	assert_victim_unharmed
}

@test "jemalloc reports the same as to its own process" {
	requires victim:allocators/teller-jemalloc
	start_victim "$FLMEM_VICTIMS/allocators/teller-jemalloc"
	detect_asking
	# The answering thread may need a few pages itself.
	[ "$(ask 'all(near(o[n + "_bytes"], stats["stats." + n], 256 << 10) for n in
		("allocated", "active", "resident", "metadata", "retained"))')" = True ]
	[ "$(ask 'near(o["dirty_bytes"], stats["stats.arenas.4096.pdirty"] * 4096, 256 << 10)')" = True ]
	[ "$(ask 'near(o["tcache_bytes"], stats["stats.arenas.4096.tcache_bytes"], 64 << 10)')" = True ]
	[ "$(ask 'h["method"]')" = queried ]
	[ "$(ask 'h["in_use_bytes"] + h["cached_bytes"] + h["free_resident_bytes"]
		+ h["metadata_bytes"] == h["resident_bytes"]')" = True ]
	[ "$(ask 'h["trimmable_bytes"] + h["pinned_bytes"] == h["free_resident_bytes"]')" = True ]
	[ "$(ask 'p["query"]["stopped_us"] > 0 and p["query"]["code"] is None')" = True ]
}

@test "jemalloc's arenas are reported one by one, and add up to the whole" {
	requires victim:allocators/teller-jemalloc
	start_victim "$FLMEM_VICTIMS/allocators/teller-jemalloc"
	detect_asking
	[ "$(ask 'sum(r["trimmable_bytes"] for r in h["arena_list"]) == h["trimmable_bytes"]')" = True ]
	[ "$(ask 'sum(r["resident_bytes"] for r in h["arena_list"]) + h["metadata_bytes"]
		== h["resident_bytes"]')" = True ]
	# The victim has four threads and the first one, which answers.
	[ "$(ask 'sum(r["threads"] for r in h["arena_list"]) >= 5')" = True ]
	[ "$(ask '1 < len(h["arena_list"]) <= h["arenas"]')" = True ]
	# The answering thread may take a few pages from its own arena.
	[ "$(ask 'all(near(r["trimmable_bytes"], 4096 * (stats["stats.arenas.%d.pdirty" % r["number"]]),
		256 << 10) and near(r["resident_bytes"] - r["trimmable_bytes"],
		4096 * stats["stats.arenas.%d.pactive" % r["number"]], 256 << 10)
		for r in h["arena_list"] if r["number"] < 2)')" = True ]
	[ "$(ask '[r["number"] for r in h["arena_list"]][:2]')" = '[0, 1]' ]
}

@test "what jemalloc has dirty is what a trim releases" {
	local trimmable released
	requires victim:allocators/teller-jemalloc
	start_victim "$FLMEM_VICTIMS/allocators/teller-jemalloc"
	detect_asking
	trimmable=$(ask 'h["trimmable_bytes"]')
	[ "$trimmable" -gt $((100 << 20)) ]
	flmem trim --pid "$VICTIM" --json
	assert_status 0
	released=$(python -c 'import json, sys; print(json.load(sys.stdin)["results"][0]["released_bytes"])' <<<"$output")
	python -c 'import sys; t, r = map(int, sys.argv[1:]); sys.exit(abs(t - r) > max(4 << 20, r * 0.02))' \
		"$trimmable" "$released" || fail "$trimmable were predicted, $released released"
	detect_asking
	[ "$(ask 'h["trimmable_bytes"] < 4 << 20')" = True ]
}

@test "gperftools reports the same as to its own process, and a trim releases it" {
	local trimmable released
	requires victim:allocators/teller-tcmalloc
	start_victim "$FLMEM_VICTIMS/allocators/teller-tcmalloc"
	detect_asking
	[ "$(ask 'near(o["current_allocated_bytes"], stats["generic.current_allocated_bytes"], 64 << 10)')" = True ]
	[ "$(ask 'all(near(o[n + "_bytes"], stats["tcmalloc." + n + "_bytes"], 64 << 10) for n in
		("transfer_cache_free", "central_cache_free", "pageheap_free", "pageheap_unmapped"))')" = True ]
	[ "$(ask 'h["in_use_bytes"] + h["cached_bytes"] + h["free_resident_bytes"]
		== h["resident_bytes"]')" = True ]
	trimmable=$(ask 'h["trimmable_bytes"]')
	flmem trim --pid "$VICTIM" --json
	assert_status 0
	released=$(python -c 'import json, sys; print(json.load(sys.stdin)["results"][0]["released_bytes"])' <<<"$output")
	python -c 'import sys; t, r = map(int, sys.argv[1:]); sys.exit(abs(t - r) > max(4 << 20, r * 0.02))' \
		"$trimmable" "$released" || fail "$trimmable were predicted, $released released"
}

@test "the verdict uses what the allocator reported" {
	requires victim:allocators/teller-jemalloc
	start_victim "$FLMEM_VICTIMS/allocators/teller-jemalloc"
	flmem detect --pid "$VICTIM"
	assert_status 0
	assert_output "flmem detect --ask-runtime --pid $VICTIM"
	flmem detect --ask-runtime --pid "$VICTIM"
	assert_status 0
	assert_output 'verdict +retained'
	refute_output 'ask-runtime'
}

@test "what jemalloc returns by itself is cached, what it keeps is retained" {
	local row class decaying
	requires victim:allocators/teller-jemalloc
	for row in \
		'cached True dirty_decay_ms:600000,muzzy_decay_ms:0,background_thread:true' \
		'retained False dirty_decay_ms:600000,muzzy_decay_ms:0,background_thread:false' \
		'retained False dirty_decay_ms:-1,muzzy_decay_ms:0,background_thread:true'; do
		read -r class decaying MALLOC_CONF <<<"$row"
		export MALLOC_CONF
		start_victim "$FLMEM_VICTIMS/allocators/teller-jemalloc"
		detect_asking
		[ "$(ask 'p["verdict"]["class"]')" = "$class" ] || fail "$row: $(ask 'p["verdict"]')"
		[ "$(ask 'h["decaying_bytes"] > (64 << 20)')" = "$decaying" ] ||
			fail "$row: $(ask 'h["decaying_bytes"]')"
		[ "$(ask 'h["trimmable_bytes"] > (64 << 20)')" = True ]
		[ "$(ask 'p["verdict"]["next"][0]')" = "flmem trim --pid $VICTIM" ]
	done
}

@test "a trim asks what it will release, a dry run touches nothing" {
	local name
	for name in jemalloc tcmalloc; do
		requires "victim:allocators/teller-$name"
		start_victim "$FLMEM_VICTIMS/allocators/teller-$name"
		flmem trim --pid "$VICTIM" --dry-run --json
		assert_status 0
		assert_schema trim
		[[ $output == *'only the allocator itself can report it: run flmem detect --ask-runtime'* ]]
		flmem trim --pid "$VICTIM" --json
		assert_status 0
		assert_schema trim
		[ "$(python -c '
import json, sys
r = json.load(sys.stdin)["results"][0]
p, b = r["predicted_bytes"], r["released_bytes"]
print(abs(p - b) <= max(4 << 20, b * 0.02) and b > 16 << 20)' <<<"$output")" = True ]
		assert_victim_unharmed
	done
}

@test "without --ask-runtime nothing is asked, and each figure says how to get it" {
	requires victim:allocators/jemalloc
	start_reader "$FLMEM_VICTIMS/allocators/jemalloc"
	flmem detect --pid "$VICTIM" --json
	assert_status 0
	assert_schema detect
	[ "$(ask 'p["query"]')" = None ]
	[ "$(ask 'h["trimmable_bytes"]')" = None ]
	[ "$(ask '"--ask-runtime" in h["unknown"]["trimmable_bytes"]')" = True ]
	[ "$(ask 'o')" = "{'unknown': {}}" ]
}

@test "mimalloc reports what it has committed, and why no more" {
	requires victim:allocators/teller-mimalloc
	start_victim "$FLMEM_VICTIMS/allocators/teller-mimalloc"
	detect_asking
	[ "$(ask 'stats["commit"] > 8 << 20')" = True ]
	[ "$(ask 'near(o["commit_bytes"], stats["commit"], 1 << 20)')" = True ]
	[ "$(ask 'h["resident_bytes"]')" = None ]
	[ "$(ask '"mimalloc" in h["unknown"]["resident_bytes"]')" = True ]
	[ "$(ask 'p["query"]["stopped_us"] > 0 and p["query"]["code"] is None')" = True ]
	flmem trim --pid "$VICTIM" --json
	assert_status 0
	assert_victim_unharmed
}

@test "allocators that report nothing have a reason" {
	requires victim:allocators/musl
	start_reader "$FLMEM_VICTIMS/allocators/musl"
	detect_asking
	[ "$(ask 'h["resident_bytes"]')" = None ]
	[ "$(ask '"musl" in h["unknown"]["resident_bytes"]')" = True ]
	[ "$(ask 'p["query"]')" = None ]
}

@test "a process that cannot be asked now is reported without it, and so is the failure" {
	requires victim:allocators/jemalloc
	start_reader "$FLMEM_VICTIMS/allocators/jemalloc"
	kill -STOP "$VICTIM"
	wait_until 60 grep -q '^State:.T' "/proc/$VICTIM/status"
	flmem detect --ask-runtime --timeout 50ms --pid "$VICTIM" --json
	assert_status 6
	assert_schema detect
	assert_stderr 'is stopped; continue it first'
	[ "$(ask 'p["query"]["code"]')" = unsafe ]
	[ "$(ask 'h["trimmable_bytes"]')" = None ]
	kill -CONT "$VICTIM"
	detect_asking
	[ "$(ask 'h["trimmable_bytes"] is not None')" = True ]
}

@test "jemalloc under other names, built in, and stripped" {
	local name
	for name in jemalloc-built-in jemalloc-static prefix-je_static prefix-_rjem_pie; do
		if [ ! -x "$FLMEM_VICTIMS/allocators/$name" ]; then
			skip_part "$BATS_TEST_DESCRIPTION: $name was not built"
			continue
		fi
		start_reader "$FLMEM_VICTIMS/allocators/$name"
		flmem detect --ask-runtime --pid "$VICTIM" --json
		assert_status 0
		assert_schema detect
		[ "$(python -c '
import json, sys
p = json.load(sys.stdin)["processes"][0]
print([a["heap"]["trimmable_bytes"] is not None for a in p["allocators"] if a["name"] == "jemalloc"])' \
			<<<"$output")" = '[True]' ] || fail "$name did not answer"
		assert_victim_unharmed
	done
	requires victim:allocators/jemalloc-built-in-stripped
	start_reader "$FLMEM_VICTIMS/allocators/jemalloc-static-stripped"
	flmem detect --ask-runtime --pid "$VICTIM" --json
	assert_status 5
	assert_stderr 'has no symbol of a function that reports its state'
	assert_victim_unharmed
}

# Starts a Python that has a file mapped with the name of NVIDIA's devices, in a separate /dev, and
# a module `torch` that reports figures: no GPU is needed.
start_gpu_user() {
	allow_victim --code
	# shellcheck disable=SC2016 # for the inner shell
	start_victim /usr/bin/unshare --mount /bin/sh -c '
mount -t tmpfs tmpfs /dev && truncate -s 4096 /dev/nvidiactl &&
exec /usr/bin/python3 -uc "$1"' sh '
import mmap, sys, time, types
with open("/dev/nvidiactl") as device:
    mapped = mmap.mmap(device.fileno(), 4096, prot=mmap.PROT_READ)
sys.modules["torch"] = torch = types.ModuleType("torch")
torch.__version__ = "2.13.0+cu130"
torch.cuda = types.SimpleNamespace(
    is_initialized=lambda: True, device_count=lambda: 2,
    memory_stats=lambda i: {"reserved_bytes.all.current": 1000 + i,
        "allocated_bytes.all.current": 600, "inactive_split_bytes.all.current": 30},
    host_memory_stats=lambda: {"allocated_bytes.current": 4096, "active_bytes.current": 1024})
'"$1"'
print("ready", flush=True)
time.sleep(1000)
'
}

cuda() {
	python -c '
import json, sys
c = json.load(sys.stdin)["processes"][0]["cuda"]
print(eval(sys.argv[1]))' "$1" <<<"$output"
}

@test "PyTorch reports on request what it keeps for CUDA" {
	[ "$(id -u)" = 0 ] || skip 'only root mounts a /dev'
	start_gpu_user
	flmem detect --pid "$VICTIM" --json
	assert_schema detect
	[ "$(cuda '"--ask-runtime" in c["unknown"]["reserved_bytes"]')" = True ]
	flmem detect --ask-runtime --pid "$VICTIM" --json
	assert_status 0
	assert_schema detect
	[ "$(cuda '[c[k + "_bytes"] for k in ("reserved", "allocated", "inactive_split",
		"pinned", "pinned_active")]')" = '[2001, 1200, 60, 4096, 1024]' ]
	flmem detect --ask-runtime --pid "$VICTIM"
	assert_output 'PyTorch has reserved'
	assert_victim_unharmed
}

@test "page-locked memory that PyTorch reports is subtracted from the shared memory" {
	[ "$(id -u)" = 0 ] || skip 'only root mounts a /dev'
	# The mapping looks like one of cudaHostAlloc(); the names are those of earlier releases,
	# then of later ones.
	for names in 'reserved_bytes active_bytes' 'allocated_bytes active_bytes'; do
		start_gpu_user '
locked = [mmap.mmap(-1, 8 << 20) for _ in range(24)]
for buffer in locked:
    buffer.write(bytes(8 << 20))
torch.cuda.host_memory_stats = lambda: dict(zip(
    [name + ".current" for name in "'"$names"'".split()], (192 << 20, 48 << 20)))'
		flmem detect --pid "$VICTIM" --json
		assert_output '192 MiB of the shared memory has no name and may be page-locked host memory'
		assert_output "flmem detect --ask-runtime --pid $VICTIM"
		flmem detect --ask-runtime --pid "$VICTIM" --json
		assert_status 0
		assert_schema detect
		examine '
import json, sys
report = json.load(sys.stdin)["processes"][0]
cuda, of = report["cuda"], report["verdict"]["bytes"]
assert cuda["pinned_bytes"] == 192 << 20 and cuda["pinned_active_bytes"] == 48 << 20, cuda
assert 144 << 20 <= of["runtime_bytes"] < 150 << 20, of
assert 48 << 20 <= of["live_bytes"] and of["shared_bytes"] < 1 << 20, of
del of["error_bytes"], of["unknown"]
assert sum(of.values()) == report["memory"]["rss_bytes"], report["memory"]'
		flmem detect --ask-runtime --pid "$VICTIM" --json
		assert_output '192 MiB of page-locked host memory for the GPU, and no tensor uses 144 MiB'
		assert_output "flmem trim --cuda --pid $VICTIM"
		assert_victim_unharmed
	done
}

# The counters of 2.8 to 2.12 do not fall when memory is freed: a real 2.11 reported all of it as in
# use.
@test "a PyTorch that does not count freed page-locked memory" {
	[ "$(id -u)" = 0 ] || skip 'only root mounts a /dev'
	local release
	for release in 2.8.0 2.11.0+cu130 2.12.1 '' unknown; do
		start_gpu_user 'torch.__version__ = "'"$release"'"
locked = mmap.mmap(-1, 192 << 20)
locked.write(bytes(192 << 20))
torch.cuda.host_memory_stats = lambda: {"allocated_bytes.current": 192 << 20,
    "active_bytes.current": 200 << 20}'
		flmem detect --ask-runtime --pid "$VICTIM" --json
		assert_status 0
		assert_schema detect
		[ "$(cuda '(c["pinned_bytes"], c["unknown"]["pinned_active_bytes"])')" = \
			"($((192 << 20)), 'this release of PyTorch does not report it, or not correctly')" ]
		assert_output '192 MiB of page-locked host memory for the GPU; how much of it tensors use is unknown'
		assert_victim_unharmed
	done
}

@test "a PyTorch that reports less, and one that raises" {
	[ "$(id -u)" = 0 ] || skip 'only root mounts a /dev'
	start_gpu_user 'del torch.cuda.host_memory_stats'
	flmem detect --ask-runtime --pid "$VICTIM" --json
	[ "$(cuda '(c["reserved_bytes"], c["pinned_bytes"])')" = '(2001, None)' ]
	assert_victim_unharmed
	start_gpu_user 'torch.cuda.device_count = lambda: 1 / 0'
	flmem detect --ask-runtime --pid "$VICTIM" --json
	assert_status 0
	[ "$(cuda '(c["reserved_bytes"], c["unknown"]["reserved_bytes"])')" = \
		"(None, 'the query for it raised an exception in the process')" ]
	assert_victim_unharmed
}

@test "CuPy, RMM and the pools of CUDA report what they keep on devices that are in use" {
	[ "$(id -u)" = 0 ] || skip 'only root mounts a /dev'
	local cuda=$FLMEM_VICTIMS/../fakes/cuda/libcuda.so.1 libraries='
import ctypes, os
cuda = ctypes.CDLL("'"$FLMEM_VICTIMS/../fakes/cuda/libcuda.so.1"'")
class PoolMemoryResource:
    upstream_mr = None
    def pool_size(self): return 7 << 20
class StatisticsResourceAdaptor:
    upstream_mr = PoolMemoryResource()
class Device:
    def __init__(self, index): self.index = index
    def use(self):
        if self.index != 1: os.abort()
sys.modules["cupy"] = cupy = types.SimpleNamespace(cuda=types.SimpleNamespace(Device=Device),
    get_default_memory_pool=lambda: types.SimpleNamespace(total_bytes=lambda: 90, used_bytes=lambda: 60))
sys.modules["rmm"] = types.SimpleNamespace(mr=types.SimpleNamespace(
    get_per_device_resource=lambda i: StatisticsResourceAdaptor()))'
	[ -e "$cuda" ] || fail "no $cuda"
	start_gpu_user "$libraries"
	flmem detect --ask-runtime --pid "$VICTIM" --json
	assert_status 0
	assert_schema detect
	[ "$(cuda '[c[k + "_bytes"] for k in ("reserved", "cupy", "cupy_used", "rmm", "pool", "pool_used")]')" = \
		"[2001, 90, 60, $((7 << 20)), $((100 << 20)), $((36 << 20))]" ]
	flmem detect --ask-runtime --pid "$VICTIM"
	assert_output 'CuPy keeps 90 B'
	assert_output 'RMM keeps 7 MiB'
	assert_output "CUDA's own pools keep 100 MiB"
	assert_victim_unharmed
	start_gpu_user "$libraries"'
cupy.get_default_memory_pool = None'
	flmem detect --ask-runtime --pid "$VICTIM" --json
	[ "$(cuda '(c["cupy_bytes"], c["unknown"]["cupy_bytes"], c["pool_bytes"])')" = \
		"(None, 'the query for it raised an exception in the process', $((100 << 20)))" ]
	assert_victim_unharmed
}
