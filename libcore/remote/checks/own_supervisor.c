/* SPDX-License-Identifier: Apache-2.0 */
#include "remote/checks/own_supervisor.h"

#include <errno.h>
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
	int rc =
		has_own_filter() ? flmem_descriptors_have(process, "anon_inode:seccomp notify") : 0;

	/* A process that cannot be traced either; the later attempt to trace it reports why. */
	if (!rc || rc == -EACCES || rc == -EPERM || rc == -ENOENT || rc == -ESRCH)
		return 0;
	if (rc < 0)
		return flmem_process_error(process, rc, "read the descriptors", err);
	return flmem_error_set(err, FLMEM_EUNSAFE, 0,
			       "process %d decides about system calls of other processes "
			       "(seccomp), perhaps about those of this flmem: each would wait for "
			       "the other; run flmem outside of its sandbox",
			       (int)process->pid);
}
