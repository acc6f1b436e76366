/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asks the kernel, when a process begins that is only prepared (start --profile-ready), that
 * processes of its user may trace it, as `profile attach` has to. At Yama's level 1, the default of
 * Ubuntu, only its parents may otherwise (Documentation/admin-guide/LSM/Yama.rst).
 */
#include "preload/sampler/prepared.h"

#include <errno.h>
#include <stdbool.h>
#include <sys/prctl.h>

#include "preload/sampler/restricted.h"
#include "preload/sampler/sampler.h"

#ifdef SAMPLER_HIDES_HOOKS
bool sampler_may_be_filtered(void)
{
	uint32_t mode, filters;

	return !sampler_restrictions_read(&mode, &filters) || mode;
}

__attribute__((constructor)) static void allow_tracing(void)
{
	const int before = errno;

	/* The call fails without Yama, where it is not needed. */
	if (!sampler_may_be_filtered() && sampler_is_first_thread())
		prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
	errno = before;
}
#endif
