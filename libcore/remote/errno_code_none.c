/* SPDX-License-Identifier: Apache-2.0 */
#include "remote/errno_code.h"

#if !defined(__x86_64__) && !defined(__aarch64__)

bool flmem_errno_decode(const struct flmem_process *process, uint64_t function,
			const unsigned char *bytes, int64_t *ret_distance)
{
	(void)process, (void)function, (void)bytes, (void)ret_distance;
	return false;
}

#endif
