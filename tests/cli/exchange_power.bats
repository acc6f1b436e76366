#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# What flmem exchange serve has after a failure of the power, and pull after another program's.
# shellcheck disable=SC2153 # exchange.bash sets URL

load helpers
load exchange

setup() {
	exchange_setup
	make_model g.safetensors 0
	make_model a.safetensors 1
}

teardown() {
	exchange_teardown
}

@test "bytes that a power failure took are sent again" {
	local part
	serve --model g.safetensors --clients 1
	create c a.safetensors
	for part in 0 50000 100000; do
		tail -c "+$((part + 1))" a.safetensors | head -c 50000 >chunk
		patch "$part" chunk
		assert_code 204
	done
	offset
	[ "$OFFSET" -eq 150000 ]
	head -c 150000 a.safetensors >sent
	[ "$(header Upload-Checksum)" = "$(PYTHONPATH="$FLMEM_TESTS" /usr/bin/python3 -B -c '
import base64
from harness import digests
print("crc32c", base64.b64encode(digests.crc32c(open("sent", "rb").read()).to_bytes(4, "big")).decode())')" ]
	kill_server
	# Of three commits, the second one did not reach the disk.
	printf '\0\0\0\0\0\0\0\0' | dd of="$(echo state/uploads/*.data)" bs=1 seek=70000 conv=notrunc status=none
	serve --model g.safetensors --clients 1
	offset
	[ "$OFFSET" -eq 50000 ]
	# The records of the lost data are lost, too: those after them would not count.
	tail -c +50001 a.safetensors | head -c 50000 >chunk
	patch 50000 chunk
	kill_server
	serve --model g.safetensors --clients 1
	offset
	[ "$OFFSET" -eq 100000 ]
	push_rest a.safetensors 1000000
	await_server
	[ "$CODE" -eq 0 ]
	assert_model "$(cat served)" a.safetensors
}

# The last commit ends more than 256 MiB after the others, which were flushed before it began.
@test "a disk that lost more than it was asked to keep: all commits are read back, from the last one" {
	local part
	serve --model g.safetensors --clients 1 --quota 1G
	truncate -s 300M large.safetensors
	create c large.safetensors
	for part in 0 50000; do
		tail -c "+$((part + 1))" a.safetensors | head -c 50000 >chunk
		patch "$part" chunk
		assert_code 204
	done
	kill_server
	PYTHONPATH="$FLMEM_TESTS" /usr/bin/python3 -B -c '
import glob, struct
from harness import digests
record = struct.pack("<QI", 300 << 20, 1)
with open(glob.glob("state/uploads/*.journal")[0], "ab") as file:
    file.write(record + struct.pack("<I", digests.crc32c(record)))'
	printf '\0\0\0\0\0\0\0\0' | dd of="$(echo state/uploads/*.data)" bs=1 seek=70000 conv=notrunc status=none
	serve --model g.safetensors --clients 1 --quota 1G
	offset
	[ "$OFFSET" -eq 50000 ]
}

@test "a part that another program cut does not become a model with zeros in it" {
	local call
	mkdir kept
	make_model g.safetensors 1 800000
	serve --model g.safetensors --clients 1
	for call in SLOW_WRITE SLOW_FLUSH; do
		touch slow
		env ASAN_OPTIONS="${ASAN_OPTIONS:-}:verify_asan_link_order=0" "$call=$PWD/slow" FLUSH_LARGE=1 \
			LD_PRELOAD="$FLMEM_VICTIMS/sampled/slow_calls.so" \
			"$FLMEM" exchange pull "$URL" -o m.safetensors 2>late 3>&- &
		await test -e slow.begun
		truncate -s 100 m.safetensors.part
		rm slow slow.begun
		! wait "$!" || fail "it succeeded"
		has_line late "another program has truncated 'm.safetensors.part' while it was received"
		[ ! -e m.safetensors ]
		cp m.safetensors.part* kept
		rm m.safetensors.part*
	done
	mv kept/* .
	"$FLMEM" exchange pull -q "$URL" -o m.safetensors
	cmp m.safetensors g.safetensors
}

# A part without an identity is refused: it could be a file of another program.
@test "the identity of a part is on the disk before its data, and goes after its last name" {
	local order left
	requires strace
	serve --model g.safetensors --clients 1
	for left in none killed; do
		rm -f m.safetensors
		if [ "$left" = killed ]; then
			: >m.safetensors.part
			sha256sum g.safetensors | head -c 64 >m.safetensors.part.sha256
		fi
		run_command env ASAN_OPTIONS="${ASAN_OPTIONS:-}:detect_leaks=0" \
			strace -f -y -q -o calls -e trace=fsync,fdatasync,pwrite64,renameat,renameat2,unlinkat \
			"$FLMEM" exchange pull -q "$URL" -o m.safetensors
		assert_status 0
		assert_identity_first
	done
}

@test "a folder that a full disk does not take is a failure, not bad usage" {
	requires strace
	serve --model g.safetensors --clients 1
	run_command env ASAN_OPTIONS="${ASAN_OPTIONS:-}:detect_leaks=0" strace -f -q -o /dev/null \
		-e trace=mkdir -e inject=mkdir:error=ENOSPC "$FLMEM" exchange pull -q "$URL" -o there/
	assert_error 7 "cannot make the folder 'there/': No space left on device"
}

assert_identity_first() {
	order=$(sed -nE 's/^[0-9]* *//; s/^fsync\([0-9]*<.*sha256>.*/identity/p; s/^fsync\([0-9]*<.*work>.*/folder/p
		s/^pwrite64\([0-9]*<.*part>.*/data/p; s/^renameat.*/name/p; s/^unlinkat.*sha256.*/remove/p' calls | uniq)
	[ "$order" = "$(printf '%s\n' identity folder data name folder remove)" ] || fail "$order"
}

@test "a model whose folder was moved meanwhile is not reported as received" {
	local output
	serve --model g.safetensors --clients 1
	for output in there/m.safetensors there; do
		mkdir there
		touch slow
		env ASAN_OPTIONS="${ASAN_OPTIONS:-}:verify_asan_link_order=0" SLOW_FLUSH="$PWD/slow" FLUSH_LARGE=1 \
			LD_PRELOAD="$FLMEM_VICTIMS/sampled/slow_calls.so" \
			"$FLMEM" exchange pull "$URL" -o "$output" 2>late 3>&- &
		await test -e slow.begun
		mv there moved
		mkdir there
		rm slow slow.begun
		! wait "$!" || fail "it succeeded"
		has_line late "was moved, replaced or closed to this user"
		[ -z "$(ls there)" ]
		rm -r there moved
	done
}

@test "what cannot be read at the start for a while is not taken for missing, and removed" {
	local complete begun name
	cp g.safetensors a.safetensors
	serve --model g.safetensors --clients 2 --rounds 2
	push one a.safetensors && push two a.safetensors
	await state_is '"round": *1'
	push one a.safetensors 1
	assert_code 204
	complete=${LOCATION##*/}
	create two a.safetensors 1
	begun=${LOCATION##*/}
	head -c 5000 a.safetensors >part
	patch 0 part
	kill_server
	for name in rounds/. "/$complete.info" "/$complete.journal" updates/one a.safetensors model/g.safetensors "/$begun.data" "/$begun.info"; do
		run_command env ASAN_OPTIONS="${ASAN_OPTIONS:-}:verify_asan_link_order=0" NO_OPEN="$name" \
			LD_PRELOAD="$FLMEM_VICTIMS/sampled/slow_calls.so" \
			timeout 20 "$FLMEM" exchange serve --listen 127.0.0.1:0 --state state --model g.safetensors --clients 2 --rounds 2
		assert_status 7
		assert_stderr "Input/output error"
		[[ $stderr != *'is not the file'* ]]
	done
	serve --model g.safetensors --clients 2 --rounds 2
	state_is '"round": *1,.*"complete": *1,'
	offset
	[ "$OFFSET" -eq 5000 ]
}

@test "parts that are put together, and a copied state, begin to go to the disk before the flush" {
	local tracer meta
	requires strace
	# LeakSanitizer does not work in a traced process.
	ASAN_OPTIONS="${ASAN_OPTIONS:-}:detect_leaks=0" \
		serve --model g.safetensors --clients 1 --rounds 2 --algorithm fedadam --settle 8s
	push c a.safetensors
	request GET "/v1/status?after=0&wait=60"
	request POST /v1/uploads -H "Upload-Concat: partial" \
		-H "Upload-Length: $(stat -c %s a.safetensors)" -H "Upload-Metadata: client Yw=="
	LOCATION=$(header Location)
	patch 0 a.safetensors
	strace -f -y -q -o trace -e trace=sync_file_range -p "$SERVER" 3>&- &
	tracer=$!
	await grep -q '^TracerPid:[[:space:]]*[1-9]' "/proc/$SERVER/status"
	meta="client Yw==,round MQ==,filename YQ=="
	request POST /v1/uploads -H "Upload-Concat: final;$URL$LOCATION" -H "Upload-Metadata: $meta"
	assert_code 201
	await_server
	[ "$CODE" -eq 0 ]
	wait "$tracer" || true
	has_line trace 'uploads/[^>]*>, 0, .*SYNC_FILE_RANGE_WRITE)'
	has_line trace 'optimizer.safetensors>, 0, .*SYNC_FILE_RANGE_WRITE)'
}
