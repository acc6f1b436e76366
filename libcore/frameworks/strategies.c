/* SPDX-License-Identifier: Apache-2.0 */
#include "frameworks/strategies.h"

#include "base/cleanup.h"

static const struct flmem_strategies *const all[] = {
	&flmem_nvflare_strategies,
	&flmem_appfl_strategies,
	&flmem_flower_strategies,
};

const struct flmem_strategies *flmem_strategies_find(enum flmem_framework framework)
{
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(all); i++)
		if (all[i]->framework == framework)
			return all[i];
	return NULL;
}
