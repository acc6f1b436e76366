/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks the seccomp filters of all threads. The sampler makes system calls in malloc() of every
 * thread. The filters of one thread are evaluated when it is borrowed; another thread may have
 * added a filter that kills the process.
 */

#include <sys/syscall.h>

#include "base/cleanup.h"
#include "ops/profile/attached.h"
#include "proc/status.h"
#include "proc/task.h"

/*
 * The system calls of libcore/preload/sampler/, of dlopen() and of unlink() of its file. Without
 * one of them the sampler, or its loading, fails or records less.
 */
static const struct flmem_syscall sampler_rows[] = {
	FLMEM_CALL_FINE(openat),	  FLMEM_CALL_FINE(read),
	FLMEM_CALL_FINE(close),		  FLMEM_CALL_FINE(pread64),
	FLMEM_CALL_FINE(pwrite64),	  FLMEM_CALL_FINE(fstat),
	FLMEM_CALL_FINE(newfstatat),	  FLMEM_CALL_FINE(mmap),
	FLMEM_CALL_FINE(munmap),	  FLMEM_CALL_FINE(mprotect),
	FLMEM_CALL_FINE(madvise),	  FLMEM_CALL_FINE(mincore),
	FLMEM_CALL_FINE(mremap),	  FLMEM_CALL_FINE(process_vm_writev),
	FLMEM_CALL_FINE(rt_sigprocmask),  FLMEM_CALL_FINE(sigaltstack),
	FLMEM_CALL_FINE(gettid),	  FLMEM_CALL_FINE(getpid),
	FLMEM_CALL_FINE(getppid),	  FLMEM_CALL_FINE(geteuid),
	FLMEM_CALL_FINE(getrandom),	  FLMEM_CALL_FINE(prlimit64),
	FLMEM_CALL_FINE(clock_gettime),	  FLMEM_CALL_FINE(nanosleep),
	FLMEM_CALL_FINE(clock_nanosleep), FLMEM_CALL_FINE(readlinkat),
	FLMEM_CALL_FINE(unlinkat),	  FLMEM_CALL_FINE(fcntl),
#ifdef SYS_readlink
	FLMEM_CALL_FINE(readlink),	  FLMEM_CALL_FINE(unlink),
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
		rc = flmem_status_read_thread(process, tasks.ids[i], &status);
		if (flmem_task_has_ended(rc)) /* a thread that has ended allocates nothing */
			continue;
		if (rc)
			return flmem_process_error(process, rc, "read the threads", err);
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
