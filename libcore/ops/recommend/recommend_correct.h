/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_OPS_RECOMMEND_RECOMMEND_CORRECT_H
#define FLMEM_OPS_RECOMMEND_RECOMMEND_CORRECT_H

/* Shared by checks and corrections: texts used instead of those on disk. */

#include <stdbool.h>
#include <stddef.h>

#include <flmem/recommend.h>

#include "documents/document.h"

/* NULL for a file without an entry. */
struct flmem_correction *flmem_corrections_find(struct flmem_corrections *corrections,
						const char *file);

/*
 * The file that was read and its directory: a path may refer to another file by the time of
 * writing.
 */
struct flmem_read_file {
	struct flmem_file_identity identity, folder;
};

/* Adds a document with its unchanged text; false when out of memory. */
bool flmem_corrections_add(struct flmem_corrections *corrections, const char *file,
			   const struct flmem_document *document,
			   const struct flmem_read_file *read);

/*
 * flmem_recommend() with the texts in `texts`; texts of other files are read from disk and added to
 * it. NULL: all from disk.
 */
int flmem_recommend_over(const char *const *paths, size_t count,
			 const struct flmem_recommend_options *options,
			 struct flmem_corrections *texts,
			 struct flmem_recommendations *ret_recommendations,
			 struct flmem_error *err);

#endif
