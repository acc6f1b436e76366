/* SPDX-License-Identifier: Apache-2.0 */
#include "remote/call_return.h"

#ifndef __aarch64__

int flmem_call_return_restore(struct flmem_tracee *tracee, const struct flmem_call_return *back)
{
	return flmem_arch_restore(tracee->tid, back->own);
}

void flmem_call_return_release(struct flmem_tracee *tracee)
{
	(void)tracee;
}

#else
typedef int flmem_call_return_unused;
#endif
