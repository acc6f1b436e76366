#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2016 # of shells in mount namespaces
# File systems on which a program could be killed for its profile, which is mapped.

load helpers
load profile_attach

setup() {
	[ "$(id -u)" = 0 ] || skip "needs root, who may mount"
}

teardown() {
	stop_attachable
	[ -z "${FOLDER:-}" ] || rm -rf "$FOLDER"
}

# over KIND: runs a profile on overlayfs whose files are on KIND, in a separate mount namespace.
over() {
	local folder=$BATS_TEST_TMPDIR/$1
	command -v "mkfs.$1" >/dev/null || skip "needs mkfs.$1"
	[ "$(grep -c "\<$1$\|\<overlay$" /proc/filesystems)" = 2 ] || skip "needs $1 and overlayfs in the kernel"
	mkdir "$folder" "$folder/disk" "$folder/low" "$folder/root"
	truncate -s 128M "$folder/image"
	"mkfs.$1" -q "$folder/image"
	run_command unshare -m bash -c 'cd "$1" && mount -o loop image disk && mkdir disk/up disk/work &&
		mount -t overlay -o lowerdir=low,upperdir=disk/up,workdir=disk/work none root || exit 77
		"$FLMEM" profile run -o root/p.prof --limit 1MiB -- true
		code=$?
		[ "$code" = 0 ] || [ -z "$(ls -A root)" ] || exit 78
		exit "$code"' - "$folder"
	[ "$status" -ne 77 ] || skip "overlayfs on a loop device cannot be mounted"
}

# statfs() of overlayfs does not show the file system below.
@test "on overlayfs over btrfs a profile is refused: a full disk would kill the program" {
	over btrfs
	assert_error 2 "is on overlayfs .* a full disk could kill the program"
}

@test "on overlayfs over ext4, as in most containers, a program is sampled" {
	over ext4
	assert_status 0
}

# With both a program was ended by SIGBUS when its file system was shut down, by default not.
@test "on ext4 whose pages need the journal a profile is refused: a failed disk would kill the program" {
	requires mkfs.ext4
	local option folder=$BATS_TEST_TMPDIR mount='cd "$1" && mount -t "$2" -o "loop,$3" image disk || exit 77; shift 3
		exec "$@"'
	truncate -s 32M "$folder/image"
	mkfs.ext4 -q -t ext3 "$folder/image"
	mkdir "$folder/disk"
	for option in "ext4 nodelalloc" "ext3 data=journal"; do
		# shellcheck disable=SC2086 # two words
		run_command unshare -m bash -c "$mount" - "$folder" $option \
			"$FLMEM" profile run -o disk/p.prof --limit 1MiB -- true
		[ "$status" -ne 77 ] || skip "a loop device cannot be mounted"
		assert_error 2 "is mounted with data=journal or nodelalloc"
	done
	start_attachable unshare -m bash -c "$mount" - "$folder" ext4 nodelalloc
	flmem profile attach --pid "$VICTIM" -o "/proc/$VICTIM/root$folder/disk/p.prof" --limit 1MiB
	assert_error 2 "is mounted with data=journal or nodelalloc"
	assert_sound
}

@test "on a file system that flmem does not know a profile is refused" {
	mkdir "$BATS_TEST_TMPDIR/huge"
	run_command unshare -m bash -c 'mount -t hugetlbfs none "$1" || exit 77
		"$FLMEM" profile run -o "$1/p.prof" --limit 1MiB -- true' - "$BATS_TEST_TMPDIR/huge"
	[ "$status" -ne 77 ] || skip "hugetlbfs cannot be mounted"
	assert_error 2 "is on a file system that flmem does not know"
}

@test "what may not be read or written is one status, 4, in all commands of profiles" {
	requires setpriv
	local folder arguments user=(setpriv --reuid 65534 --clear-groups)
	# A place where every user may search.
	FOLDER=$(mktemp -d /var/tmp/flmem-place.XXXXXX)
	folder=$FOLDER
	chmod 755 "$folder"
	"$FLMEM" profile run -o "$folder/open.prof" --limit 1MiB -- true
	chmod 644 "$folder/open.prof"
	mkdir "$folder/closed"
	(umask 077 && : >"$folder/closed/shut.prof")
	"${user[@]}" test -x "$FLMEM" || skip "nobody may not execute flmem"
	while read -r arguments; do
		# shellcheck disable=SC2086 # several words
		run_command "${user[@]}" "$FLMEM" profile $arguments
		assert_error 4 'ermission'
	done <<-END
		stats $folder/closed/shut.prof
		round $folder/closed/shut.prof 1
		round $folder/open.prof 1
		analyze $folder/closed
		run -o $folder/new.prof -- true
		run -f -o $folder/open.prof -- true
		diff --html $folder/page.html $folder/open.prof $folder/open.prof
		flamegraph $folder/open.prof
		export --format pprof -o $folder/out $folder/open.prof
	END
}
