/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_DOCUMENTS_PYTHON_SUBSCRIPTS_H
#define FLMEM_DOCUMENTS_PYTHON_SUBSCRIPTS_H

/* Reads assignments to entries of imported objects: os.environ["NAME"] = "value". */

#include "documents/build.h"
#include "documents/python/python.h"
#include "documents/python/python_names.h"

/*
 * Reads such an assignment: adds a call of PATH.__setitem__ with the key and the value as arguments
 * "0" and "1" to `calls`, or for an entry of a __dict__ whose key is not known, "__dict__" to
 * `attributes`. Does nothing if the name is not imported or the statement is another one. The
 * reader is at the "[" right after the name `dotted` and does not move.
 */
int flmem_python_subscript_read(struct flmem_cursor *cursor, const struct flmem_python_names *names,
				const struct flmem_python_reader *reader, const char *dotted,
				struct flmem_node *calls, struct flmem_node *attributes);

/* Whether a target of "del" ends before a word. */
bool flmem_python_ends_deletion(const struct flmem_python_word *word);

/*
 * Reads del os.environ["NAME"]: adds a call of PATH.__delitem__ with the key as argument "0" to
 * `calls`. The reader is at the "[" and then after the "]".
 */
int flmem_python_subscript_deleted(struct flmem_cursor *cursor,
				   const struct flmem_python_names *names,
				   struct flmem_python_reader *ahead, const char *dotted,
				   struct flmem_node *calls);

#endif
