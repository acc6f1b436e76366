/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a process that is only prepared (start --profile-ready) asks of the kernel when it begins:
 * that processes of its user may trace it, as `profile attach` has to. At Yama's level 1, the
 * default of Ubuntu, only its parents may otherwise (Documentation/admin-guide/LSM/Yama.rst).
 */
#include "preload/sampler/prepared.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/prctl.h>

#include "preload/sampler/sampler.h"

#ifdef SAMPLER_HIDES_HOOKS
#define NO_FILTERS "\nSeccomp:\t0\n"

bool sampler_may_be_filtered(void)
{
	static char status[8192];
	size_t length = 0;
	ssize_t got = 0;
	int fd = sampler_open("/proc/self/status", O_RDONLY);

	if (fd < 0)
		return true;
	do {
		length += (size_t)got;
		got = sampler_read_file(fd, status + length, sizeof(status) - 1 - length);
	} while (got > 0);
	sampler_close(fd);
	status[length] = '\0';
	return !strstr(status, NO_FILTERS);
}

__attribute__((constructor)) static void allow_tracing(void)
{
	const int before = errno;

	/* Without Yama it fails, and is not needed. */
	if (sampler_is_first_thread() && !sampler_may_be_filtered())
		prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
	errno = before;
}
#endif
