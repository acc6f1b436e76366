/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Handles the profile of a child of fork(). The kernel has cleared the child's control block, so
 * the child starts its own file, or samples nothing. All of this runs in malloc(), perhaps on the
 * small stack of a signal handler, so its buffers are in `sampler_life`.
 */

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "preload/sampler/hold.h"
#include "preload/sampler/lifetime.h"
#include "preload/sampler/sampler.h"

/* The disk space left for the program is a tenth of the disk, or less on a large disk. */
#define SPARE_PART 10U
#define SPARE_MAX  (UINT64_C(4) << 30)

/* Writes the path of a child's file: FILE.PID. */
static bool name_child_file(char *out, size_t size)
{
	size_t length = strlen(sampler_life.path);
	unsigned long pid = sampler_process();
	char digits[24];
	size_t count = 0;

	do
		digits[count++] = (char)('0' + pid % 10);
	while (pid /= 10);
	if (length + count + 2 > size)
		return false;
	memcpy(out, sampler_life.path, length);
	out[length++] = '.';
	while (count)
		out[length++] = digits[--count];
	out[length] = '\0';
	return true;
}

static const char *child_base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* Opens the folder of all profiles of a run. Returns -1 with errno where that fails. */
static int open_child_folder(struct stat *ret_status)
{
	char *path = sampler_life.child_path;
	size_t length = (size_t)(child_base_name(sampler_life.path) - sampler_life.path);
	int fd;

	memcpy(path, sampler_life.path, length);
	memcpy(path + length, length ? "" : ".", length ? 1 : 2);
	fd = sampler_open(path, O_PATH | O_DIRECTORY);
	if (fd >= 0)
		syscall(SYS_fstat, fd, ret_status);
	return fd;
}

