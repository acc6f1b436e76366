#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# `flmem recommend --fix` by root on the files of others: owner, permissions, ACL and attributes
# stay, and no step that fails or is killed loses a text.

# What stands in single quotes is for another shell; bats' run sets output in each test.
# shellcheck disable=SC2016,SC2030,SC2031
load helpers

NOBODY=65534

setup() {
	umask 022
	cd "$BATS_TEST_TMPDIR" || return
}

# Makes a job whose configuration needs a correction; CONFIG is its path.
make_job() {
	CONFIG=$BATS_TEST_TMPDIR/job/app/config/config_fed_server.json
	mkdir -p "${CONFIG%/*}"
	echo '{}' >job/meta.json
	printf '{"workflows": [{"path": "nvflare.app_common.workflows.fedavg.FedAvg", "args": {}}]}\n' \
		>"$CONFIG"
	cp "$CONFIG" before
}

# Prints what stat and the extended attributes show of a file except its times and its inode.
describe() {
	python -c '
import os, sys
status = os.lstat(sys.argv[1])
print(oct(status.st_mode), status.st_uid, status.st_gid)
for name in sorted(os.listxattr(sys.argv[1])):
    print(name, os.getxattr(sys.argv[1], name))' "$1"
}

# set_acl FILE NAME: sets u::rw-,u:1234:rw-,g::r--,m::rw-,o::--- as setfacl(1) stores it.
set_acl() {
	python -c '
import os, struct, sys
entries = ((1, 6, 2**32 - 1), (2, 6, 1234), (4, 4, 2**32 - 1), (16, 6, 2**32 - 1), (32, 0, 2**32 - 1))
acl = struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry) for entry in entries)
os.setxattr(sys.argv[1], sys.argv[2], acl)' "$1" "$2" 2>/dev/null || skip "no ACLs here"
}

entries() {
	find "${CONFIG%/*}" -mindepth 1 | wc -l
}

@test "--fix by root leaves a file to its owner, with its permissions, ACL and attributes" {
	requires root
	make_job
	chown -R 1111:2222 job
	chmod 640 "$CONFIG"
	set_acl "$CONFIG" system.posix_acl_access
	python -c 'import os, sys; os.setxattr(sys.argv[1], "user.origin", b"export 7")' "$CONFIG"
	local old
	old=$(describe "$CONFIG")
	flmem recommend --fix job
	assert_status 0
	! cmp -s before "$CONFIG" || fail "nothing was corrected"
	[ "$(describe "$CONFIG")" = "$old" ] || fail "was $old, is $(describe "$CONFIG")"
	cmp before "$CONFIG.orig"
	[ "$(describe "$CONFIG.orig")" = "$old" ]
	[ "$(entries)" = 2 ]
}

@test "--fix lets nobody read more because of the directory's default ACL" {
	make_job
	set_acl "${CONFIG%/*}" system.posix_acl_default
	chmod 660 "$CONFIG"
	local old
	old=$(describe "$CONFIG")
	flmem recommend --fix job
	assert_status 0
	[ "$(describe "$CONFIG")" = "$old" ] || fail "was $old, is $(describe "$CONFIG")"
}

@test "--fix by root makes no program that runs as root" {
	requires root
	make_job
	chown $NOBODY "$CONFIG"
	chmod 6755 "$CONFIG"
	flmem recommend --fix job
	assert_status 0
	[ "$(stat -c '%a %u' "$CONFIG")" = "755 $NOBODY" ] || fail "$(stat -c '%a %u' "$CONFIG")"
}

@test "--fix by root passes no capabilities of a program on" {
	requires root python3
	make_job
	python -c 'import os, struct, sys
os.setxattr(sys.argv[1], "security.capability", struct.pack("<5I", 1 << 25, 1 << 10, 0, 0, 0))' \
		"$CONFIG" || skip "the file system keeps no capabilities"
	flmem recommend --fix job
	assert_status 0
	run /usr/bin/python3 -c 'import os, sys; print(os.listxattr(sys.argv[1]))' "$CONFIG"
	[[ $output != *security.capability* ]] || fail "the new file has $output"
}

@test "--fix leaves a file whose owner it cannot keep" {
	requires root setpriv
	make_job
	chmod 777 "${CONFIG%/*}"
	chmod 666 "$CONFIG"
	chmod 755 "$BATS_TEST_TMPDIR"
	run --separate-stderr setpriv --reuid $NOBODY --clear-groups "$FLMEM" recommend --fix job
	show_run "flmem recommend --fix as nobody"
	[[ $stderr != *"cannot search"* && $stderr != *"cannot be read"* ]] ||
		skip "the test's directory is closed to others"
	assert_status 4
	assert_stderr 'to 0:0; run as that user'
	cmp before "$CONFIG"
	[ "$(entries)" = 1 ]
}

