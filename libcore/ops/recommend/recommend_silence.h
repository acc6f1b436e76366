/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_OPS_RECOMMEND_RECOMMEND_SILENCE_H
#define FLMEM_OPS_RECOMMEND_RECOMMEND_SILENCE_H

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

struct flmem_silence {
	char *rule;
	char *folder; /* that the file is in, as the user named it */
	char *pattern;
};

struct flmem_silences {
	struct flmem_silence *rows;
	size_t count;
	char **folders; /* that were read */
	size_t folder_count;
};

/*
 * Reads the files of the folders in `paths`, and of the folders that hold the files in `paths`. An
 * invalid one becomes a problem in `found`.
 */
int flmem_silences_read(const char *const *paths, size_t count, struct flmem_recommendations *found,
			struct flmem_silences *ret_silences, struct flmem_error *err);

/* Removes the silenced findings and counts them. */
void flmem_silences_apply(const struct flmem_silences *silences,
			  struct flmem_recommendations *found);

void flmem_silences_clear(struct flmem_silences *silences);

#define FLMEM_AUTO_SILENCES FLMEM_AUTO(flmem_silences_clear)

#endif
