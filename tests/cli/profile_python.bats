#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# flmem profile run: Python stacks, in every CPython whose layout the sampler knows.

load helpers
load profile

setup() {
	requires python3
	PROFILE=$BATS_TEST_TMPDIR/p.prof
	SCRIPT=$FLMEM_TESTS/victims/sampled/sampled.py
}

check_places() {
	"$FLMEM" profile run --force -o "$PROFILE" --interval 1 "$@" -- "$PYTHON" -B "$SCRIPT" 3>&-
	python "$FLMEM_TESTS/harness/check_python_sites.py" "$PROFILE" "$SCRIPT" \
		"${PYTHON_VERSION#3.}"
	look 'assert not p.dropped["python"] and not p.lost_bytes, p.dropped'
}

@test "function, file and line of every allocation" {
	each_python check_places
}

@test "the same with --native" {
	[ "$(uname -m)" = x86_64 ] || skip "unwind tables are read on x86-64"
	each_python check_places_native
}

check_places_native() {
	"$FLMEM" profile run --force -o "$PROFILE" --interval 1 --native -- "$PYTHON" -B "$SCRIPT" 3>&-
	python "$FLMEM_TESTS/harness/check_python_sites.py" "$PROFILE" "$SCRIPT" \
		"${PYTHON_VERSION#3.}"
	look 'stacks = [[len(f) for f in p.stack(s.node)] for s in p.sites.values()]
assert all(s[0] == 2 and s[-1] == 2 for s in stacks), "native frames are innermost and outermost"
assert any(3 in s for s in stacks) and not p.dropped["unmixed"], p.dropped'
}

@test "--python-allocators: small objects are seen one by one" {
	each_python check_small_objects
}

check_small_objects() {
	"$FLMEM" profile run --force -o "$PROFILE" --interval 1 --python-allocators -- \
		"$PYTHON" -c '
def make():
    return [float(i) for i in range(1000, 4000)]
kept = make()' 3>&-
	look 'made = sum(allocated for place, (allocated, _, _) in p.python_sites().items()
               if place and place[1] == "<string>" and place[2] == 3)
print(made)
assert made >= 3000 * 24, made'
}

@test "a Python whose layout is not known has native frames and says so" {
	each_older_python check_older
}

check_older() {
	"$FLMEM" profile run --force -o "$PROFILE" --interval 1 -- "$PYTHON" -c 'x = [bytearray(100000)]' 3>&-
	look 'p.check()
assert p.python_state in (0, 3, 4), p.python_state
assert p.samples and not any(f.kind == 1 for f in p.frames.values())'
}

@test "a round is announced by Python itself" {
	each_python check_round
}

check_round() {
	"$FLMEM" profile run --force -o "$PROFILE" --interval 1 -- "$PYTHON" -c '
import ctypes
announce = ctypes.CDLL(None).flmem_sampler_round_set
kept = []
for number in range(1, 4):
    announce(number)
    kept.append(bytearray(100000))' 3>&-
	look 'sizes = sorted((r.round, r.size) for r in p.live.values() if r.size > 90000)
rounds = [c.round for c in p.cells.values() if c.allocated_bytes >= 100000 and c.round < 9]
assert sorted(rounds) == [1, 2, 3], rounds
assert p.round == 3'
}

@test "children of multiprocessing have their own files with --follow-children" {
	each_python check_children
}

check_children() {
	local own found=0
	rm -f "$PROFILE"*
	"$FLMEM" profile run --force -o "$PROFILE" --interval 1 --follow-children -- "$PYTHON" -c '
import multiprocessing
def work(n):
    return len(bytearray(1000000 + n))
if __name__ == "__main__":
    with multiprocessing.get_context("fork").Pool(2) as pool:
        print(sum(pool.map(work, range(4))))' 3>&-
	for own in "$PROFILE".*; do
		PROFILE=$own look 'p.check()
sys.exit(not any(place and place[0] == "work" for place in p.python_sites()))' || continue
		found=$((found + 1))
	done
	[ "$found" -ge 1 ]
}

@test "a long job of threads, generators and collections runs on unharmed" {
	each_python check_unharmed
}

check_unharmed() {
	"$FLMEM" profile run --force -o "$PROFILE" --interval 512 -- "$PYTHON" -c '
import gc, hashlib, threading, json
def work(seed, results):
    total = 0
    for i in range(300):
        rows = [{"k": j, "v": str(j) * 20} for j in range(100)]
        rows.append(rows)
        total += sum(len(json.dumps(r)) for r in rows[:100])
        def walk(n):
            if n:
                yield n
                yield from walk(n - 1)
        total += sum(walk(30))
        if i % 100 == 0:
            gc.collect()
    results.append(total)
results = []
threads = [threading.Thread(target=work, args=(n, results)) for n in range(4)]
[t.start() for t in threads]
[t.join() for t in threads]
assert len(set(results)) == 1, results
print("result", results[0])' >"$BATS_TEST_TMPDIR/out" 3>&-
	grep -q '^result' "$BATS_TEST_TMPDIR/out"
	look 'p.check()
assert p.samples > 1000 and not p.dropped["python"], p.dropped'
}

