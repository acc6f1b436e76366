/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_DOCUMENTS_PYTHON_LINKS_H
#define FLMEM_DOCUMENTS_PYTHON_LINKS_H

/*
 * Follows names that a script imports from modules in its folder: after "from common import
 * Recipe", the full path of Recipe is the one that common.py imports.
 */

#include <stdbool.h>
#include <stddef.h>

#include "documents/document.h"
#include "documents/python/python_names.h"

/* A module in the folder of a script. */
struct flmem_python_module {
	char *name; /* with dots; begins with a dot if its import is relative */
	char *file;
	struct flmem_document document; /* holds the texts of `names`; it has no root */
	struct flmem_python_names names;
	struct flmem_python_modules *modules; /* modules in the folder of that module; NULL: none */
};

struct flmem_python_modules {
	struct flmem_python_module *rows;
	size_t count;
};

/*
 * Calls `visit` for each module that a source may name in import statements or calls of
 * import_module(): for "from a import b", with "a" and "a.b", and for the packages that these are
 * in. `ups` is the number of dots in front of the name. Ends when `visit` returns false.
 */
void flmem_python_modules_visit(const char *text,
				bool (*visit)(void *context, const char *name, unsigned ups),
				void *context);

/*
 * Reads the names of a module from its text, of which it takes ownership. FLMEM_EUSAGE at a limit.
 */
int flmem_python_module_read(struct flmem_python_module *module, struct flmem_buf *text,
			     struct flmem_error *err);

void flmem_python_module_clear(struct flmem_python_module *module);
void flmem_python_modules_clear(struct flmem_python_modules *modules);

#define FLMEM_AUTO_PYTHON_MODULES FLMEM_AUTO(flmem_python_modules_clear)

/*
 * Replaces names in a document of Python by the paths that the modules have for them, and appends
 * each such path to `paths`, one per line.
 */
int flmem_python_link(struct flmem_document *document, const struct flmem_python_modules *modules,
		      struct flmem_buf *paths, struct flmem_error *err);

#endif
