/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_DOCUMENTS_PYTHON_NAMES_H
#define FLMEM_DOCUMENTS_PYTHON_NAMES_H

/*
 * Finds the full paths of names in Python source, by its import statements and by assignments of
 * one imported name to another: after "import nvflare.client as flare", flare.send is
 * nvflare.client.send. Names that the source itself defines have no path.
 */

#include <stdbool.h>
#include <stddef.h>

#include "base/cleanup.h"
#include "documents/build.h"
#include "documents/python/python.h"

/* One name that a statement binds. */
struct flmem_python_binding {
	const char *name; /* may be dotted; "*": all names of the module `path` */
	const char *path; /* NULL: the name is not imported from here on */
	struct flmem_place place;
	bool assigned;	/* bound by "name = other" */
	size_t partial; /* offset of the call in "name = functools.partial(other, ...)"; else 0 */
};

struct flmem_python_bindings {
	struct flmem_python_binding *rows;
	size_t count;
};

#define FLMEM_PYTHON_STARS_MAX 4U

struct flmem_python_names {
	struct flmem_python_bindings imports; /* in the order of the text */
	struct flmem_python_bindings sorted;  /* by name and place, with those of assignments */
	/* Modules of the last imports of "*"; NULL: fewer. */
	const char *stars[FLMEM_PYTHON_STARS_MAX];
};

/*
 * Reads the names of a source. Their texts are freed with the cursor's document. FLMEM_EUSAGE for
 * more imports than a document may have values. Clear the names in either case.
 */
int flmem_python_names_read(struct flmem_cursor *cursor, const struct flmem_python_source *source,
			    struct flmem_python_names *ret_names);

void flmem_python_names_clear(struct flmem_python_names *names);

#define FLMEM_AUTO_PYTHON_NAMES FLMEM_AUTO(flmem_python_names_clear)

/*
 * Finds the full path of a dotted name at an offset of the text. The last binding before the offset
 * counts, else the first one after it. A name that nothing binds may belong to each module that is
 * imported with "*": `choice` counts these from 0. Returns false if there is no path, or no further
 * choice.
 */
bool flmem_python_names_find(const struct flmem_python_names *names, const char *dotted, size_t at,
			     size_t choice, char ret_path[FLMEM_PYTHON_DOTTED_MAX]);

/* Offset of the functools.partial() call that a dotted name stands for; 0 if there is none. */
size_t flmem_python_names_partial(const struct flmem_python_names *names, const char *dotted,
				  size_t at);

/*
 * Whether `path` was found for a dotted `name` by an import of "*" from a module a: r.f() is then
 * either a.r.f() or a method of a value.
 */
bool flmem_python_is_of_star(const struct flmem_python_names *names, const char *name,
			     const char *path);

#endif
