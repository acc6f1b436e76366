/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_DOCUMENTS_PYTHON_TARGETS_H
#define FLMEM_DOCUMENTS_PYTHON_TARGETS_H

/* Targets of assignments that are not plain names: attributes, and entries of anything. */

#include "documents/build.h"
#include "documents/python/python.h"

/*
 * Whether the statement assigns to the attribute that the reader is right after: alone, with an
 * annotation, in a chain, or as one of several.
 */
bool flmem_python_is_target(const struct flmem_python_reader *reader, bool starts);

/* "for a.name in", "with f() as a.name": whether the dotted name after a word is a target. */
bool flmem_python_binds(const struct flmem_python_word *before, const char *dotted);

/*
 * With the reader at a string: adds it to `items` where it is the only word of a "[key]" to which
 * the statement assigns, to `keys` where it is a key of a dictionary, while there is much room.
 */
int flmem_python_item_read(struct flmem_cursor *cursor, const struct flmem_python_reader *reader,
			   struct flmem_node *items, struct flmem_node *keys);

/* With the reader at the "(" after "vars": whether an entry whose key is not known is assigned. */
bool flmem_python_vars_assigns(const struct flmem_python_reader *reader);

/* The same: where the "." after the ")" is; SIZE_MAX if there is none. */
size_t flmem_python_vars_method(const struct flmem_python_reader *reader);

/* The last part of a dotted name; "__dict__.update" for such a method. */
const char *flmem_python_method_name(const char *dotted);

/* The last part of "a.name"; NULL for "self.name", "cls.name" and a name without a dot. */
const char *flmem_python_foreign_attribute(const char *dotted);

#endif
