/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_DOCUMENTS_PYTHON_NODES_H
#define FLMEM_DOCUMENTS_PYTHON_NODES_H

#include "documents/build.h"

/*
 * Adds an EXPRESSION with copies of key and text (NULL: "") at a place. Returns NULL, with the
 * cursor's code set, if there is no room.
 */
struct flmem_node *flmem_python_node_add(struct flmem_cursor *cursor, struct flmem_node *parent,
					 const char *key, const char *text,
					 const struct flmem_place *place);

/* Adds a STRING with a copy of `path` to a list. Returns 0 or the cursor's code. */
int flmem_python_path_add(struct flmem_cursor *cursor, struct flmem_node *list, const char *path,
			  const struct flmem_place *place);

#endif
