/* SPDX-License-Identifier: Apache-2.0 */
#include "allocators/plan.h"

#include <stdio.h>

int flmem_plan_function(const struct flmem_allocator *found, const char *name,
			uint64_t *ret_address, struct flmem_error *err)
{
	char symbol[96];

	snprintf(symbol, sizeof(symbol), "%s%s", found->prefix ? found->prefix : "", name);
	if (flmem_module_symbol_any(found->module, symbol, ret_address))
		return 0;
	return flmem_error_set(err, FLMEM_EUNSUPPORTED, 0,
			       "'%s' holds %s without a name for %s, so it cannot be called (a "
			       "stripped static build)",
			       found->module->path, flmem_allocator_name(found->ops->kind), symbol);
}

int flmem_plan_call(const struct flmem_allocator *found, const char *name, uint64_t argument,
		    struct flmem_chain *chain, struct flmem_error *err)
{
	uint64_t function;
	int rc = flmem_plan_function(found, name, &function, err);

	if (!rc)
		flmem_chain_add(chain, name, function)->args[0] = argument;
	return rc;
}
