/* SPDX-License-Identifier: Apache-2.0 */
#include "remote/checks/call_sites.h"

#if !defined(__x86_64__) && !defined(__aarch64__)

/* No thread is borrowed on these processors. */
enum flmem_call_kind flmem_call_before(const struct flmem_process *process, uint64_t address,
				       uint64_t *ret_target)
{
	(void)process, (void)address, (void)ret_target;
	return FLMEM_CALL_INDIRECT;
}

#endif
