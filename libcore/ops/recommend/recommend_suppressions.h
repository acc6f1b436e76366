/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_OPS_RECOMMEND_RECOMMEND_SUPPRESSIONS_H
#define FLMEM_OPS_RECOMMEND_RECOMMEND_SUPPRESSIONS_H

/*
 * Findings that a project has decided to live with, each with the reason: in a file
 * .flmem-recommend.yaml of a folder that is checked,
 *
 *	ignore:
 *	  - rule: NVF-SRV-GC-OFF
 *	    path: "smoke*"            # relative to the folder; default: all of it
 *	    reason: three rounds only
 *
 * or in a comment on the line of the finding or the one above: "flmem: ignore NVF-SRV-GC-OFF
 * reason".
 */

#include <stddef.h>

#include <flmem/recommend.h>

#include "base/cleanup.h"

struct flmem_suppression {
	char *rule;
	char *folder; /* folder that the file is in, as the user named it */
	char *pattern;
};

struct flmem_suppressions {
	struct flmem_suppression *rows;
	size_t count;
	char **folders; /* folders whose files were read */
	size_t folder_count;
};

/*
 * Reads the files of the folders in `paths`, and of the folders that hold the files in `paths`. An
 * invalid one becomes a problem in `found`.
 */
int flmem_suppressions_read(const char *const *paths, size_t count,
			    struct flmem_recommendations *found,
			    struct flmem_suppressions *ret_suppressions, struct flmem_error *err);

/* Removes the suppressed findings and counts them. */
void flmem_suppressions_apply(const struct flmem_suppressions *suppressions,
			      struct flmem_recommendations *found);

void flmem_suppressions_clear(struct flmem_suppressions *suppressions);

#define FLMEM_AUTO_SUPPRESSIONS FLMEM_AUTO(flmem_suppressions_clear)

#endif
