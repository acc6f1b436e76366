/* SPDX-License-Identifier: Apache-2.0 */
#include "remote/checks/userfaults.h"

#include <stdbool.h>

#include "proc/files/descriptors.h"
#include "proc/process.h"

int flmem_userfaults_check(const struct flmem_process *process, struct flmem_error *err)
{
	bool found;
	int rc = flmem_descriptors_find(process, "anon_inode:[userfaultfd]", &found, err);

	if (rc || !found)
		return rc;
	return flmem_error_set(err, FLMEM_EUNSAFE, 0,
			       "process %d handles page faults of its own memory (userfaultfd): a "
			       "borrowed thread could wait for itself with the heap locked",
			       (int)process->pid);
}
