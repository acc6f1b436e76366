/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_DOCUMENTS_PYTHON_PARTIAL_H
#define FLMEM_DOCUMENTS_PYTHON_PARTIAL_H

#include <stdbool.h>

#include "documents/build.h"

/*
 * functools.partial(f, ...) is a call of f, whose other arguments come later. `value` is the use of
 * f as the first argument, or NULL, which then is none. False, with nothing changed, for others.
 */
bool flmem_python_unfold_partial(struct flmem_node *path, struct flmem_node *args,
				 struct flmem_node *value);

/*
 * Gives the arguments of a call of what such a call made those that it has, too, in front of its
 * own, which win. The call of functools.partial() then is none of f any more.
 */
int flmem_python_complete_partial(struct flmem_cursor *cursor, struct flmem_node *partial,
				  struct flmem_node *args);

#endif
