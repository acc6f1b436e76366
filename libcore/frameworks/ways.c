/* SPDX-License-Identifier: Apache-2.0 */
#include "frameworks/ways.h"

#include "base/cleanup.h"

static const struct flmem_ways *const all[] = {
	&flmem_nvflare_ways,
	&flmem_appfl_ways,
	&flmem_flower_ways,
};

const struct flmem_ways *flmem_ways_find(enum flmem_framework framework)
{
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(all); i++)
		if (all[i]->framework == framework)
			return all[i];
	return NULL;
}