int sampler_open_profile(int directory, const char *name, int flags)
{
	int fd = sampler_open_in(directory, name, flags | O_RDWR | O_NOFOLLOW), above;

	if (fd < 0 || fd > STDERR_FILENO)
		return fd;
	above = (int)syscall(SYS_fcntl, fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
	if (above < 0)
		return fd;
	sampler_close(fd);
	return above;
}

int sampler_open_first(void)
{
	struct stat status = {0};
	int folder = open_child_folder(&status), fd;

	if (folder < 0)
		return -1;
	sampler_life.folder_device = status.st_dev;
	sampler_life.folder_inode = status.st_ino;
	fd = sampler_open_profile(folder, child_base_name(sampler_life.path), 0);
	sampler_close(folder);
	return fd;
}

/*
 * Opens the folder only if it is still the same: another user may have replaced it, and could then
 * read what a child allocates.
 */
static int open_same_child_folder(void)
{
	struct stat status = {0};
	int fd = open_child_folder(&status);

	if (fd < 0 || (status.st_dev == sampler_life.folder_device &&
		       status.st_ino == sampler_life.folder_inode))
		return fd;
	sampler_close(fd);
	errno = ESTALE;
	return -1;
}

/*
 * Returns whether a file of this size leaves enough disk space. A program may start more children
 * than the disk can store files for, and needs disk space itself.
 */
static bool leaves_room(int folder, uint64_t size)
{
	struct statfs disk;
	uint64_t left, spare;

	if (syscall(SYS_fstatfs, folder, &disk) < 0)
		return true;
	left = (uint64_t)disk.f_bavail * (uint64_t)disk.f_bsize;
	spare = (uint64_t)disk.f_blocks * (uint64_t)disk.f_bsize / SPARE_PART;
	return left >= size && left - size >= (spare < SPARE_MAX ? spare : SPARE_MAX);
}

static int create_child_file(int folder, const char *name)
{
	struct flmem_profile_header *header = &sampler_life.header;
	int fd;

	*header = sampler_life.inherited;
	if (!sampler_may_write(header->file_size)) {
		errno = EFBIG;
		return -1;
	}
	if (!leaves_room(folder, header->file_size)) {
		errno = ENOSPC;
		return -1;
	}
	fd = sampler_open_profile(folder, name, O_CREAT | O_EXCL);

	if (fd < 0)
		return -1;
	header->phase = FLMEM_PROFILE_PREPARED;
	sampler_header_own(header);
	header->round = FLMEM_PROFILE_ROUND_NONE;
	header->cells_full_round = FLMEM_PROFILE_NONE;
	if (syscall(SYS_fallocate, fd, 0, 0L, header->file_size) < 0 ||
	    syscall(SYS_pwrite64, fd, header, sizeof(*header), 0L) != (ssize_t)sizeof(*header)) {
		int error = errno;

		sampler_close(fd);
		sampler_unlink(folder, name);
		errno = error;
		return -1;
	}
	return fd;
}

/* Counts a child without a file. Several children may do so at the same time. */
static void add_lost_child(struct flmem_profile_header *header, int error)
{
	header->child_error = (uint32_t)error;
	__atomic_fetch_add(&header->dropped[FLMEM_PROFILE_DROP_CHILDREN], 1, __ATOMIC_RELAXED);
}

/*
 * Counts the lost child in the mapped file of its parent, for a child with another user or root
 * than its parent.
 */
static void count_in_parent_file(int error)
{
	if (sampler_tables.header && sampler_file_is_whole())
		add_lost_child(sampler_tables.header, error);
}

/* Counts a child without a file in the profile of the program that was started. */
static void count_lost_child(int error)
{
	struct flmem_profile_header *first = NULL;
	int folder = open_same_child_folder(), fd = -1;

	if (folder >= 0) {
		fd = sampler_open_profile(folder, child_base_name(sampler_life.path), 0);
		sampler_close(folder);
	}
	if (fd < 0) {
		count_in_parent_file(error);
		return;
	}
	if (sampler_read_header(fd))
		first = sampler_map_memory(sizeof(*first), MAP_SHARED, fd);
	sampler_close(fd);
	if (!first)
		return;
	add_lost_child(first, error);
	syscall(SYS_munmap, first, sizeof(*first));
}

/* Creates or opens the file of this child. Returns its descriptor, or -1 with errno. */
static int open_child_file(void)
{
	char *path = sampler_life.child_path;
	int folder = open_same_child_folder(), fd, error;

	if (folder < 0)
		return -1;
	if (!name_child_file(path, sizeof(sampler_life.child_path))) {
		sampler_close(folder);
		errno = ENAMETOOLONG;
		return -1;
	}
	sampler_copy_text(sampler_shown.state.path, sizeof(sampler_shown.state.path), path);
	fd = create_child_file(folder, child_base_name(path));
	/* A file exists where the same process has executed another program. */
	if (fd < 0 && errno == EEXIST)
		fd = sampler_open_profile(folder, child_base_name(path), 0);
	error = errno;
	sampler_close(folder);
	errno = error;
	return fd;
}

void sampler_begin_child_file(void)
{
	const char *why;
	int fd = open_child_file(), error = fd < 0 ? errno : sampler_begin_file(fd, &why);

	if (fd >= 0)
		sampler_close(fd);
	if (!error)
		return;
	sampler_life.dormant = 1;
	count_lost_child(error);
}

static void begin_or_sleep(void)
{
	if (!(sampler_life.inherited.flags & FLMEM_PROFILE_FOLLOW)) {
		sampler_life.dormant = 1;
		return;
	}
	/* The child may free blocks that its parent has allocated. */
	sampler_life.inherited.flags |= FLMEM_PROFILE_LATE;
	sampler_begin_child_file();
}

/* Maps memory in place of the parent's file, with the contents of its header. */
static void replace_parent_file(void)
{
	const struct sampler_tables *t = &sampler_tables;
	size_t size = t->last_page - (uintptr_t)t->header + SAMPLER_PAGE;
	void *own = sampler_map_memory(size, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1);

	if (!own)
		return;
	if (sampler_file_is_whole())
		memcpy(own, t->header, sizeof(*t->header));
	syscall(SYS_mremap, own, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, t->header);
}

/*
 * Detaches a new child from its parent's profile. A signal handler that forks may have interrupted
 * a sample. In the child the rest of that sample runs when the handler returns; only this one
 * thread of the child can hold a profile there.
 */
void sampler_child_settle(void)
{
	static uint32_t settled;
	const uint32_t holds = sampler_thread.holds;
	uint32_t own;

	if (!holds && !sampler_child_may_begin())
		return;
	own = sampler_process();
	if (sampler_life.inherited.flags & FLMEM_PROFILE_FOLLOW)
		sampler_control.process = own;
	if (settled == own || !holds || !sampler_tables.header)
		return;
	settled = own;
	replace_parent_file();
	__atomic_store_n(&sampler_shown.state.inside, holds, __ATOMIC_SEQ_CST);
}

/*
 * Returns whether this is a child of vfork(). It shares its parent's memory, and its allocations
 * are not recorded as the parent's.
 */
bool sampler_is_vforked(void)
{
	const uint32_t owner = __atomic_load_n(&sampler_control.active, __ATOMIC_RELAXED)
				       ? sampler_life.owner
				       : sampler_control.process;

	return owner && owner != sampler_process();
}

bool sampler_child_may_begin(void)
{
	return sampler_life.began && !sampler_life.dormant && !sampler_is_quiet();
}

/*
 * Begins the profile of a new child. It is called where no profile is active, and any thread of the
 * child may be the first to get here.
 */
void sampler_child_begin(void)
{
	if (!sampler_child_may_begin() || sampler_is_vforked() || !sampler_turn_take())
		return;
	/* Another thread may have started the profile meanwhile. */
	if (!sampler_is_active()) {
		sampler_child_settle();
		begin_or_sleep();
	}
	sampler_turn_give();
}
