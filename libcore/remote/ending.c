/* SPDX-License-Identifier: Apache-2.0 */
#include "remote/ending.h"

#ifndef __aarch64__

int flmem_ending_restore(struct flmem_tracee *tracee, const struct flmem_ending *ending)
{
	return flmem_arch_restore(tracee->tid, ending->own);
}

void flmem_ending_release(struct flmem_tracee *tracee)
{
	(void)tracee;
}

#else
typedef int flmem_ending_unused;
#endif
