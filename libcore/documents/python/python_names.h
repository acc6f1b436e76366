/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_DOCUMENTS_PYTHON_NAMES_H
#define FLMEM_DOCUMENTS_PYTHON_NAMES_H

/*
 * The full paths of the names in Python source ("flare.send" is nvflare.client.send after "import
 * nvflare.client as flare"): by its import statements, and by assignments of one such name to
 * another. Names that the source itself defines have no path.
 */

#include <stdbool.h>
#include <stddef.h>

#include "base/cleanup.h"
#include "documents/build.h"
#include "documents/python/python.h"

struct flmem_python_binding {
	const char *name; /* may be dotted; "*": all names of the module `path` */
	const char *path; /* NULL: not imported */
	struct flmem_place place;
	bool assigned;	/* "name = other" */
	size_t partial; /* "name = functools.partial(other, ...)": where that call is; else 0 */
};

struct flmem_python_bindings {
	struct flmem_python_binding *rows;
	size_t count;
};

#define FLMEM_PYTHON_STARS_MAX 4U

struct flmem_python_names {
	struct flmem_python_bindings imports;	   /* in the order of the text */
	struct flmem_python_bindings sorted;	   /* also those of assignments */
	const char *stars[FLMEM_PYTHON_STARS_MAX]; /* modules of the last imports of "*", or NULL */
};

/*
 * Texts of the names have the lifetime of the cursor's document. FLMEM_EUSAGE for more imports than
 * a document may have values. Clear the names in either case.
 */
int flmem_python_names_read(struct flmem_cursor *cursor, const struct flmem_python_source *source,
			    struct flmem_python_names *ret_names);

void flmem_python_names_clear(struct flmem_python_names *names);

#define FLMEM_AUTO_PYTHON_NAMES FLMEM_AUTO(flmem_python_names_clear)

/*
 * The full path of a dotted name at an offset of the text. Of several bindings the last one before
 * it counts, else the first one after it. A name that nothing binds may be of any module that is
 * imported with "*": `choice` counts those. False when there is no path, or no further choice.
 */
bool flmem_python_names_find(const struct flmem_python_names *names, const char *dotted, size_t at,
			     size_t choice, char ret_path[FLMEM_PYTHON_DOTTED_MAX]);

/* The offset of the functools.partial() call that a dotted name stands for; 0: none. */
size_t flmem_python_names_partial(const struct flmem_python_names *names, const char *dotted,
				  size_t at);

/* With "from a import *", r.f() is either a.r.f() or a method of a value. */
bool flmem_python_is_of_star(const struct flmem_python_names *names, const char *name,
			     const char *path);

#endif
