/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_DOCUMENTS_PYTHON_PARTIAL_H
#define FLMEM_DOCUMENTS_PYTHON_PARTIAL_H

#include <stddef.h>

#include "documents/build.h"
#include "documents/python/python_names.h"

#define FLMEM_PYTHON_PARTIALS_MAX 32U

/* Calls of functools.partial(); names bound to calls beyond the limit are not followed. */
struct flmem_python_partials {
	struct flmem_node *rows[FLMEM_PYTHON_PARTIALS_MAX];
	size_t count;
};

/*
 * Turns a call of functools.partial(f, ...) into a call of f whose other arguments follow later.
 * `value` is the use of f as the first argument, which then no longer counts as a value, or NULL. A
 * call through the name of the result gets the arguments of both calls, where its own take
 * precedence, and the former no longer counts as a call of f. `name` is "" for a call of anything
 * else.
 */
int flmem_python_partial_resolve(struct flmem_cursor *cursor,
				 const struct flmem_python_names *names,
				 struct flmem_python_partials *partials, const char *name,
				 struct flmem_node *call, struct flmem_node *value);

#endif
