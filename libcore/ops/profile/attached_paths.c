/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/profile/attached_paths.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/files/file_place.h"
#include "base/files/io.h"
#include "base/forked_task.h"
#include "base/text/text.h"
#include "ops/profile/profile_place.h"

#define PATIENCE_US 2000000U

/*
 * Opens a path within the root of the process; a link must not lead out of it. Returns a descriptor
 * or -errno.
 */
static int open_inside(int process, const char *path, uint64_t flags)
{
	const struct open_how how = {
		.flags = O_PATH | O_CLOEXEC | flags,
		.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS,
	};
	FLMEM_AUTO_CLOSE int root = openat(process, "root", O_PATH | O_DIRECTORY | O_CLOEXEC);
	int fd = root < 0 ? -1 : (int)syscall(SYS_openat2, root, path, &how, sizeof(how));

	return fd < 0 ? -errno : fd;
}

struct directory_work {
	int process; /* descriptor of /proc/PID; -1: none */
	struct flmem_attached_directory directory;
};

static int open_directory_work(void *context)
{
	struct directory_work *work = context;
	struct flmem_attached_directory *d = &work->directory;

	d->fd = work->process >= 0 ? open_inside(work->process, d->path, O_DIRECTORY)
				   : openat(AT_FDCWD, d->path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (d->fd < 0)
		return work->process >= 0 ? d->fd : -errno;
	d->kind = flmem_profile_place_kind(d->fd);
	if (fstat(d->fd, &d->status) < 0)
		return -errno;
	d->exists = fstatat(d->fd, d->name, &d->old, AT_SYMLINK_NOFOLLOW) == 0;
	return 0;
}

static int divide_path(const char *path, struct flmem_attached_directory *d)
{
	const char *name = flmem_text_basename(path);
	const size_t length = (size_t)(name - path);

	if (!*name || strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
		return *path ? -EISDIR : -ENOENT;
	if (length >= sizeof(d->path) || strlen(name) >= sizeof(d->name))
		return -ENAMETOOLONG;
	memcpy(d->name, name, strlen(name) + 1);
	memcpy(d->path, path, length);
	memcpy(d->path + length, length ? "" : ".", length ? 1 : 2);
	return 0;
}

int flmem_attached_directory_open(const struct flmem_process *process, const char *path,
				  struct flmem_attached_directory *ret_directory)
{
	struct directory_work work = {
		.process = process ? process->dirfd : -1,
		.directory = FLMEM_ATTACHED_DIRECTORY_INIT,
	};
	const struct flmem_forked_task task = {
		.run = open_directory_work,
		.context = &work,
		.size = sizeof(work),
		.descriptors = {&work.process, &work.directory.fd},
	};
	int rc = divide_path(path, &work.directory);

	if (!rc)
		rc = flmem_forked_task_run(&task, PATIENCE_US);
	if (rc)
		flmem_cleanup_close(&work.directory.fd);
	else
		*ret_directory = work.directory;
	return rc;
}

struct view_work {
	const struct flmem_process *process;
	const char *path;
	int directory; /* descriptor of /proc/PID */
	struct flmem_attached_view view;
};

static int open_view(struct view_work *work)
{
	FLMEM_AUTO_CLOSE int fd = flmem_process_open_file(work->process, work->path);
	struct stat status;

	if (fd < 0)
		return fd;
	/*
	 * Keep only an O_PATH descriptor: closing one that is open for reading may wait for a
	 * server.
	 */
	work->view.fd = flmem_io_reopen(fd, O_PATH);
	if (work->view.fd < 0)
		return work->view.fd;
	work->view.is_own = fstat(fd, &work->view.status) == 0 && stat(work->path, &status) == 0 &&
			    flmem_file_is_same(&work->view.status, &status);
	return 0;
}

static int read_view(void *context)
{
	struct view_work *work = context;
	struct flmem_attached_view *view = &work->view;
	FLMEM_AUTO_CLOSE int named = -1, fd = -1;
	int rc = view->fd < 0 ? open_view(work) : 0;
	struct stat status;

	if (rc)
		return rc;
	named = open_inside(work->directory, work->path, 0);
	fd = flmem_io_reopen(view->fd, O_RDONLY);
	if (fd < 0 || fstat(fd, &view->status) < 0)
		return fd < 0 ? fd : -errno;
	view->is_named = named >= 0 && fstat(named, &status) == 0 &&
			 flmem_file_is_same(&status, &view->status);
	view->has_header = flmem_io_read_at(fd, 0, &view->header, sizeof(view->header));
	return 0;
}

int flmem_attached_view_read(const struct flmem_process *process, const char *path,
			     struct flmem_attached_view *view)
{
	struct view_work work = {
		.process = process, .path = path, .directory = process->dirfd, .view = *view};
	const struct flmem_forked_task task = {
		.run = read_view,
		.context = &work,
		.size = sizeof(work),
		.descriptors = {&work.directory, &work.view.fd},
	};
	int rc = flmem_forked_task_run(&task, PATIENCE_US);

	*view = work.view;
	return rc;
}
