/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_OPS_RECOMMEND_RECOMMEND_CORRECT_H
#define FLMEM_OPS_RECOMMEND_RECOMMEND_CORRECT_H

/* Texts that are used instead of those on disk; shared by checks and corrections. */

#include <stdbool.h>
#include <stddef.h>

#include <flmem/recommend.h>

#include "documents/document.h"

/* Returns the entry of a file; NULL if it has none. */
struct flmem_correction *flmem_corrections_find(struct flmem_corrections *corrections,
						const char *file);

/*
 * Identity of the file that was read, and of its directory: its path may refer to another file by
 * the time of writing.
 */
struct flmem_read_file {
	struct flmem_file_identity identity, folder;
};

/* Adds a document with its unchanged text. Returns false if memory is out. */
bool flmem_corrections_add(struct flmem_corrections *corrections, const char *file,
			   const struct flmem_document *document,
			   const struct flmem_read_file *read);

/*
 * Does the same as flmem_recommend(), with the texts in `texts`. Texts of other files are read from
 * disk and added to it. NULL: all texts are read from disk.
 */
int flmem_recommend_over(const char *const *paths, size_t count,
			 const struct flmem_recommend_options *options,
			 struct flmem_corrections *texts,
			 struct flmem_recommendations *ret_recommendations,
			 struct flmem_error *err);

#endif
