/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_OPS_RECOMMEND_RECOMMEND_MODULES_H
#define FLMEM_OPS_RECOMMEND_RECOMMEND_MODULES_H

/* Modules beside a script, through which it may import a framework. */

#include "documents/python_links.h"
#include "frameworks/files.h"

/*
 * The modules that a file of Python names in its imports, that are in its folder or up to three
 * above it, and that mention a framework or import from such a module; none for other files. The
 * modules of larger files than 64 KiB are not searched, nor more than 16.
 */
int flmem_recommend_modules_find(const struct flmem_found_file *file, const struct flmem_buf *text,
				 struct flmem_python_modules *ret_modules, struct flmem_error *err);

#endif
