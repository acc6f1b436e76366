/* SPDX-License-Identifier: Apache-2.0 */
#include <flmem/recommend.h>

#include "frameworks/framework.h"
#include "frameworks/limits.h"
#include "rules/document_rules.h"
#include "rules/heap_rules.h"
#include "rules/heap_site_rules.h"
#include "rules/live_rules.h"
#include "rules/oom_rules.h"
#include "rules/trend_rules.h"

/* Returns the rule at `*index`; NULL if the table has fewer, whose number is then subtracted. */
static const struct flmem_rule *rule_of_table(const struct flmem_rule_table *table, size_t *index)
{
	if (*index < table->count)
		return &table->rows[*index].rule;
	*index -= table->count;
	return NULL;
}

static const struct flmem_rule *framework_rule(const struct flmem_framework_ops *framework,
					       size_t *index)
{
	const struct flmem_rule *rule = NULL;

	for (const struct flmem_rule_table *const *t = framework->rules; t && *t && !rule; t++)
		rule = rule_of_table(*t, index);
	return rule;
}

static const struct flmem_rule *live_rule(size_t *index)
{
	const struct flmem_live_row *row = flmem_live_row_at(*index);

	if (row)
		return &row->rule;
	for (size_t i = 0; flmem_live_row_at(i); i++)
		--*index;
	return NULL;
}

static const struct flmem_rule *trend_rule(const struct flmem_trend_table *table, size_t *index)
{
	if (table && *index < table->count)
		return &table->rows[*index].rule;
	*index -= table ? table->count : 0;
	return NULL;
}

static const struct flmem_rule *heap_site_rule(const struct flmem_heap_site_table *table,
					       size_t *index)
{
	if (table && *index < table->count)
		return &table->rows[*index].rule;
	*index -= table ? table->count : 0;
	return NULL;
}

static const struct flmem_rule *leftover_rule(const struct flmem_leftover_row *row, size_t *index)
{
	if (row && !*index)
		return &row->rule;
	*index -= row ? 1 : 0;
	return NULL;
}

/* The order is: rules about files, live processes, recordings, logs, then heap profiles. */
const struct flmem_rule *flmem_recommend_rule(size_t index)
{
	const struct flmem_framework_ops *const *f;
	const struct flmem_rule *rule = NULL;

	for (f = flmem_frameworks; *f && !rule; f++)
		rule = framework_rule(*f, &index);
	if (!rule)
		rule = rule_of_table(&flmem_document_rules, &index);
	if (!rule)
		rule = rule_of_table(&flmem_limit_rules, &index);
	if (!rule)
		rule = live_rule(&index);
	for (f = flmem_frameworks; *f && !rule; f++)
		rule = leftover_rule((*f)->leftover, &index);
	for (f = flmem_frameworks; *f && !rule; f++)
		rule = trend_rule((*f)->trend_rules, &index);
	if (!rule)
		rule = trend_rule(&flmem_trend_rules, &index);
	if (!rule && index < flmem_oom_row_count)
		return &flmem_oom_rows[index].rule;
	index -= rule ? 0 : flmem_oom_row_count;
	if (!rule && index < flmem_gpu_oom_row_count)
		rule = &flmem_gpu_oom_rows[index].rule;
	index -= rule ? 0 : flmem_gpu_oom_row_count;
	if (!rule && index < flmem_heap_rule_count)
		rule = &flmem_heap_rules[index].rule;
	index -= rule ? 0 : flmem_heap_rule_count;
	for (f = flmem_frameworks; *f && !rule; f++)
		rule = heap_site_rule((*f)->heap_rules, &index);
	return rule;
}
