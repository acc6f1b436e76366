/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_RULES_HEAP_SITE_RULES_H
#define FLMEM_RULES_HEAP_SITE_RULES_H

/*
 * Rules about Python code of a framework in heap profiles: they report memory that a function, or
 * anything that it calls, allocates, and the setting of the framework that changes this. Each
 * framework names its table in its operations (framework.h).
 */

#include <stddef.h>

#include <flmem/finding.h>
#include <flmem/heap_profile.h>

#include "base/text/version_number.h"

/* A Python function without its class, which profiles of CPython before 3.11 lack. */
struct flmem_heap_place {
	const char *function; /* NULL: no such place */
	const char *file;     /* end of its path, beginning with a whole name */
};

/* A rule, the place that it is about, and the setting that it proposes. */
struct flmem_heap_site_row {
	struct flmem_rule rule;
	struct flmem_heap_place place;
	struct flmem_heap_place caller; /* has called `place` directly; empty: any caller */
	const char *path;		/* name of the setting */
	const char *proposed;		/* value of the setting; NULL: no single value is right */
};

struct flmem_heap_site_table {
	const struct flmem_heap_site_row *rows;
	size_t count;
};

/*
 * Adds a finding for each row whose function has at least a tenth of the peak of the profile, and 1
 * MiB. `file` is the path of the profile. FLMEM_EFAILED when out of memory.
 */
int flmem_heap_site_rules_run(const struct flmem_heap_site_table *table,
			      const struct flmem_heap_profile *profile, const char *file,
			      const struct flmem_version_number *release,
			      struct flmem_recommendations *found, struct flmem_error *err);

#endif
