/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/profile/profile_place.h"

#include <linux/fiemap.h>
#include <linux/fs.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/portable.h"
#include "proc/files/mounts.h"
#include "proc/process.h"

struct file_system {
	uint32_t kind; /* file system type, as in statfs(2) */
	const char *risk;
};

#define WAITS                                                                                  \
	"is on a file system of a server (NFS, FUSE and others), for which the program could " \
	"wait in malloc()"
#define COPIES                                                                                   \
	"is on a file system that writes changes to new blocks (btrfs, ZFS and others): a full " \
	"disk would kill the program in malloc(), although this file has all its blocks"
#define UNKNOWN_KIND                                                                          \
	"is on a file system that flmem does not know: the program could wait for it, or be " \
	"killed, in malloc()"
#define JOURNALED                                                                                 \
	"is on ext3 or ext4 that is mounted with data=journal or nodelalloc: if the disk fails, " \
	"the kernel would kill the program in malloc()"
#define HIDDEN                                                                                     \
	"is on overlayfs (the root of a container), and its blocks change, or are not shown "      \
	"(btrfs, ZFS, tmpfs below): a full disk could kill the program in malloc(), although the " \
	"file has all its blocks"

/* Returns why mapping a file there could harm a program; NULL: no reason is known. */
static const char *find_mapping_risk(uint32_t kind)
{
	static const struct file_system rows[] = {
		{EXT4_SUPER_MAGIC, NULL},
		{XFS_SUPER_MAGIC, NULL},
		{TMPFS_MAGIC, NULL},
		{RAMFS_MAGIC, NULL},
		{F2FS_SUPER_MAGIC, NULL},
		{MSDOS_SUPER_MAGIC, NULL},
		{0x2011bab0 /* exFAT */, NULL},
		{0x3153464a /* JFS */, NULL},
		{OVERLAYFS_SUPER_MAGIC, NULL}, /* see flmem_profile_blocks_check() */
		{FUSE_SUPER_MAGIC, WAITS},
		{NFS_SUPER_MAGIC, WAITS},
		{SMB_SUPER_MAGIC, WAITS},
		{SMB2_SUPER_MAGIC, WAITS},
		{CIFS_SUPER_MAGIC, WAITS},
		{V9FS_MAGIC, WAITS},
		{CEPH_SUPER_MAGIC, WAITS},
		{AFS_SUPER_MAGIC, WAITS},
		{AFS_FS_MAGIC, WAITS},
		{CODA_SUPER_MAGIC, WAITS},
		{OCFS2_SUPER_MAGIC, WAITS},
		{0x01161970 /* GFS2 */, WAITS},
		{0x0bd00bd0 /* Lustre */, WAITS},
		{0x47504653 /* GPFS */, WAITS},
		{0x19830326 /* BeeGFS */, WAITS},
		{BTRFS_SUPER_MAGIC, COPIES},
		{NILFS_SUPER_MAGIC, COPIES},
		{0x24051905 /* UBIFS */, COPIES},
		{0x2fc12fc1 /* ZFS */, COPIES},
		{0xca451a4e /* bcachefs */, COPIES},
	};

	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(rows); i++)
		if (kind == rows[i].kind)
			return rows[i].risk;
	return UNKNOWN_KIND;
}

static int refuse_profile_place(const char *path, const char *risk, struct flmem_error *err)
{
	return flmem_error_set(err, FLMEM_EUSAGE, 0,
			       "'%s' %s; choose a directory on another file system, /dev/shm for "
			       "example",
			       path, risk);
}

uint32_t flmem_profile_place_kind(int fd)
{
	struct statfs status;

	return fstatfs(fd, &status) < 0 ? 0 : (uint32_t)status.f_type;
}

int flmem_profile_place_check(uint32_t kind, bool is_mapped, const char *path,
			      struct flmem_error *err)
{
	const char *risk = kind ? find_mapping_risk(kind) : WAITS;

	if (!risk || (!is_mapped && strcmp(risk, COPIES) == 0))
		return 0;
	return refuse_profile_place(path, risk, err);
}

static bool has_mount_option(const char *options, const char *option)
{
	const size_t length = strlen(option);

	for (const char *at = options; at; at = strchr(at, ',')) {
		at += *at == ',';
		if (strncmp(at, option, length) == 0 && (!at[length] || at[length] == ','))
			return true;
	}
	return false;
}

/*
 * The first write to a page may need the journal there, which a file system that has failed refuses
 * (ext4_page_mkwrite). Otherwise the page is only reserved.
 */
static bool needs_journal(const struct flmem_mount *mount, const char *device)
{
	return strcmp(mount->device, device) == 0 &&
	       (has_mount_option(mount->options, "nodelalloc") ||
		has_mount_option(mount->options, "data=journal"));
}

int flmem_profile_mount_check(const struct flmem_process *process, dev_t device, const char *path,
			      struct flmem_error *err)
{
	FLMEM_AUTO_MOUNTS struct flmem_mounts mounts = FLMEM_MOUNTS_INIT;
	FLMEM_AUTO_PROCESS struct flmem_process own = FLMEM_PROCESS_INIT;
	char number[32];

	if (!process && flmem_process_open(getpid(), &own, NULL))
		return 0;
	if (flmem_mounts_read(process ? process : &own, &mounts))
		return 0;
	snprintf(number, sizeof(number), "%u:%u", major(device), minor(device));
	for (size_t i = 0; i < mounts.count; i++)
		if (needs_journal(&mounts.rows[i], number))
			return refuse_profile_place(path, JOURNALED, err);
	return 0;
}

/* Finds where the first bytes of a file are on the disk, once they are there. */
static bool find_first_block(int fd, uint64_t *ret_place)
{
	union {
		struct fiemap map;
		char room[sizeof(struct fiemap) + sizeof(struct fiemap_extent)];
	} first = {.map = {.fm_length = 1, .fm_flags = FIEMAP_FLAG_SYNC, .fm_extent_count = 1}};
	const struct fiemap_extent *extent = first.map.fm_extents;

	if (fdatasync(fd) < 0 || ioctl(fd, FLMEM_IOCTL_REQUEST(FS_IOC_FIEMAP), &first.map) < 0 ||
	    first.map.fm_mapped_extents != 1 || extent->fe_logical != 0 ||
	    extent->fe_flags & (FIEMAP_EXTENT_UNKNOWN | FIEMAP_EXTENT_DELALLOC |
				FIEMAP_EXTENT_DATA_INLINE | FIEMAP_EXTENT_SHARED))
		return false;
	*ret_place = extent->fe_physical;
	return true;
}

/*
 * Compares the place before and after a second write: the first write into a reserved block may
 * stay there, so it proves nothing.
 */
int flmem_profile_blocks_check(int fd, const void *bytes, size_t length, const char *path,
			       struct flmem_error *err)
{
	const uint32_t kind = flmem_profile_place_kind(fd);
	uint64_t before, after;

	if (kind && kind != OVERLAYFS_SUPER_MAGIC)
		return 0;
	if (find_first_block(fd, &before) && pwrite(fd, bytes, length, 0) == (ssize_t)length &&
	    find_first_block(fd, &after) && before == after)
		return 0;
	return refuse_profile_place(path, HIDDEN, err);
}
