/* SPDX-License-Identifier: Apache-2.0 */
#include "remote/call_return.h"

#ifndef __aarch64__

#include "remote/seccomp/filtered_return.h"

int flmem_call_return_restore(struct flmem_tracee *tracee, const struct flmem_call_return *back)
{
	/* The thread was borrowed from the wait in which it was found. */
	flmem_arch_read_call(back->own, &tracee->wait);
	tracee->slept_on = !flmem_arch_in_program(back->own);
	return flmem_arch_restore(tracee->tid, back->own);
}

void flmem_call_return_release(struct flmem_tracee *tracee)
{
#ifdef __x86_64__
	flmem_filtered_return(tracee);
#else
	(void)tracee;
#endif
}

#else
typedef int flmem_call_return_unused;
#endif
