/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_OPS_RECOMMEND_RECOMMEND_FILES_H
#define FLMEM_OPS_RECOMMEND_RECOMMEND_FILES_H

/* Finding the files that `recommend` has rules for, below the paths that it was given. */

#include <stdbool.h>
#include <stddef.h>

#include <flmem/recommend.h>

#include "base/cleanup.h"
#include "rules/rules.h"

#define FLMEM_RECOMMEND_NO_RULES \
	"no kind of file that there are rules for; see 'flmem help recommend'"

struct flmem_found_file {
	char *path;
	char *job; /* folder of the job that it belongs to; files of one are checked together */
	char *app; /* NVFlare: name of the app in the job, or NULL */
	enum flmem_input_kind kind;
	enum flmem_syntax syntax;
	bool by_content; /* the content confirms the kind, or tells it */
	bool named;	 /* by the user, not found in a folder */
};

struct flmem_found_files {
	struct flmem_found_file *files; /* sorted by job, then path; none twice */
	size_t count;
};

/*
 * A path that is bad becomes a problem in `found`. Folders are searched to a limited depth and for
 * a limited number of entries; symbolic links to folders are not followed, hidden folders are
 * passed over.
 */
int flmem_found_files_search(const char *const *paths, size_t count,
			     struct flmem_recommendations *found,
			     struct flmem_found_files *ret_files, struct flmem_error *err);

void flmem_found_files_clear(struct flmem_found_files *files);

#define FLMEM_AUTO_FOUND_FILES FLMEM_AUTO(flmem_found_files_clear)

/* Adds a problem; `line` 0 for the file as a whole. False when memory is out. */
bool flmem_recommendations_add_problem(struct flmem_recommendations *found, const char *file,
				       unsigned line, const struct flmem_error *why);

#endif
