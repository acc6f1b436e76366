/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_DOCUMENTS_PYTHON_PARTIAL_H
#define FLMEM_DOCUMENTS_PYTHON_PARTIAL_H

#include <stddef.h>

#include "documents/build.h"
#include "documents/python/python_names.h"

#define FLMEM_PYTHON_PARTIALS_MAX 32U

/* Calls of functools.partial(); further ones are not followed by their names. */
struct flmem_python_partials {
	struct flmem_node *rows[FLMEM_PYTHON_PARTIALS_MAX];
	size_t count;
};

/*
 * Makes a call of functools.partial(f, ...) one of f, whose other arguments come later; `value` is
 * the use of f as the first argument, or NULL, which then is none. A call of the name of what that
 * made gets the arguments of both, of which its own win, and the former no longer calls f.
 * `name` is "" for a call of anything else.
 */
int flmem_python_partial_resolve(struct flmem_cursor *cursor,
				 const struct flmem_python_names *names,
				 struct flmem_python_partials *partials, const char *name,
				 struct flmem_node *call, struct flmem_node *value);

#endif
