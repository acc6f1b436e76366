/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_RULES_HEAP_RULES_H
#define FLMEM_RULES_HEAP_RULES_H

/* Rules about heap profiles: they report what stands out in one. */

#include <stddef.h>

#include <flmem/finding.h>
#include <flmem/heap_folder.h>

/* A rule, and the kind of finding of the profiler that it reports. */
struct flmem_heap_row_rule {
	struct flmem_rule rule;
	enum flmem_heap_finding_kind kind;
};

extern const struct flmem_heap_row_rule flmem_heap_rules[];
extern const size_t flmem_heap_rule_count;

/*
 * Adds a finding for what stands out in `profile`, which was read from `file`. FLMEM_EFAILED when
 * out of memory.
 */
int flmem_heap_rules_run(const struct flmem_heap_profile *profile, const char *file,
			 struct flmem_recommendations *found, struct flmem_error *err);

#endif
