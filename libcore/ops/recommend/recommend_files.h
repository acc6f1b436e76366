/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_OPS_RECOMMEND_RECOMMEND_FILES_H
#define FLMEM_OPS_RECOMMEND_RECOMMEND_FILES_H

/* Finds the files for which `recommend` has rules, below the given paths. */

#include <stdbool.h>
#include <stddef.h>

#include <flmem/recommend.h>

#include "base/cleanup.h"
#include "frameworks/files.h"

#define FLMEM_RECOMMEND_NO_RULES "there are no rules for what is in it; see 'flmem help recommend'"

struct flmem_found_files {
	struct flmem_found_file *files; /* sorted by job, then path; no duplicates */
	size_t count;
};

/*
 * Finds the files. An invalid path becomes a problem in `found`. The search is limited in depth and
 * number of entries, does not follow symbolic links to folders, and skips hidden folders and those
 * of installed packages: virtual environments below a path, site-packages, node_modules.
 */
int flmem_found_files_search(const char *const *paths, size_t count,
			     struct flmem_recommendations *found,
			     struct flmem_found_files *ret_files, struct flmem_error *err);

/*
 * Returns true if the file was found. Files are sorted by their group, which is their folder, or ""
 * if the user named them.
 */
bool flmem_found_files_have(const struct flmem_found_files *files, const char *group,
			    const char *path);

void flmem_found_files_clear(struct flmem_found_files *files);

#define FLMEM_AUTO_FOUND_FILES FLMEM_AUTO(flmem_found_files_clear)

/* Adds a warning for each path below which no file was checked and none had a problem. */
int flmem_found_files_report_idle(const struct flmem_found_files *files, const char *const *paths,
				  size_t count, struct flmem_recommendations *found,
				  struct flmem_error *err);

#endif