@test "--fix leaves everything as it was when the disk is full" {
	requires root unshare
	make_job
	unshare -m true || skip "no mount namespace can be made here"
	mkdir small
	run --separate-stderr unshare -m sh -c '
		mount -t tmpfs -o size=64k none small || exit 77
		cp -R job small && find small >listed
		head -c 1m /dev/zero >small/filler 2>/dev/null
		"$1" recommend --fix small/job 2>err
		echo "status $?"
		rm small/filler
		find small | cmp - listed && cmp before small/job/app/config/config_fed_server.json &&
		echo whole' sh "$FLMEM"
	show_run "in a full tmpfs"
	[ "$status" != 77 ] || skip "no tmpfs can be mounted here"
	assert_output 'status 7.*whole'
	grep -q 'No space left' err
}

@test "--fix leaves immutable files and directories" {
	requires root chattr
	make_job
	chattr +i "$CONFIG" 2>/dev/null || skip "no file attributes here"
	flmem recommend --fix job
	chattr -i "$CONFIG"
	assert_status 4
	assert_stderr 'is read-only'
	chattr +i "${CONFIG%/*}"
	flmem recommend --fix job
	chattr -i "${CONFIG%/*}"
	assert_status 4
	cmp before "$CONFIG"
	[ "$(entries)" = 1 ]
	chattr +a "$CONFIG"
	flmem recommend --fix job
	chattr -a "$CONFIG"
	assert_status 4
	cmp before "$CONFIG"
	[ "$(entries)" = 1 ]
}

@test "--fix that is killed at any step has lost nothing" {
	requires strace
	strace -o /dev/null true 2>/dev/null || skip "strace may not trace here"
	local call number killed=0
	for call in write fchown fsync linkat renameat2 unlinkat exit_group; do
		for number in 1 2; do
			rm -rf job
			make_job
			run strace -f -o /dev/null -e trace="$call" \
				-e inject="$call:signal=KILL:when=$number" "$FLMEM" recommend --fix job
			[ "$status" = 0 ] || killed=$((killed + 1))
			if ! cmp -s before "$CONFIG"; then
				cmp before "$CONFIG.orig" || fail "killed at $call $number: the old text is gone"
				python -c 'import json, sys; json.load(open(sys.argv[1]))' "$CONFIG" ||
					fail "killed at $call $number: half a file"
			fi
			# The leftover file does not hinder anyone.
			rm -f "$CONFIG.orig"
			flmem recommend --fix job
			assert_status 0
		done
	done
	[ "$killed" -ge 6 ] || fail "only $killed were killed"
}

@test "--fix and --diff report how many values in Python they leave" {
	cd "$BATS_TEST_TMPDIR"
	printf '%s\n' 'from nvflare.app_opt.pt.recipes import FedAvgRecipe' \
		'FedAvgRecipe(client_memory_gc_rounds=0, server_memory_gc_rounds=5, num_rounds=9)' >job.py
	cp job.py before.py
	flmem recommend --fix job.py
	assert_status 0
	assert_stderr '1 proposed value in Python, which is not written; set it by hand'
	flmem recommend --diff job.py
	assert_status 0
	assert_stderr '1 proposed value in Python'
	[ -z "$output" ] || fail "a difference of Python"
	diff job.py before.py
	{ echo '#!/usr/bin/env python3' && cat job.py; } >launch_job # its name does not matter
	flmem recommend --diff launch_job
	assert_status 0
	assert_stderr '1 proposed value in Python, which is not written; set it by hand'
	sed -i 's/=0/=1/' job.py
	flmem recommend --fix job.py
	[ -z "$stderr" ] || fail "$stderr"
}

@test "--diff reports what it could not check, and --fail-on counts what it found" {
	cd "$BATS_TEST_TMPDIR"
	mkdir empty
	printf '{' >config_fed_server.json
	local input
	for input in empty nothere config_fed_server.json; do
		flmem recommend --diff "$input"
		assert_error 2 "$input"
	done
	flmem recommend --diff config_fed_server.json "$FLMEM_TESTS/fixtures/jobs/fedavg-default"
	assert_status 8
	assert_stderr 'config_fed_server.json:1'
	assert_output '\+ +"memory_gc_rounds": 5'
	flmem recommend --diff --fail-on warning "$FLMEM_TESTS/fixtures/jobs/fedavg-default"
	assert_status 1
	assert_output '\+ +"memory_gc_rounds": 5'
}
