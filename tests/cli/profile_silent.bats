#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Places of a process whose server answers nothing: flmem itself ends, also where it is root.

load helpers
load profile_attach

setup_silent() {
	requires victim:silent/silent
	# The leak checker stops all threads first, and a thread that waits for an answer cannot be
	# stopped.
	export ASAN_OPTIONS=${ASAN_OPTIONS:-}:detect_leaks=0
	MOUNT=$BATS_TEST_TMPDIR/mount
	mkdir -p "$MOUNT"
	start_attachable "$FLMEM_VICTIMS/silent/silent" around "$MOUNT"
}

# in_victim CODE: runs Python in the namespaces of the process.
in_victim() {
	nsenter -t "$VICTIM" -U --preserve-credentials -m /usr/bin/python3 -B -c "$1" "${@:2}" 2>/dev/null ||
		nsenter -t "$VICTIM" -m /usr/bin/python3 -B -c "$@"
}

bounded() {
	local began=$SECONDS
	unnoted run_apart "flmem profile $*" timeout -k 5 60 "$FLMEM" profile "$@"
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

# The process chooses the name of its profile, and the file with that name.
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

# A profile names the files of its code; its creator chooses their paths.
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

# answered READS FILE ARGUMENT...: runs flmem beside $MOUNT/file, a copy of FILE that answers so
# many reads, and whose name the kernel has cached.
answered() {
	# shellcheck disable=SC2016 # for the new shell
	run --separate-stderr timeout -k 5 60 "$FLMEM_VICTIMS/silent/silent" after "$1" "$2" \
		"$MOUNT" sh -c '[ -e "$0" ]; exec "$@"' "$MOUNT/file" "$FLMEM" profile "${@:3}"
	show_run "after $1 reads: flmem profile ${*:3}"
}

setup_answered() {
	requires victim:silent/silent
	"$FLMEM_VICTIMS/silent/silent" around "$BATS_TEST_TMPDIR" true || skip "needs to mount FUSE"
	export ASAN_OPTIONS=${ASAN_OPTIONS:-}:detect_leaks=0
	MOUNT=$BATS_TEST_TMPDIR/mount
	mkdir -p "$MOUNT"
}

@test "a profile whose file system falls silent while it is read is named, and flmem ends" {
	setup_answered
	PROFILE=$BATS_TEST_TMPDIR/p.prof
	"$FLMEM" profile run -o "$PROFILE" --limit 2MiB -- sleep 0
	answered 100000 "$PROFILE" stats "$MOUNT/file"
	assert_status 0
	answered 1 "$PROFILE" stats "$MOUNT/file"
	assert_error 7 "cannot read the profile '$MOUNT/file': the file system .* did not answer"
	answered 4 "$PROFILE" tree "$MOUNT/file"
	assert_error 7 "cannot read the profile '$MOUNT/file': the file system .* did not answer"
	mkdir "$BATS_TEST_TMPDIR/folder"
	ln -s "$MOUNT/file" "$BATS_TEST_TMPDIR/folder/a.prof"
	answered 1 "$PROFILE" analyze "$BATS_TEST_TMPDIR/folder"
	assert_error 7 "a.prof.* did not answer"
}

@test "symbols of a file that falls silent while it is read are not shown, and flmem ends" {
	local at text page reads library
	setup_answered
	library=$(ldd "$FLMEM" | awk '/libflmem/{print $3; exit}')
	text=$(readelf -lW "$library" | awk '/LOAD.* R E /{print $2, $3; exit}')
	at=$(nm "$library" | awk '$3 == "flmem_heap_profile_read"{print $1}')
	page=$((${text% *} & ~4095))
	# The start of the segment in the process: the address of its first page.
	at=$(printf %x $((0x7f0000000000 + 0x$at - ${text#* } + ${text% *} - page + 2)))
	cat >"$BATS_TEST_TMPDIR/named.heap" <<-END
		heap_v2/524288
		  t*: 1: 1048576 [0: 0]
		@ 0x$at
		  t*: 1: 1048576 [0: 0]

		MAPPED_LIBRARIES:
		7f0000000000-7f0010000000 r-xp $(printf %08x "$page") 08:01 2 $MOUNT/file
	END
	answered 100000 "$library" table "$BATS_TEST_TMPDIR/named.heap"
	assert_status 0
	assert_output 'flmem_heap_profile_read'
	for reads in 1 3; do
		answered "$reads" "$library" table "$BATS_TEST_TMPDIR/named.heap"
		assert_status 0
		refute_output 'flmem_heap_profile_read'
		assert_output 'file\+0x'
	done
}

# The file system is tried once, not for each file of code.
@test "debug files are on a file system that does not answer: names of the files of code are shown, and flmem ends" {
	setup_answered
	[ -d /usr/lib/debug ] || skip "needs /usr/lib/debug to mount over"
	PROFILE=$BATS_TEST_TMPDIR/p.prof
	flmem profile run -o "$PROFILE" --native --interval 1 --limit 8MiB -- /usr/bin/python3 -c '
import bz2, ctypes, decimal, hashlib, lzma, sqlite3, ssl, zlib
sqlite3.connect(":memory:")'
	assert_status 0
	run --separate-stderr timeout -k 5 20 "$FLMEM_VICTIMS/silent/silent" around /usr/lib/debug \
		"$FLMEM" profile tree --json --stack native "$PROFILE"
	show_run tree
	assert_status 0
	assert_output '"_Py[A-Za-z_]*"'
	assert_output '"the files of debug symbols are on a file system that does not answer"'
}

@test "analyze: a folder on a file system that is silent, or falls silent, is named, and flmem ends" {
	setup_answered
	PROFILE=$BATS_TEST_TMPDIR/p.prof
	"$FLMEM" profile run -o "$PROFILE" --limit 2MiB -- sleep 0
	answered 100000 "$PROFILE" analyze "$MOUNT"
	assert_status 0
	assert_output 'file \(ended\)'
	answered 1 "$PROFILE" analyze "$MOUNT"
	assert_error 7 "the file system of '$MOUNT.* did not answer"
	run --separate-stderr timeout -k 5 20 "$FLMEM_VICTIMS/silent/silent" around "$MOUNT" \
		"$FLMEM" profile analyze "$MOUNT"
	assert_error 7 "the file system of '$MOUNT' did not answer"
	mkdir "$BATS_TEST_TMPDIR/folder"
	cp "$PROFILE" "$BATS_TEST_TMPDIR/folder"
	run --separate-stderr timeout -k 5 20 "$FLMEM_VICTIMS/silent/silent" around "$MOUNT" \
		"$FLMEM" profile analyze --baseline "$MOUNT/file" "$BATS_TEST_TMPDIR/folder"
	assert_error 7 "baseline.*'$MOUNT/file'.* did not answer"
}

# silently ARGUMENT...: runs flmem profile with a silent file system at $MOUNT.
silently() {
	run --separate-stderr timeout -k 5 30 "$FLMEM_VICTIMS/silent/silent" around "$MOUNT" \
		"$FLMEM" profile "$@"
	show_run "flmem profile $*"
}

@test "a place for what is written that does not answer is named, and flmem ends" {
	setup_answered
	PROFILE=$BATS_TEST_TMPDIR/p.prof
	"$FLMEM" profile run -o "$PROFILE" --limit 2MiB -- sleep 0
	silently run -o "$MOUNT/q.prof" -- true
	assert_error 7 "cannot write '$MOUNT/q.prof': its file system did not answer"
	silently flamegraph "$PROFILE" -o "$MOUNT/p.html"
	assert_error 7 "cannot write '$MOUNT/p.html': its file system did not answer"
	silently export --format json "$PROFILE" -o "$MOUNT/below/p.json"
	assert_error 7 "cannot write '$MOUNT/below/p.json': its file system did not answer"
}

@test "a cache of debuginfod that does not answer: no names from servers, and flmem ends" {
	setup_answered
	PROFILE=$BATS_TEST_TMPDIR/p.prof
	"$FLMEM" profile run -o "$PROFILE" --native --interval 1 --limit 2MiB -- sleep 0
	export DEBUGINFOD_URLS=http://127.0.0.1:9 DEBUGINFOD_CACHE_PATH=$MOUNT/cache
	silently tree "$PROFILE"
	assert_status 0
	unset DEBUGINFOD_CACHE_PATH
	XDG_CACHE_HOME=$MOUNT silently tree "$PROFILE"
	assert_status 0
}
