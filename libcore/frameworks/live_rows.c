/* SPDX-License-Identifier: Apache-2.0 */
#include "frameworks/framework.h"

#include <string.h>

/*
 * The functions below find the row at *index in one order of all rows. They subtract from *index
 * the number of rows that they pass, and return NULL if the index is beyond these.
 */

/* Finds a row of a framework that is put after the shared rule `after`; NULL: after all of them. */
static const struct flmem_live_row *following_row(const char *after, size_t *index)
{
	for (const struct flmem_framework_ops *const *f = flmem_frameworks; *f; f++) {
		const struct flmem_live_table *table = (*f)->live_rules;

		for (size_t i = 0; table && i < table->count; i++) {
			const char *own = table->rows[i].after;

			if ((after && own ? strcmp(own, after) == 0 : own == after) && !(*index)--)
				return &table->rows[i];
		}
	}
	return NULL;
}

static const struct flmem_live_row *row_of_any(const struct flmem_live_table *table, size_t *index)
{
	const struct flmem_live_row *row = NULL;

	for (size_t i = 0; i < table->count && !row; i++) {
		if (!(*index)--)
			return &table->rows[i];
		row = following_row(table->rows[i].rule.id, index);
	}
	return row;
}

const struct flmem_live_row *flmem_live_row_at(size_t index)
{
	const struct flmem_live_row *row = row_of_any(&flmem_live_rules, &index);

	if (!row)
		row = row_of_any(&flmem_live_runtime_rules, &index);
	return row ? row : following_row(NULL, &index);
}

int flmem_live_rules_run(const struct flmem_process_report *process,
			 const struct flmem_version_number *release,
			 struct flmem_recommendations *found, struct flmem_error *err)
{
	const struct flmem_live_row *row;
	int rc = 0;

	for (size_t i = 0; !rc && (row = flmem_live_row_at(i)); i++)
		rc = flmem_live_row_run(row, process, release, found, err);
	return rc;
}
