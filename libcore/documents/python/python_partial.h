/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_DOCUMENTS_PYTHON_PARTIAL_H
#define FLMEM_DOCUMENTS_PYTHON_PARTIAL_H

#include <stddef.h>

#include "documents/build.h"
#include "documents/python/python_names.h"

#define FLMEM_PYTHON_PARTIALS_MAX 32U

/*
 * Calls of functools.partial() found so far; names bound to calls beyond the limit are not
 * followed.
 */
struct flmem_python_partials {
	struct flmem_node *rows[FLMEM_PYTHON_PARTIALS_MAX];
	size_t count;
};

/*
 * Follows functools.partial(). A call of functools.partial(f, ...) becomes a call of f, to which
 * further arguments are added later, and is kept in `partials`. `value` is the node of the use of f
 * as the first argument, or NULL; it then no longer counts as a value. A call of a name that is
 * bound to such a result gets the arguments of both calls (its own take precedence), and the kept
 * call counts as one of functools.partial() again. `name` is the called name, or "" if something
 * else than a name is called. Returns 0 or the code of the cursor.
 */
int flmem_python_partial_resolve(struct flmem_cursor *cursor,
				 const struct flmem_python_names *names,
				 struct flmem_python_partials *partials, const char *name,
				 struct flmem_node *call, struct flmem_node *value);

#endif
