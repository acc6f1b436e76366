/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_OPS_RECOMMEND_RECOMMEND_CORRECT_H
#define FLMEM_OPS_RECOMMEND_RECOMMEND_CORRECT_H

/* What checking and correcting share: texts that stand in for those on disk. */

#include <stdbool.h>
#include <stddef.h>

#include <flmem/recommend.h>

#include "documents/document.h"

/* NULL for a file that is not among them. */
struct flmem_correction *flmem_corrections_find(struct flmem_corrections *corrections,
						const char *file);

/* Which file was read, and in which directory: a path may lead elsewhere by the time of writing. */
struct flmem_read_file {
	struct flmem_file_identity identity, folder;
};

/* A document with its text, not changed yet; false when memory is out. */
bool flmem_corrections_add(struct flmem_corrections *corrections, const char *file,
			   const struct flmem_document *document,
			   const struct flmem_read_file *read);

/*
 * flmem_recommend() over the texts in `texts` where it has them; texts of files that are read from
 * disk are added to it. NULL: all from disk.
 */
int flmem_recommend_over(const char *const *paths, size_t count,
			 const struct flmem_recommend_options *options,
			 struct flmem_corrections *texts,
			 struct flmem_recommendations *ret_recommendations,
			 struct flmem_error *err);

#endif
