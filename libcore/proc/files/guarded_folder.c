/* SPDX-License-Identifier: Apache-2.0 */
#include "proc/files/guarded_folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/files/file_place.h"
#include "base/files/io.h"
#include "base/forked_task.h"
#include "proc/files/local_path.h"

#define PATIENCE_US  UINT64_C(2000000)
#define SHARE_NS     UINT64_C(300000000) /* time of one child; a slow server still makes progress */
#define ENTRIES_SIZE ((size_t)64 << 10)	 /* bytes that always fit into one message */
#define ENTRY_MAX    (offsetof(struct listed_entry, name) + NAME_MAX + 1 + 8)

/* An entry of getdents64(2), which libraries do not declare, or under several names. */
struct listed_entry {
	uint64_t inode;
	int64_t next; /* offset at which a later call continues */
	uint16_t length;
	unsigned char type;
	char name[];
};

struct folder_work {
	char path[PATH_MAX];
	struct stat status;
	int fd; /* descriptor of a folder of this machine */
	int64_t next;
	size_t filled;
	_Alignas(struct listed_entry) unsigned char entries[ENTRIES_SIZE];
};

struct flmem_guarded_folder {
	struct folder_work work;
	size_t at;
};

static int list_folder_entries(struct folder_work *work, int fd)
{
	const uint64_t began = flmem_clock_ns();
	long got = 1;

	if (lseek(fd, work->next, SEEK_SET) < 0)
		return -errno;
	for (work->filled = 0; got > 0 && work->filled + ENTRY_MAX <= ENTRIES_SIZE &&
			       flmem_clock_ns() - began < SHARE_NS;) {
		got = syscall(SYS_getdents64, fd, work->entries + work->filled,
			      ENTRIES_SIZE - work->filled);
		/* Report the error later: entries that were already listed come first. */
		if (got < 0 && !work->filled)
			return -errno;
		for (long at = 0; at < got;) {
			const struct listed_entry *entry =
				(const void *)(work->entries + work->filled + at);

			work->next = entry->next;
			at += entry->length;
		}
		work->filled += got > 0 ? (size_t)got : 0;
	}
	return 0;
}

/* Runs in a child process, like the functions below. */
static int open_folder_forked(const struct folder_work *work, struct stat *ret_status)
{
	int fd = open(work->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0 || fstat(fd, ret_status) < 0)
		return -errno;
	return fd;
}

static int examine_folder_forked(void *context)
{
	struct folder_work *work = context;
	int fd = open_folder_forked(work, &work->status);

	if (fd >= 0 && flmem_local_path_is_here(fd))
		work->fd = fd;
	return fd < 0 ? fd : 0;
}

static int list_folder_forked(void *context)
{
	struct folder_work *work = context;
	struct stat status;
	int fd = open_folder_forked(work, &status);

	if (fd < 0)
		return fd;
	return flmem_file_is_same(&status, &work->status) ? list_folder_entries(work, fd) : -ESTALE;
}

static int run_folder_forked(struct folder_work *work, int (*run)(void *context))
{
	const struct flmem_forked_task task = {
		.run = run,
		.context = work,
		.size = sizeof(*work),
		.descriptors = {&work->fd},
	};
	int rc = flmem_forked_task_run(&task, PATIENCE_US);

	/* Too many children are waiting for folders that do not answer. */
	return rc == -EBUSY ? -ETIMEDOUT : rc;
}

static int open_folder_here(struct folder_work *work)
{
	FLMEM_AUTO_CLOSE int found = flmem_local_path_find(work->path, &work->status);

	if (found < 0)
		return found;
	work->fd = flmem_io_reopen(found, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return work->fd < 0 ? work->fd : 0;
}

int flmem_guarded_folder_open(const char *path, struct flmem_guarded_folder **ret_folder)
{
	FLMEM_AUTO_GUARDED_FOLDER struct flmem_guarded_folder *folder = NULL;
	int rc;

	if (strlen(path) >= PATH_MAX)
		return -ENAMETOOLONG;
	folder = calloc(1, sizeof(*folder));
	if (!folder)
		return -ENOMEM;
	folder->work.fd = -1;
	memcpy(folder->work.path, path, strlen(path) + 1);
	rc = open_folder_here(&folder->work);
	if (rc && rc != -ENOENT)
		rc = run_folder_forked(&folder->work, examine_folder_forked);
	if (!rc)
		*ret_folder = FLMEM_TAKE(folder);
	return rc;
}

void flmem_guarded_folder_close(struct flmem_guarded_folder **folder)
{
	if (*folder && (*folder)->work.fd >= 0)
		close((*folder)->work.fd);
	free(*folder);
}

int flmem_guarded_folder_descriptor(const struct flmem_guarded_folder *folder)
{
	return folder->work.fd;
}

int flmem_guarded_folder_next(struct flmem_guarded_folder *folder,
			      struct flmem_guarded_entry *ret_entry)
{
	struct folder_work *work = &folder->work;
	const struct listed_entry *entry;

	if (folder->at == work->filled) {
		int rc = work->fd < 0 ? run_folder_forked(work, list_folder_forked)
				      : list_folder_entries(work, work->fd);

		folder->at = rc ? work->filled : 0;
		if (rc || !work->filled)
			return rc;
	}
	entry = (const void *)(work->entries + folder->at);
	folder->at += entry->length;
	*ret_entry = (struct flmem_guarded_entry){entry->name, entry->type};
	return 1;
}
