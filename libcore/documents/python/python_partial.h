/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_DOCUMENTS_PYTHON_PARTIAL_H
#define FLMEM_DOCUMENTS_PYTHON_PARTIAL_H

#include <stddef.h>

#include "documents/build.h"
#include "documents/python/python_names.h"

#define FLMEM_PYTHON_PARTIALS_MAX 32U

/*
 * The calls of functools.partial() found so far. Names for calls beyond the limit are not followed.
 */
struct flmem_python_partials {
	struct flmem_node *rows[FLMEM_PYTHON_PARTIALS_MAX];
	size_t count;
};

/*
 * Turns a call of functools.partial(f, ...) into a call of f whose other arguments follow later.
 * `value` is the use of f as first argument, which then no longer counts as a value; or NULL.
 * `name` is the name that is called, "" for a call of anything else: if it stands for the result of
 * a partial(), the call gets the arguments of both, its own take precedence, and the partial() no
 * longer counts as a call of f.
 */
int flmem_python_partial_resolve(struct flmem_cursor *cursor,
				 const struct flmem_python_names *names,
				 struct flmem_python_partials *partials, const char *name,
				 struct flmem_node *call, struct flmem_node *value);

#endif
