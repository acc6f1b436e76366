/* SPDX-License-Identifier: Apache-2.0 */
#include "remote/checks/userfaults.h"

#include <errno.h>
#include <string.h>

#include "proc/files/descriptors.h"
#include "proc/process.h"

/* Limit of descriptors: more than the kernel allows by default (fs.nr_open). */
#define DESCRIPTORS_MAX (2U << 20)

/* Returns 1 if the process has a userfaultfd, 0 if not, -errno if that is unknown. */
static int has_userfaultfd(const struct flmem_process *process)
{
	FLMEM_AUTO_DESCRIPTORS struct flmem_descriptors open = {0};
	int rc = flmem_descriptors_open(process, DESCRIPTORS_MAX, &open);

	while (!rc && (rc = flmem_descriptors_next(&open)) > 0) {
		if (strcmp(open.target, "anon_inode:[userfaultfd]") == 0)
			return 1;
		rc = 0;
	}
	return rc;
}

int flmem_userfaults_check(const struct flmem_process *process, struct flmem_error *err)
{
	int rc = has_userfaultfd(process);

	/* Such a process cannot be traced either; the later attempt to trace it reports why. */
	if (!rc || rc == -EACCES || rc == -EPERM || rc == -ENOENT || rc == -ESRCH)
		return 0;
	if (rc < 0)
		return flmem_process_error(process, rc, "read the descriptors", err);
	return flmem_error_set(err, FLMEM_EUNSAFE, 0,
			       "process %d handles page faults of its own memory (userfaultfd): a "
			       "borrowed thread could wait for itself with the heap locked",
			       (int)process->pid);
}
