/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_ALLOCATORS_PLAN_H
#define FLMEM_ALLOCATORS_PLAN_H

/* What the trim plans of several allocators need. */

#include "allocators/allocator.h"

/*
 * Run-time address of a function of the allocator, `name` without its prefix. FLMEM_EUNSUPPORTED
 * when its build does not show that name.
 */
int flmem_plan_function(const struct flmem_allocator *found, const char *name,
			uint64_t *ret_address, struct flmem_error *err);

/*
 * Appends one call of such a function with one argument; its name is the step's name. The code as
 * above.
 */
int flmem_plan_call(const struct flmem_allocator *found, const char *name, uint64_t argument,
		    struct flmem_chain *chain, struct flmem_error *err);

#endif
