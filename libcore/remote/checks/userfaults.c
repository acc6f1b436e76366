/* SPDX-License-Identifier: Apache-2.0 */
#include "remote/checks/userfaults.h"

#include <errno.h>

#include "proc/files/descriptors.h"
#include "proc/process.h"

int flmem_userfaults_check(const struct flmem_process *process, struct flmem_error *err)
{
	int rc = flmem_descriptors_have(process, "anon_inode:[userfaultfd]");

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
