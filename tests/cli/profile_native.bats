#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# flmem profile run and attach with --native: native frames between Python frames, in every CPython.

load helpers
load profile

setup() {
	requires python3
	[ "$(uname -m)" = x86_64 ] || skip "unwind tables are read on x86-64"
	PROFILE=$BATS_TEST_TMPDIR/p.prof
	allow_victim --code
}

teardown() {
	stop_victims
}

@test "--native: frames of C are between those of Python that they called" {
	each_python check_mixed
}

check_mixed() {
	"$FLMEM" profile run --force -o "$PROFILE" --interval 1 --native -- "$PYTHON" -B \
		"$FLMEM_TESTS/victims/sampled/callbacks.py" 3>&-
	"$FLMEM" profile export --format collapsed "$PROFILE" >"$BATS_TEST_TMPDIR/mixed"
	python "$FLMEM_TESTS/harness/check_mixed_stacks.py" "$BATS_TEST_TMPDIR/mixed" \
		"${PYTHON_VERSION#3.}"
	look 'assert not p.dropped["unmixed"] and not p.dropped["deep"], p.dropped'
}

@test "--native: stacks of either kind that are too deep are counted as cut" {
	requires victim:sampled/sampled
	"$FLMEM" profile run -o "$PROFILE" --interval 1 --native -- /usr/bin/python3 -c '
import sys
def deepen(depth):
    return deepen(depth - 1) if depth else bytearray(1 << 20)
kept = deepen(254)' 3>&-
	look 'stacks = [p.stack(s.node) for s in p.sites.values()]
deepest = [s for s in stacks if sum(f[0] == "deepen" for f in s) > 240]
assert deepest and all(s[-1][0] in ("deepen", "<module>") for s in deepest), [s[-1] for s in deepest]
assert p.dropped["deep"] and p.dropped["unmixed"], p.dropped'
	"$FLMEM" profile run --force -o "$PROFILE" --interval 1 --native -- \
		"$FLMEM_VICTIMS/sampled/sampled" deep 300 3>&-
	look 'assert p.dropped["deep"] and not p.dropped["unmixed"], p.dropped'
}

@test "native stacks that are too deep are counted as cut, on a stack of its own, too" {
	requires victim:sampled/sampled
	local mode more
	for mode in deep coroutine; do
		for more in "" --native; do
			"$FLMEM" profile run --force -o "$PROFILE" --interval 1 $more -- "$FLMEM_VICTIMS/sampled/sampled" "$mode" 100 3>&-
			look 'assert not p.dropped["deep"], p.dropped'
			"$FLMEM" profile run --force -o "$PROFILE" --interval 1 $more -- "$FLMEM_VICTIMS/sampled/sampled" "$mode" 300 3>&-
			look 'assert p.dropped["deep"] and not p.dropped["unmixed"], p.dropped
if sys.argv[2] == "deep":
    assert max(len(p.stack(s.node)) for s in p.sites.values()) == 256' "$PROFILE" "$mode"
		done
	done
}

@test "sub-interpreters with --native: frames of C outside of them are not theirs" {
	each_python check_interpreters_native
}

# Checks all interpreters, into whatever parts the compiler has divided the evaluation function.
check_interpreters_native() {
	[ "${PYTHON_VERSION#3.}" -ge 12 ] || return 0
	"$FLMEM" profile run --force -o "$PROFILE" --interval 1 --native -- "$PYTHON" -B \
		"$FLMEM_TESTS/victims/sampled/interpreters.py" 12 3>&-
	look 'stacks = [p.stack(s.node) for s in p.sites.values()]
stacks = [s for s in stacks if any(f[0].startswith("function_") for f in s if len(f) == 3)]
assert stacks and p.dropped["unmixed"]
for stack in stacks:
    assert stack[-1][0] == "<module>" and len(stack[0]) == 2, stack'
}

@test "greenlets with --native: frames of the stack below are not theirs" {
	sample_greenlets --native
	look 'stacks = [[f if len(f) == 3 else "native" for f in p.stack(s.node)] for s in p.sites.values()
          if s.allocated_bytes >= 100000 and ("inside", "<string>", 6) in p.stack(s.node)]
assert stacks and all(s[0] == "native" and s[-1][0] == "inside" for s in stacks), stacks
assert p.dropped["unmixed"] >= 4 * 10'
	flmem profile table --json --stack mixed "$PROFILE"
	python -c 'import json, sys; assert json.load(sys.stdin)["profile"]["unmixed_stacks"] >= 40' <<<"$output"
	flmem profile table --stack mixed "$PROFILE"
	assert_stderr 'without some of the native frames between Python frames'
}

@test "attach --native: the whole stack, to the start of the thread" {
	each_python check_attached
}

has_kept() {
	look 'sys.exit(not any(place and place[0] == "keep" for place in p.python_sites()))'
}

check_attached() {
	start_victim "$PYTHON" -c '
import time
def keep(size):
    block = bytearray(size)
    time.sleep(0.01)
print("ready", flush=True)
while True:
    list(map(keep, [1 << 20]))'
	flmem profile attach --pid "$VICTIM" -o "$PROFILE" --force --native
	assert_status 0
	wait_until 60 has_kept
	flmem profile detach --pid "$VICTIM"
	assert_status 0
	look 'stacks = [p.stack(s.node) for s in p.sites.values()]
kept = [s for s in stacks if any(f[0] == "keep" for f in s if len(f) == 3)]
kinds = {"".join("P" if len(f) == 3 else "n" for f in s) for s in kept}
assert all(re.fullmatch("n+Pn+Pn+", kind) for kind in kinds), kinds  # keep, map, the program
assert not p.dropped["unmixed"], p.dropped'
}

@test "a frame pointer that leads to no frame ends the stack: what returns is behind a call" {
	[ "$(uname -m)" = x86_64 ] || skip "the code is that of x86-64"
	requires victim:sampled/linked
	"$FLMEM" profile run --force -o "$PROFILE" --interval 1 -- "$FLMEM_VICTIMS/sampled/linked" 3>&-
	look 'assert [len(p.stack(s.node)) for s in p.sites.values() if s.allocated_bytes == 123457] == [1]'
}

@test "operator new has no frame, as malloc has none: its caller is the line that allocates" {
	python -c 'import ctypes; ctypes.CDLL("libstdc++.so.6")' || skip "libstdc++ is not installed"
	"$FLMEM" profile run -o "$PROFILE" --limit 1MiB --native -- /usr/bin/python3 -I -c '
import ctypes
new = ctypes.CDLL("libstdc++.so.6")._Znwm
new.argtypes, new.restype = [ctypes.c_size_t], ctypes.c_void_p
kept = [new(8 << 20) for _ in range(4)]' 3>&-
	flmem profile table --stack native "$PROFILE"
	assert_output ' 32 MiB +32 MiB .* libffi\.so'
	refute_output 'operator new'
}
