/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_RULES_HEAP_SITE_RULES_H
#define FLMEM_RULES_HEAP_SITE_RULES_H

/*
 * Rules about Python code of a framework in heap profiles: memory that a function allocates, or
 * anything that it calls, and the setting of the framework that changes it. A framework's table of
 * operations names its table.
 */

#include <stddef.h>

#include <flmem/finding.h>
#include <flmem/heap_profile.h>

#include "base/text/version_number.h"

/* A Python function. Before CPython 3.11 its class is not in the profile, so it is not here. */
struct flmem_heap_place {
	const char *function; /* NULL: no such place */
	const char *file;     /* the end of its path, from a directory or a file on */
};

struct flmem_heap_site_row {
	struct flmem_rule rule;
	struct flmem_heap_place place;
	struct flmem_heap_place caller; /* which called `place` directly, unless it is empty */
	const char *path;		/* the setting */
	const char *proposed;		/* its value; NULL: no single one */
};

struct flmem_heap_site_table {
	const struct flmem_heap_site_row *rows;
	size_t count;
};

/*
 * Adds a finding for each row whose function has a tenth or more of the peak of the profile `file`,
 * and 1 MiB at least. FLMEM_EFAILED when out of memory.
 */
int flmem_heap_site_rules_run(const struct flmem_heap_site_table *table,
			      const struct flmem_heap_profile *profile, const char *file,
			      const struct flmem_version_number *release,
			      struct flmem_recommendations *found, struct flmem_error *err);

#endif
