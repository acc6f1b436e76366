/* SPDX-License-Identifier: Apache-2.0 */
#include "remote/checks/own_supervisor.h"

#include <linux/seccomp.h>
#include <stdbool.h>
#include <unistd.h>

#include "proc/files/descriptors.h"
#include "proc/process.h"
#include "proc/status.h"

static bool has_own_filter(void)
{
	struct flmem_status own;

	return flmem_status_read_number(getpid(), &own) ||
	       flmem_u64_or(own.seccomp_mode, SECCOMP_MODE_FILTER) == SECCOMP_MODE_FILTER;
}

/* The kernel does not show whose calls a descriptor is about. */
int flmem_own_supervisor_check(const struct flmem_process *process, struct flmem_error *err)
{
	bool found;
	int rc;

	if (!has_own_filter())
		return 0;
	rc = flmem_descriptors_find(process, "anon_inode:seccomp notify", &found, err);
	if (rc || !found)
		return rc;
	return flmem_error_set(err, FLMEM_EUNSAFE, 0,
			       "process %d decides about system calls of other processes "
			       "(seccomp), perhaps about those of this flmem: each would wait for "
			       "the other; run flmem outside of its sandbox",
			       (int)process->pid);
}
