/* SPDX-License-Identifier: Apache-2.0 */
#include <flmem/recommend.h>

#include "frameworks/framework.h"
#include "rules/live_rules.h"
#include "rules/oom_rules.h"
#include "rules/trend_rules.h"

/* Subtracts the number of a framework's rules from `*index`; NULL when the index is beyond them. */
static const struct flmem_rule *framework_rule(const struct flmem_framework_ops *framework,
					       size_t *index)
{
	for (const struct flmem_rule_table *const *t = framework->rules; t && *t; t++) {
		if (*index < (*t)->count)
			return &(*t)->rows[*index].rule;
		*index -= (*t)->count;
	}
	return NULL;
}

const struct flmem_rule *flmem_recommend_rule(size_t index)
{
	for (const struct flmem_framework_ops *const *f = flmem_frameworks; *f; f++) {
		const struct flmem_rule *rule = framework_rule(*f, &index);

		if (rule)
			return rule;
	}
	if (index < flmem_live_row_count)
		return &flmem_live_rows[index].rule;
	index -= flmem_live_row_count;
	if (index < flmem_trend_row_count)
		return &flmem_trend_rows[index].rule;
	index -= flmem_trend_row_count;
	return index < flmem_oom_row_count ? &flmem_oom_rows[index].rule : NULL;
}
