#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2016 # of the shell that is sampled
# Where the profiles of children are: their folder, of which another user may have the folder above,
# and their descriptors.

load helpers
load profile

# follow ORDERS: runs a shell that gives the orders, then forks a child that allocates.
follow() {
	mkdir "$BATS_TEST_TMPDIR/place"
	cd "$BATS_TEST_TMPDIR" || return
	run_command "$FLMEM" profile run -o place/p --limit 1MiB --interval 1 --follow-children -- \
		sh -c "$1"'; (a=x; for i in 1 2 3 4 5 6 7 8 9 10 11 12; do a=$a$a; done; echo ${#a})' 3>&-
	assert_output 4096
}

@test "--follow-children: nothing is written into a folder that has come to the place of the first" {
	follow 'mv place moved; mkdir place; chmod 777 place'
	[ -e moved/p ]
	[ -z "$(ls -A place)" ]
}

@test "--follow-children: the same folder is found again under its name" {
	follow 'mv place moved; mv moved place'
	[ "$(find place -name 'p.*' | wc -l)" -ge 1 ]
}

@test "--follow-children: profiles of children leave the program a part of the disk" {
	requires root unshare
	cd "$BATS_TEST_TMPDIR"
	run_command unshare -m bash -c '
		mkdir disk && mount -t tmpfs -o size=12M tmpfs disk || exit 77
		"$FLMEM" profile run --limit 2M --interval 1 --follow-children -o disk/p -- bash -c "
			for i in 1 2 3 4 5 6 7; do (true; a=\$BASHPID; b=\$a\$a\$a); done
			head -c 1M /dev/zero >disk/checkpoint"' -- 3>&-
	[ "$status" != 77 ] || skip "needs to mount a tmpfs"
	assert_status 0
}

@test "--follow-children: what a daemon writes to a standard output that is closed is not in a profile" {
	requires victim:sampled/closed
	run_command "$FLMEM" profile run -o "$BATS_TEST_TMPDIR/p" --limit 1MiB --follow-children -- \
		"$FLMEM_VICTIMS/sampled/closed" 3>&-
	assert_status 0
}

@test "--follow-children: a lost child is counted also once its parent has executed another program" {
	cd "$BATS_TEST_TMPDIR"
	run_command "$FLMEM" profile run -o p --limit 1MiB --interval 1 --follow-children -- \
		sh -c 'ulimit -f 1; (a=x; for i in 1 2 3 4 5 6 7 8 9 10 11 12; do a=$a$a; done); exec sort /dev/null' 3>&-
	assert_status 0
	flmem profile stats --json p
	assert_output '"unrecorded_children":[[:space:]]*1,'
}

@test "--follow-children: children that may not open the file of their parent are counted in it" {
	requires root python3
	run_command "$FLMEM" profile run -o "$BATS_TEST_TMPDIR/p" --limit 1MiB --interval 1MiB --follow-children -- \
		/usr/bin/python3 -c '
import os
for leave in (lambda: os.setuid(65534), lambda: os.chroot("/proc/self/fdinfo")):
    child = os.fork()
    if not child:
        leave()
        bytearray(50 << 20)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0' 3>&-
	assert_status 0
	flmem profile stats --json "$BATS_TEST_TMPDIR/p"
	assert_output '"unrecorded_children":[[:space:]]*2,'
}

@test "--follow-children: of two children that are process 1 of their namespaces, one has FILE.1" {
	requires victim:sampled/namespaces python3
	cd "$BATS_TEST_TMPDIR"
	run_command "$FLMEM" profile run -o p --limit 1MiB --interval 1 --follow-children -- \
		"$FLMEM_VICTIMS/sampled/namespaces" 3>&-
	[ "$status" -ne 77 ] || skip "needs the right to make PID namespaces"
	assert_status 0
	look 'assert sorted(s.allocated_bytes for s in p.sites.values()) == [2 * (5 << 20)]' p.1
	flmem profile stats --json p
	assert_output '"unrecorded_children":[[:space:]]*1,'
	assert_output 'its file exists and belongs to another process'
}
