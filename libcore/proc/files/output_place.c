/* SPDX-License-Identifier: Apache-2.0 */
#include <flmem/output_place.h>

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/forked_task.h"
#include "base/text/text.h"
#include "proc/files/local_path.h"

#define PATIENCE_US UINT64_C(2000000)

struct place_work {
	char folder[PATH_MAX];
	char name[NAME_MAX + 1];
};

/*
 * Runs in a child process. Looking up a name queries the server; the kernel may have the folder
 * itself cached.
 */
static int look_up_forked(void *context)
{
	const struct place_work *work = context;
	struct stat status;
	int fd = open(work->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC), rc;

	if (fd < 0)
		return -errno;
	rc = fstatat(fd, work->name, &status, AT_SYMLINK_NOFOLLOW);
	return rc < 0 && errno != ENOENT ? -errno : 0;
}

static bool is_answering(struct place_work *work, const char *path)
{
	const struct flmem_forked_task task = {
		.run = look_up_forked,
		.context = work,
		.size = sizeof(*work),
	};
	const char *name = flmem_text_basename(path);
	size_t length = name == path ? 0 : (size_t)(name - path);
	FLMEM_AUTO_CLOSE int found = -1;
	struct stat status;
	int rc;

	/* The writer reports that error. */
	if (length >= sizeof(work->folder) || strlen(name) >= sizeof(work->name))
		return true;
	memcpy(work->folder, length ? path : ".", length ? length : 1);
	memcpy(work->name, name, strlen(name) + 1);
	found = flmem_local_path_find(work->folder, &status);
	if (found >= 0 || found == -ENOENT)
		return true;
	rc = flmem_forked_task_run(&task, PATIENCE_US);
	/* Too many children are waiting for folders that do not answer. */
	return rc != -ETIMEDOUT && rc != -EBUSY;
}

int flmem_output_place_check(const char *path, struct flmem_error *err)
{
	FLMEM_AUTO_FREE struct place_work *work = calloc(1, sizeof(*work));

	if (!work)
		return flmem_error_nomem(err, "cannot write a file");
	if (is_answering(work, path))
		return 0;
	return flmem_error_set(err, FLMEM_EFAILED, 0,
			       "cannot write '%s': its file system did not answer", path);
}
