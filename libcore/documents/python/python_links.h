/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_DOCUMENTS_PYTHON_LINKS_H
#define FLMEM_DOCUMENTS_PYTHON_LINKS_H

/*
 * Names that a script imports from modules in its folder, which import them themselves: after "from
 * common import Recipe" its full path is the one that common.py imports.
 */

#include <stdbool.h>
#include <stddef.h>

#include "documents/document.h"
#include "documents/python/python_names.h"

/* A module in the folder of a script. */
struct flmem_python_module {
	char *name; /* with dots; begins with a dot if its import is relative */
	char *file;
	struct flmem_document document; /* has the texts of `names`, and no root */
	struct flmem_python_names names;
	struct flmem_python_modules *modules; /* in the folder of that module; NULL: none */
};

struct flmem_python_modules {
	struct flmem_python_module *rows;
	size_t count;
};

/*
 * Calls `visit` for each module that import statements, and calls of import_module(), of a source
 * may name; of "from a import b" for "a" and "a.b", and for packages that these are in. `ups`
 * counts the dots in front. It ends where `visit` returns false.
 */
void flmem_python_modules_visit(const char *text,
				bool (*visit)(void *context, const char *name, unsigned ups),
				void *context);

/* Reads the names of a module's text, which is taken. FLMEM_EUSAGE at a limit. */
int flmem_python_module_read(struct flmem_python_module *module, struct flmem_buf *text,
			     struct flmem_error *err);

void flmem_python_module_clear(struct flmem_python_module *module);
void flmem_python_modules_clear(struct flmem_python_modules *modules);

#define FLMEM_AUTO_PYTHON_MODULES FLMEM_AUTO(flmem_python_modules_clear)

/*
 * Gives names of a document of Python the paths that these modules have for them, and appends each
 * such path to `paths`, one on a line.
 */
int flmem_python_link(struct flmem_document *document, const struct flmem_python_modules *modules,
		      struct flmem_buf *paths, struct flmem_error *err);

#endif