@test "threads that allocate without the lock until the interpreter is gone" {
	each_python check_lockless
}

check_lockless() {
	"$FLMEM" profile run --force -o "$PROFILE" --interval 64K -- "$PYTHON" -c '
import ctypes, threading
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
libc.malloc.argtypes = [ctypes.c_size_t]
libc.free.argtypes = [ctypes.c_void_p]
started = threading.Barrier(5)
def deep(n, rounds):
    if n:
        deep(n - 1, rounds)
        return
    for _ in range(rounds):
        libc.free(libc.malloc(5000))
def work():
    deep(40, 200)
    started.wait()
    deep(40, 1 << 40)
for _ in range(4):
    threading.Thread(target=work, daemon=True).start()
started.wait()' 3>&-
	look 'assert p.phase == 2
assert any(place and place[0] == "deep" for place in p.python_sites())'
}

@test "whole stacks are those that the interpreter itself has" {
	each_python check_stacks
}

@test "whole stacks are the same with --native" {
	each_python check_stacks --native
}

check_stacks() {
	local jit
	for jit in 0 1; do
		# other versions lack it
		[ "$jit" = 0 ] || [ "${PYTHON_VERSION#3.}" -ge 13 ] || return 0
		PYTHON_JIT=$jit "$FLMEM" profile run --force -o "$PROFILE" --interval 1 "$@" -- "$PYTHON" -B \
			"$FLMEM_TESTS/victims/sampled/whole_stacks.py" "$BATS_TEST_TMPDIR/stacks" 3>&-
		python "$FLMEM_TESTS/harness/check_python_stacks.py" "$PROFILE" \
			"$BATS_TEST_TMPDIR/stacks"
	done
}

@test "sub-interpreters, one after another, have their own functions" {
	each_python check_interpreters
}

check_interpreters() {
	[ "${PYTHON_VERSION#3.}" -ge 12 ] || return 0
	"$FLMEM" profile run --force -o "$PROFILE" --interval 1 -- "$PYTHON" -B \
		"$FLMEM_TESTS/victims/sampled/interpreters.py" 12 3>&-
	look 'sizes = {}
for place, (allocated, _, _) in p.python_sites().items():
    if place and place[0].startswith("function_"):
        sizes.setdefault(int(place[0][9:]), []).append((place[2], allocated))
assert sorted(sizes) == list(range(36)), sorted(sizes)
for number, rows in sizes.items():
    assert [line for line, _ in rows] == [2 + number % 3], (number, rows)
    assert 0 <= rows[0][1] - 3 * (200000 + 64 * number) < 400, (number, rows)'
}

@test "code that takes the place of other code, with its names and lines, is another function" {
	each_python check_replaced
}

check_replaced() {
	"$FLMEM" profile run --force -o "$PROFILE" --interval 1 -- "$PYTHON" -B \
		"$FLMEM_TESTS/victims/sampled/replaced.py" 3>&-
	look 'sites = {place: row[0] for place, row in p.python_sites().items() if place}
names = {place[0]: size for place, size in sites.items() if place[0].startswith("name_")}
lines = {place[2]: size for place, size in sites.items() if place[1] == "lines"}
assert len(names) == 300 and all(100000 <= n < 200000 for n in names.values()), names
assert sorted(lines) == [2, 3, 4] and all(n < 11000000 for n in lines.values()), lines'
}

@test "greenlets switch stacks" {
	sample_greenlets
	look 'p.check()
assert p.python_sites()[("inside", "<string>", 6)][0] >= 4 * 10 * 100000
assert not p.dropped["python"]'
}

# Python represents a byte that is not UTF-8 by a lone surrogate (PEP 383); other surrogates are in
# no name.
@test "names of files that are not UTF-8 are shown with their bytes, and are two" {
	"$FLMEM" profile run -o "$PROFILE" --limit 1MiB -- /usr/bin/python3 -I -c '
import os
kept, names = [], {}
for name in (os.fsdecode(b"/tmp/a\xff\xfe.py"), os.fsdecode(b"/tmp/a\xff\x80.py"), "/tmp/\ud800\udc7f\udd00x.py"):
    exec(compile("def f(k): k.append(bytearray(2 << 20))", name, "exec"), names)
    names["f"](kept)' 3>&-
	flmem profile table "$PROFILE"
	assert_output 'f \(/tmp/a\\xff\\xfe\.py:1\)'
	assert_output 'f \(/tmp/a\\xff\\x80\.py:1\)'
	assert_output 'f \(/tmp/\?\?\?x\.py:1\)'
	flmem profile table --json "$PROFILE"
	assert_schema profile-table
}
