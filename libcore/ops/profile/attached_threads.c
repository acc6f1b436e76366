/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sampler makes system calls in malloc() of every thread. Those of one thread were evaluated
 * when it was borrowed; another one may have added a filter of its own, which kills the process.
 */

#include <sys/syscall.h>

#include "base/cleanup.h"
#include "ops/profile/attached.h"
#include "proc/status.h"
#include "proc/task.h"

/* Without one of them the sampler, or its loading, fails or records less. */
#define SAMPLER_CALL(name)                             \
	{                                              \
		SYS_##name, #name, FLMEM_FAILURE_FINE, \
		{                                      \
			{                              \
				0                      \
			}                              \
		}                                      \
	}

/* libcore/preload/sampler/, and dlopen() and unlink() of its file. */
static const struct flmem_syscall sampler_rows[] = {
	SAMPLER_CALL(openat),	       SAMPLER_CALL(read),
	SAMPLER_CALL(close),	       SAMPLER_CALL(pread64),
	SAMPLER_CALL(pwrite64),	       SAMPLER_CALL(fstat),
	SAMPLER_CALL(newfstatat),      SAMPLER_CALL(mmap),
	SAMPLER_CALL(munmap),	       SAMPLER_CALL(mprotect),
	SAMPLER_CALL(madvise),	       SAMPLER_CALL(mincore),
	SAMPLER_CALL(mremap),	       SAMPLER_CALL(process_vm_readv),
	SAMPLER_CALL(rt_sigprocmask),  SAMPLER_CALL(sigaltstack),
	SAMPLER_CALL(gettid),	       SAMPLER_CALL(getpid),
	SAMPLER_CALL(getppid),	       SAMPLER_CALL(geteuid),
	SAMPLER_CALL(getrandom),       SAMPLER_CALL(prlimit64),
	SAMPLER_CALL(clock_gettime),   SAMPLER_CALL(nanosleep),
	SAMPLER_CALL(clock_nanosleep), SAMPLER_CALL(readlinkat),
	SAMPLER_CALL(unlinkat),
#ifdef SYS_readlink
	SAMPLER_CALL(readlink),	       SAMPLER_CALL(unlink),
#endif
};

const struct flmem_syscall_table flmem_attached_syscalls = {
	.maker = "the sampler",
	.rows = sampler_rows,
	.count = FLMEM_ARRAY_SIZE(sampler_rows),
};

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
