/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_DOCUMENTS_PYTHON_SUBSCRIPTS_H
#define FLMEM_DOCUMENTS_PYTHON_SUBSCRIPTS_H

/* Assignments to entries of imported objects: os.environ["NAME"] = "value". */

#include "documents/build.h"
#include "documents/python/python.h"
#include "documents/python/python_names.h"

/*
 * Adds such an assignment to a list of calls, as one of PATH.__setitem__ with the key and the value
 * as arguments "0" and "1"; the key of an entry of __dict__ to the list of attributes; nothing if
 * the name is not imported or the statement is another one. The reader is at the "[" right after
 * the name `dotted`, and stays there.
 */
int flmem_python_subscript_read(struct flmem_cursor *cursor, const struct flmem_python_names *names,
				const struct flmem_python_reader *reader, const char *dotted,
				struct flmem_node *calls, struct flmem_node *attributes);

/* Whether a target of "del" ends before a word. */
bool flmem_python_ends_deletion(const struct flmem_python_word *word);

/*
 * The same for "del os.environ["NAME"]", as a call of PATH.__delitem__ with the key alone. The
 * reader is then after the subscript.
 */
int flmem_python_subscript_deleted(struct flmem_cursor *cursor,
				   const struct flmem_python_names *names,
				   struct flmem_python_reader *ahead, const char *dotted,
				   struct flmem_node *calls);

#endif
