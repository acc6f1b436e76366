/* SPDX-License-Identifier: Apache-2.0 */
#include "proc/files/descriptors.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/files/io.h"
#include "proc/process.h"

/* More than the kernel allows by default (fs.nr_open). */
#define ALL_MAX (2U << 20)

int flmem_descriptors_open(const struct flmem_process *process, unsigned most,
			   struct flmem_descriptors *ret_descriptors)
{
	DIR *dir = flmem_io_open_dir(process->dirfd, "fd");

	if (!dir)
		return -errno;
	ret_descriptors->dir = dir;
	ret_descriptors->left = most;
	ret_descriptors->name = NULL;
	ret_descriptors->target[0] = '\0';
	return 0;
}

void flmem_descriptors_close(struct flmem_descriptors *descriptors)
{
	if (descriptors->dir)
		closedir(descriptors->dir);
	descriptors->dir = NULL;
}

/* A descriptor that was closed meanwhile, "." and ".." have no link text: skip them. */
int flmem_descriptors_next(struct flmem_descriptors *descriptors)
{
	const struct dirent *entry;
	ssize_t length;

	while ((entry = readdir(descriptors->dir))) {
		length = readlinkat(dirfd(descriptors->dir), entry->d_name, descriptors->target,
				    sizeof(descriptors->target) - 1);
		if (length <= 0)
			continue;
		if (!descriptors->left)
			return -E2BIG;
		descriptors->left--;
		descriptors->target[length] = '\0';
		descriptors->name = entry->d_name;
		return 1;
	}
	return 0;
}

int flmem_descriptors_find(const struct flmem_process *process, const char *target, bool *ret_found,
			   struct flmem_error *err)
{
	FLMEM_AUTO_DESCRIPTORS struct flmem_descriptors open = {0};
	int rc = flmem_descriptors_open(process, ALL_MAX, &open);

	*ret_found = false;
	while (open.dir && !*ret_found && (rc = flmem_descriptors_next(&open)) > 0)
		*ret_found = strcmp(open.target, target) == 0;
	if (rc >= 0 || rc == -EACCES || rc == -EPERM || rc == -ENOENT || rc == -ESRCH)
		return 0;
	return flmem_process_error(process, rc, "read the descriptors", err);
}
