#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Places of a process whose server answers nothing: flmem itself ends, also where it is root.

load helpers
load profile_attach

setup_silent() {
	requires victim:silent/silent
	# The leak checker stops all threads first, and one that waits for an answer cannot be stopped.
	export ASAN_OPTIONS=${ASAN_OPTIONS:-}:detect_leaks=0
	MOUNT=$BATS_TEST_TMPDIR/mount
	mkdir -p "$MOUNT"
	start_attachable "$FLMEM_VICTIMS/silent/silent" around "$MOUNT"
}

# in_victim CODE: Python in the namespaces of the process.
in_victim() {
	nsenter -t "$VICTIM" -U --preserve-credentials -m /usr/bin/python3 -B -c "$1" "${@:2}" 2>/dev/null ||
		nsenter -t "$VICTIM" -m /usr/bin/python3 -B -c "$@"
}

bounded() {
	local began=$SECONDS
	run --separate-stderr timeout -k 5 60 "$FLMEM" profile "$@"
	show_run "flmem profile $*"
	[ $((SECONDS - began)) -lt 40 ] || fail "it took $((SECONDS - began)) s"
}

@test "attach: a profile in a folder whose server is silent is refused, and flmem ends" {
	setup_silent
	bounded attach --pid "$VICTIM" -o "/proc/$VICTIM/root$MOUNT/p.prof"
	assert_error 7 "cannot write .*mount/p.prof"
	bounded attach --pid "$VICTIM" --dry-run -o "/proc/$VICTIM/root$MOUNT/below/p.prof"
	assert_error 7 "cannot write .*below/p.prof"
	assert_sound
	bounded attach --pid "$VICTIM" -o "/proc/$VICTIM/root/dev/shm/flmem-silent.$VICTIM"
	assert_status 0
	bounded detach --pid "$VICTIM"
	assert_status 0
	rm "/dev/shm/flmem-silent.$VICTIM"
}

# The process chooses what its profile is called, and what is there.
@test "detach: what has the name of the profile is on a file system whose server is silent" {
	setup_silent
	mkdir "$BATS_TEST_TMPDIR/place"
	bounded attach --pid "$VICTIM" -o "/proc/$VICTIM/root$BATS_TEST_TMPDIR/place/p.prof"
	assert_status 0
	in_victim 'import ctypes, sys
sys.exit(ctypes.CDLL(None).mount(sys.argv[1].encode(), sys.argv[2].encode(), None, 4096, None))' \
		"$MOUNT" "$BATS_TEST_TMPDIR/place" || skip "needs to mount in the namespace"
	bounded detach --pid "$VICTIM" --json
	assert_status 0
	[ "$(field 'r["deleted"]')" = True ]
	assert_sound
}

# Code is written into the first of /tmp, /var/tmp and /dev/shm that the process may use.
@test "attach: a folder for the sampler whose server is silent, and flmem ends" {
	setup_silent
	in_victim 'import ctypes, sys
sys.exit(ctypes.CDLL(None).mount(sys.argv[1].encode(), b"/tmp", None, 4096, None))' \
		"$MOUNT" || skip "needs to mount in the namespace"
	bounded attach --pid "$VICTIM" -o "/proc/$VICTIM/root/dev/shm/flmem-silent.$VICTIM"
	assert_error 6 "has no directory for temporary files"
	[ ! -e "/dev/shm/flmem-silent.$VICTIM" ]
	order check
	[ "$ANSWER" = sound ]
}

# A profile names the files of its code; who made it chooses their paths.
@test "the file of code that a profile names is where a server is silent, and flmem ends" {
	setup_silent
	cat >"$BATS_TEST_TMPDIR/named.heap" <<-END
		heap_v2/524288
		  t*: 1: 1048576 [0: 0]
		@ 0x7f0000001234
		  t*: 1: 1048576 [0: 0]

		MAPPED_LIBRARIES:
		7f0000000000-7f0000010000 r-xp 00000000 08:01 12345 /proc/$VICTIM/root$MOUNT/lib.so
	END
	bounded table "$BATS_TEST_TMPDIR/named.heap"
	assert_status 0
	assert_output 'lib.so\+0x1233'
	assert_sound
	# Nor does opening one wait for a writer, or act on a device.
	mkfifo "$BATS_TEST_TMPDIR/lib.so"
	sed -i "s|/proc/$VICTIM/root$MOUNT/|$BATS_TEST_TMPDIR/|" "$BATS_TEST_TMPDIR/named.heap"
	bounded table "$BATS_TEST_TMPDIR/named.heap"
	assert_status 0
}
