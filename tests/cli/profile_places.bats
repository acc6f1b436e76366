#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2016 # of shells in mount namespaces
# File systems on which a program could be killed for its profile, which is mapped.

load helpers

setup() {
	[ "$(id -u)" = 0 ] || skip "needs root, who may mount"
}

# over KIND: runs a profile on overlayfs whose files are on KIND, in a mount namespace of its own.
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

# statfs() of overlayfs says nothing of what is below.
@test "on overlayfs over btrfs a profile is refused: a full disk would kill the program" {
	over btrfs
	assert_error 2 "is on overlayfs .* a full disk could kill the program"
}

@test "on overlayfs over ext4, as in most containers, a program is sampled" {
	over ext4
	assert_status 0
}

@test "on a file system that flmem does not know a profile is refused" {
	mkdir "$BATS_TEST_TMPDIR/huge"
	run_command unshare -m bash -c 'mount -t hugetlbfs none "$1" || exit 77
		"$FLMEM" profile run -o "$1/p.prof" --limit 1MiB -- true' - "$BATS_TEST_TMPDIR/huge"
	[ "$status" -ne 77 ] || skip "hugetlbfs cannot be mounted"
	assert_error 2 "is on a file system that flmem does not know"
}
