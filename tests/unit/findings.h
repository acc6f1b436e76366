/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_TESTS_FINDINGS_H
#define FLMEM_TESTS_FINDINGS_H

/* Queries of tests on a check's findings. */

#include <string.h>

#include <flmem/recommend.h>

/* Returns how often a rule fired; *ret_last is the last such finding, or NULL. */
static inline size_t findings_of(const struct flmem_recommendations *found, const char *rule,
				 const struct flmem_finding **ret_last)
{
	size_t count = 0;

	*ret_last = NULL;
	for (size_t i = 0; i < found->finding_count; i++) {
		if (strcmp(found->findings[i].rule->id, rule) != 0)
			continue;
		*ret_last = &found->findings[i];
		count++;
	}
	return count;
}

#endif
