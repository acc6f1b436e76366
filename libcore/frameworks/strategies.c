/* SPDX-License-Identifier: Apache-2.0 */
#include "frameworks/strategies.h"

#include "frameworks/framework.h"

const struct flmem_strategies *flmem_strategies_find(enum flmem_framework framework)
{
	const struct flmem_framework_ops *own = flmem_framework_ops_of(framework);

	return own ? own->strategies : NULL;
}
