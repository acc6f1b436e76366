/* SPDX-License-Identifier: Apache-2.0 */
#include "proc/files/guarded_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/files/file_place.h"
#include "base/files/io.h"
#include "base/forked_task.h"
#include "proc/files/local_path.h"

#define PATIENCE_US  UINT64_C(2000000)
#define SHARE_NS     UINT64_C(300000000) /* time of one child; a slow server still makes progress */
#define WINDOW_BYTES ((size_t)64 << 10)	 /* bytes that always fit into one message */
#define WINDOWS	     32U

struct guarded_window {
	uint64_t offset, used;
	size_t filled;
	unsigned char bytes[WINDOW_BYTES];
};

/* Task of a child, and its results. */
struct guarded_work {
	char path[PATH_MAX];
	struct stat status;
	int fd;	  /* descriptor of a file of this machine */
	int copy; /* descriptor of the copy; -1: the bytes go into `bytes` */
	uint64_t offset, end;
	size_t filled;
	unsigned char bytes[WINDOW_BYTES];
};

/* The struct must not contain pointers to other memory, because a child may still write to it. */
struct flmem_guarded_file {
	struct guarded_work work;
	struct guarded_window windows[WINDOWS];
	uint64_t uses;
	bool silent, copied;
};

static int open_local(const char *path, struct stat *ret_status)
{
	FLMEM_AUTO_CLOSE int found = flmem_local_path_find(path, ret_status);

	if (found < 0)
		return found;
	if (!S_ISREG(ret_status->st_mode))
		return -EAGAIN;
	return flmem_io_reopen(found, O_RDONLY | O_CLOEXEC);
}

/* Runs in a child process, like the functions below. */
static int open_guarded(struct guarded_work *work, struct stat *ret_status)
{
	return flmem_file_place_open_regular(AT_FDCWD, work->path, O_RDONLY | O_CLOEXEC,
					     ret_status);
}

static int examine_guarded(void *context)
{
	struct guarded_work *work = context;
	int fd = open_guarded(work, &work->status);

	if (fd >= 0 && flmem_local_path_is_here(fd))
		work->fd = fd;
	return fd < 0 ? fd : 0;
}

/* Reads up to the size that the file had when it was opened: it may have grown. */
static ssize_t read_step(struct guarded_work *work, int fd)
{
	const uint64_t at = work->offset + work->filled, left = work->end - at;
	unsigned char *into = work->copy < 0 ? work->bytes + work->filled : work->bytes;
	const size_t room = work->copy < 0 ? WINDOW_BYTES - work->filled : WINDOW_BYTES;
	ssize_t got = pread(fd, into, left < room ? (size_t)left : room, (off_t)at);

	if (got > 0 && work->copy >= 0 && pwrite(work->copy, into, (size_t)got, (off_t)at) != got)
		return -1;
	return got;
}

static int read_guarded(void *context)
{
	struct guarded_work *work = context;
	const uint64_t began = flmem_clock_ns();
	struct stat status;
	int fd = open_guarded(work, &status);
	ssize_t got = 1;

	if (fd < 0)
		return fd;
	if (!flmem_file_is_same(&status, &work->status))
		return -ESTALE;
	for (work->filled = 0; got > 0 && work->offset + work->filled < work->end &&
			       flmem_clock_ns() - began < SHARE_NS;) {
		got = read_step(work, fd);
		if (got < 0)
			return -errno;
		work->filled += (size_t)got;
		if (work->copy < 0 && work->filled == WINDOW_BYTES)
			break;
	}
	return 0;
}

static int run_guarded(struct flmem_guarded_file *file, int (*run)(void *context))
{
	const struct flmem_forked_task task = {
		.run = run,
		.context = &file->work,
		.size = sizeof(file->work),
		.descriptors = {&file->work.fd, &file->work.copy},
	};
	int rc = file->silent ? -ETIMEDOUT : flmem_forked_task_run(&task, PATIENCE_US);

	/* Too many children are waiting for files that do not answer. */
	if (rc == -EBUSY)
		rc = -ETIMEDOUT;
	file->silent |= rc == -ETIMEDOUT;
	return rc;
}

