/* SPDX-License-Identifier: Apache-2.0 */
#include "proc/peak.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/attempt.h"
#include "base/cleanup.h"
#include "proc/process.h"
#include "proc/status.h"

/* "5": reset the peak of the resident memory (CLEAR_REFS_MM_HIWATER_RSS, fs/proc/task_mmu.c). */
#define RESET "5"

struct peak_reset {
	int fd; /* descriptor of its clear_refs */
	pid_t pid;
};

static int write_reset(void *context, struct flmem_error *err)
{
	const struct peak_reset *reset = context;

	/* pwrite(), because base/attempt.c knows it as a call that can block forever. */
	if (pwrite(reset->fd, RESET, 1, 0) == 1)
		return 0;
	return flmem_error_set(err, errno == ESRCH ? FLMEM_ENOPROC : FLMEM_EFAILED, errno,
			       "cannot reset the peak of process %d", (int)reset->pid);
}

static void free_reset(void *context)
{
	struct peak_reset *reset = context;

	close(reset->fd);
	free(reset);
}

static int refuse_reset(const struct flmem_process *process, struct flmem_error *err)
{
	const enum flmem_code code = errno == EACCES || errno == EPERM	 ? FLMEM_EPERM
				     : errno == ENOENT || errno == ESRCH ? FLMEM_ENOPROC
									 : FLMEM_EFAILED;

	return flmem_error_set(err, code, errno,
			       "cannot open clear_refs of process %d to reset its peak",
			       (int)process->pid);
}

int flmem_peak_reset(const struct flmem_process *process, struct flmem_error *err)
{
	const struct flmem_attempt how = {
		.run = write_reset, .release = free_reset, .subject = process->pid};
	struct peak_reset *reset;
	bool lost = false;
	int rc, fd = openat(process->dirfd, "clear_refs", O_WRONLY | O_CLOEXEC);

	if (fd < 0)
		return refuse_reset(process, err);
	reset = calloc(1, sizeof(*reset));
	if (!reset) {
		close(fd);
		return flmem_error_nomem(err, "cannot reset a peak");
	}
	*reset = (struct peak_reset){.fd = fd, .pid = process->pid};
	rc = flmem_attempt_run(&how, reset, &lost, err);
	if (!lost)
		free_reset(reset);
	return rc;
}

struct flmem_u64 flmem_peak_read(const struct flmem_process *process)
{
	struct flmem_status status;

	if (flmem_status_read(process, &status, NULL))
		return FLMEM_UNKNOWN("the process has ended");
	return status.peak_bytes;
}
