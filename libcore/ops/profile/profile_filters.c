/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests the seccomp filters of flmem's own process. A filter cannot be read without privileges, but
 * a process to which it applies can try it: a child makes every system call of the sampler with
 * arguments that have no effect.
 */
#include "ops/profile/profile_filters.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/silent_child.h"
#include "ops/profile/attached.h"
#include "proc/status.h"

/* System calls of `profile run` alone, which names threads and has files of children. */
static const struct flmem_syscall own_rows[] = {
	FLMEM_CALL_FINE(prctl),
	FLMEM_CALL_FINE(fstatfs),
	FLMEM_CALL_FINE(fallocate),
};

void flmem_profile_filters_name(char out[FLMEM_PROFILE_FILTERS_MAX])
{
	struct flmem_status status = {0};

	if (flmem_status_read_number(getpid(), &status))
		status = (struct flmem_status){0};
	snprintf(out, FLMEM_PROFILE_FILTERS_MAX, "%" PRIu64 ":%" PRIu64,
		 flmem_u64_or(status.seccomp_mode, 0), flmem_u64_or(status.seccomp_filters, 0));
}

static void try_rows(const struct flmem_syscall *rows, size_t count, const char *volatile *tried)
{
	for (size_t i = 0; i < count; i++) {
		*tried = rows[i].name;
		syscall(rows[i].number, -1L, 0L, 0L, 0L, 0L, 0L);
	}
}

static __attribute__((noreturn)) void try_calls(const char *volatile *tried)
{
	const struct rlimit none = {0};

	*tried = "prlimit64";
	setrlimit(RLIMIT_CORE, &none);
	try_rows(flmem_attached_syscalls.rows, flmem_attached_syscalls.count, tried);
	try_rows(own_rows, FLMEM_ARRAY_SIZE(own_rows), tried);
	_exit(0);
}

static int try_in_child(const char *volatile *tried, int *ret_status)
{
	pid_t child = flmem_silent_child_start();

	if (child < 0)
		return -errno;
	if (!child)
		try_calls(tried);
	return flmem_silent_child_wait(child, ret_status);
}

static int check_in_child(const char *volatile *tried, struct flmem_error *err)
{
	int status = 0, rc = try_in_child(tried, &status);

	if (rc)
		return flmem_error_set(err, FLMEM_EFAILED, -rc, "cannot start a child process");
	if (!WIFSIGNALED(status))
		return 0;
	return flmem_error_set(err, FLMEM_EUNSUPPORTED, 0,
			       "a seccomp filter that flmem runs under would kill the program for "
			       "%s(...), which the sampler makes",
			       *tried);
}

int flmem_profile_filters_check(struct flmem_error *err)
{
	struct flmem_status status;
	const char *volatile *tried;
	int rc;

	if (flmem_status_read_number(getpid(), &status) == 0 &&
	    flmem_u64_or(status.seccomp_mode, 0) == 0)
		return 0;
	tried = mmap(NULL, sizeof(*tried), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		     0);
	if (tried == MAP_FAILED)
		return flmem_error_set(err, FLMEM_EFAILED, errno, "cannot start a child process");
	rc = check_in_child(tried, err);
	munmap((void *)(uintptr_t)tried, sizeof(*tried));
	return rc;
}
