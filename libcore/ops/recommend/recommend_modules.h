/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_OPS_RECOMMEND_RECOMMEND_MODULES_H
#define FLMEM_OPS_RECOMMEND_RECOMMEND_MODULES_H

/* Finds modules beside a script, through which it may import a framework. */

#include "documents/python/python_links.h"
#include "frameworks/files.h"

#define FLMEM_RECOMMEND_MODULES_MAX 32 /* modules of one file, with those that they import from */

/* The paths of all modules that were read for a file. */
struct flmem_module_paths {
	char *rows[FLMEM_RECOMMEND_MODULES_MAX];
	size_t count;
};

void flmem_module_paths_clear(struct flmem_module_paths *paths);

#define FLMEM_AUTO_MODULE_PATHS FLMEM_AUTO(flmem_module_paths_clear)

/*
 * Finds the modules that a Python file imports, or that a YAML file names under "_target_", if they
 * are in its folder, up to three folders above it or in a folder that it adds, and if they mention
 * a framework or import from such a module; none for other files. Files larger than 64 KiB are not
 * searched, nor more than 32 modules. `ret_paths` also has the modules that mention no framework.
 */
int flmem_recommend_modules_find(const struct flmem_found_file *file, const struct flmem_buf *text,
				 struct flmem_python_modules *ret_modules,
				 struct flmem_module_paths *ret_paths, struct flmem_error *err);

/*
 * Turns names under "_target_" in YAML that such modules define into expressions, which are known
 * only when they are called.
 */
void flmem_recommend_targets_mark(struct flmem_document *document,
				  const struct flmem_python_modules *modules);

/* Reads the text of a module; false if the file is not one. */
bool flmem_recommend_module_text(const char *file, struct flmem_buf *text);

#endif
