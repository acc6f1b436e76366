/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_DOCUMENTS_PYTHON_DELETIONS_H
#define FLMEM_DOCUMENTS_PYTHON_DELETIONS_H

/* Reads deletions: del os.environ["NAME"], del gc.collect. */

#include "documents/python/python_members.h"
#include "documents/python/python_names.h"

/*
 * With the reader at a statement "del", adds the attributes that it deletes as if they were
 * assigned, and for each entry of an imported object a call of PATH.__delitem__ with the key as
 * argument "0" to `calls`. Does nothing at other words. The reader does not move.
 */
int flmem_python_deletions_read(struct flmem_cursor *cursor, const struct flmem_python_names *names,
				const struct flmem_python_reader *reader, struct flmem_node *calls,
				const struct flmem_python_members *members);

#endif