int flmem_guarded_file_open(const char *path, struct flmem_guarded_file **ret_file)
{
	FLMEM_AUTO_GUARDED_FILE struct flmem_guarded_file *file = NULL;
	int rc;

	if (strlen(path) >= PATH_MAX)
		return -ENAMETOOLONG;
	file = calloc(1, sizeof(*file));
	if (!file)
		return -ENOMEM;
	file->work.fd = file->work.copy = -1;
	memcpy(file->work.path, path, strlen(path) + 1);
	rc = open_local(path, &file->work.status);
	if (rc == -ENOENT)
		return rc;
	if (rc >= 0)
		file->work.fd = rc;
	rc = rc < 0 ? run_guarded(file, examine_guarded) : 0;
	if (!rc)
		*ret_file = FLMEM_TAKE(file);
	return rc;
}

void flmem_guarded_file_close(struct flmem_guarded_file **file)
{
	if (*file && (*file)->work.fd >= 0)
		close((*file)->work.fd);
	free(*file);
}

const struct stat *flmem_guarded_file_status(const struct flmem_guarded_file *file)
{
	return &file->work.status;
}

int flmem_guarded_file_take(struct flmem_guarded_file *file)
{
	return FLMEM_TAKE_FD(file->work.fd);
}

bool flmem_guarded_file_is_silent(const struct flmem_guarded_file *file)
{
	return file->silent;
}

bool flmem_guarded_file_is_copied(const struct flmem_guarded_file *file)
{
	return file->copied;
}

static struct guarded_window *fill_guarded_window(struct flmem_guarded_file *file, uint64_t offset)
{
	struct guarded_window *oldest = &file->windows[0];

	for (size_t i = 0; i < WINDOWS; i++) {
		struct guarded_window *window = &file->windows[i];

		if (offset >= window->offset && offset - window->offset < window->filled)
			return window;
		if (window->used < oldest->used)
			oldest = window;
	}
	file->work.offset = offset - offset % WINDOW_BYTES;
	do { /* the next child continues where the last one had to stop */
		file->work.end = (uint64_t)file->work.status.st_size;
		if (file->work.offset >= file->work.end || run_guarded(file, read_guarded) ||
		    !file->work.filled)
			return NULL;
		oldest->offset = file->work.offset;
		oldest->filled = file->work.filled;
		memcpy(oldest->bytes, file->work.bytes, oldest->filled);
		file->work.offset += file->work.filled;
	} while (offset >= file->work.offset);
	return oldest;
}

bool flmem_guarded_file_read(struct flmem_guarded_file *file, uint64_t offset, void *out,
			     size_t length)
{
	unsigned char *to = out;

	while (length) {
		struct guarded_window *window = fill_guarded_window(file, offset);
		size_t inside, some;

		if (!window)
			return false;
		window->used = ++file->uses;
		inside = (size_t)(offset - window->offset);
		some = window->filled - inside < length ? window->filled - inside : length;
		memcpy(to, window->bytes + inside, some);
		to += some;
		offset += some;
		length -= some;
	}
	return true;
}

static int copy_all(struct flmem_guarded_file *file)
{
	struct guarded_work *work = &file->work;
	int rc;

	work->end = (uint64_t)work->status.st_size;
	for (work->offset = 0; work->offset < work->end; work->offset += work->filled) {
		rc = run_guarded(file, read_guarded);
		if (rc)
			return rc;
		if (!work->filled)
			break; /* the file was truncated meanwhile */
	}
	for (size_t i = 0; i < WINDOWS; i++)
		file->windows[i].filled = 0; /* the window is older than the copy */
	return 0;
}

int flmem_guarded_file_copy(struct flmem_guarded_file *file, uint64_t limit)
{
	const struct timespec times[] = {file->work.status.st_atim, file->work.status.st_mtim};
	int fd = flmem_guarded_file_take(file), rc;

	if (fd >= 0)
		return fd;
	if (file->silent)
		return -ETIMEDOUT;
	if ((uint64_t)file->work.status.st_size > limit)
		return -EFBIG;
	file->work.copy = memfd_create("flmem", MFD_CLOEXEC);
	if (file->work.copy < 0)
		return -errno;
	rc = copy_all(file);
	/* Copy the times of the file: what is read of it may depend on when it was written. */
	futimens(file->work.copy, times);
	fd = FLMEM_TAKE_FD(file->work.copy);
	file->copied = !rc;
	if (!rc)
		return fd;
	close(fd);
	return rc;
}
