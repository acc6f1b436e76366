/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_RULES_HEAP_RULES_H
#define FLMEM_RULES_HEAP_RULES_H

/* Rules about heap profiles: what stands out in one. */

#include <stddef.h>

#include <flmem/finding.h>
#include <flmem/heap_folder.h>

struct flmem_heap_row_rule {
	struct flmem_rule rule;
	enum flmem_heap_finding_kind kind;
};

extern const struct flmem_heap_row_rule flmem_heap_rules[];
extern const size_t flmem_heap_rule_count;

/* Adds what stands out in the profile `file`. FLMEM_EFAILED when out of memory. */
int flmem_heap_rules_run(const struct flmem_heap_profile *profile, const char *file,
			 struct flmem_recommendations *found, struct flmem_error *err);

#endif
