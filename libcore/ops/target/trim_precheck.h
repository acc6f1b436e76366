/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_OPS_TARGET_TRIM_PRECHECK_H
#define FLMEM_OPS_TARGET_TRIM_PRECHECK_H

#include "allocators/allocator.h"

/*
 * Checks whether a trim would refuse the process now, as far as that is visible without stopping a
 * thread. Returns 0, or the code and the message of the trim.
 */
int flmem_trim_precheck(const struct flmem_view *view, const struct flmem_allocator_list *list,
			struct flmem_error *err);

/* Returns true if the process has seccomp filters, which only stopped threads show. */
bool flmem_trim_precheck_is_filtered(const struct flmem_process *process);

#endif
