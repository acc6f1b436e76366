/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sampler makes system calls in malloc() of every thread. Those of one thread were evaluated
 * when it was borrowed; another one may have added a filter of its own, which kills the process.
 */

#include "ops/profile/attached.h"
#include "proc/status.h"
#include "proc/task.h"

static bool has_same_filters(const struct flmem_status *one, const struct flmem_status *other)
{
	return flmem_u64_or(one->seccomp_mode, 0) == flmem_u64_or(other->seccomp_mode, 0) &&
	       flmem_u64_or(one->seccomp_filters, 0) == flmem_u64_or(other->seccomp_filters, 0);
}

int flmem_attached_threads_check(const struct flmem_process *process, struct flmem_error *err)
{
	FLMEM_AUTO_TASKS struct flmem_tasks tasks = {0};
	struct flmem_status first, status;
	int rc = flmem_tasks_read(process, &tasks);

	if (!rc)
		rc = flmem_status_read_thread(process, process->pid, &first);
	if (rc)
		return flmem_process_error(process, rc, "threads", err);
	for (size_t i = 0; i < tasks.count; i++) {
		/* One that has ended meanwhile allocates nothing. */
		if (flmem_status_read_thread(process, tasks.ids[i], &status))
			continue;
		if (!has_same_filters(&first, &status))
			return flmem_error_set(
				err, FLMEM_EUNSUPPORTED, 0,
				"thread %d of process %d has seccomp filters of its own, which may "
				"kill it for what the sampler does; start the program with: flmem "
				"profile run, if its filters allow that",
				(int)tasks.ids[i], (int)process->pid);
	}
	return 0;
}
