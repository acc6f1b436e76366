/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_OPS_RECOMMEND_RECOMMEND_MODULES_H
#define FLMEM_OPS_RECOMMEND_RECOMMEND_MODULES_H

/* Modules beside a script, through which it may import a framework. */

#include "documents/python/python_links.h"
#include "frameworks/files.h"

#define FLMEM_RECOMMEND_MODULES_MAX 32 /* of one file, with those that they import from */

/* The paths of all modules that were read for a file. */
struct flmem_module_paths {
	char *rows[FLMEM_RECOMMEND_MODULES_MAX];
	size_t count;
};

void flmem_module_paths_clear(struct flmem_module_paths *paths);

#define FLMEM_AUTO_MODULE_PATHS FLMEM_AUTO(flmem_module_paths_clear)

/*
 * The modules that a file of Python names in its imports, or one of YAML under "_target_", that are
 * in its folder, up to three above it or one that it adds, and that mention a framework or import
 * from such a module; none for other files. The modules of larger files than 64 KiB are not
 * searched, nor more than 32. `ret_paths` has also those that mention no framework.
 */
int flmem_recommend_modules_find(const struct flmem_found_file *file, const struct flmem_buf *text,
				 struct flmem_python_modules *ret_modules,
				 struct flmem_module_paths *ret_paths, struct flmem_error *err);

/*
 * Makes expressions of the names under "_target_" in YAML that such modules define, which are known
 * only when they are called.
 */
void flmem_recommend_targets_mark(struct flmem_document *document,
				  const struct flmem_python_modules *modules);

/* Reads the text of such a module; false where it is none. */
bool flmem_recommend_module_text(const char *file, struct flmem_buf *text);

#endif
