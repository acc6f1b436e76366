/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_DOCUMENTS_PYTHON_TARGETS_H
#define FLMEM_DOCUMENTS_PYTHON_TARGETS_H

/*
 * Recognises targets of assignments that are not plain names: attributes, and entries of anything.
 */

#include "documents/build.h"
#include "documents/python/python.h"

/*
 * Whether the statement assigns to the attribute that the reader is right after: alone, with an
 * annotation, in a chain, or as one of several. `starts`: the statement begins with it.
 */
bool flmem_python_is_target(const struct flmem_python_reader *reader, bool starts);

/*
 * Whether a dotted name is a target by the word before it: "for a.name in", "with f() as a.name".
 */
bool flmem_python_binds(const struct flmem_python_word *before, const char *dotted);

/*
 * With the reader at a string: adds it to `items` if it is the whole key of an entry that is
 * assigned, or to `keys` if it is a key of a dictionary and half of the nodes are free.
 */
int flmem_python_item_read(struct flmem_cursor *cursor, const struct flmem_python_reader *reader,
			   struct flmem_node *items, struct flmem_node *keys);

/* With the reader at the "(" after "vars": whether an entry is assigned whose key is not known. */
bool flmem_python_vars_assigns(const struct flmem_python_reader *reader);

/*
 * With the reader at the "(" after "vars": offset of the "." after its ")"; SIZE_MAX if there is
 * none.
 */
size_t flmem_python_vars_method(const struct flmem_python_reader *reader);

/* The last part of a dotted name; for a method of __dict__ both parts: "__dict__.update". */
const char *flmem_python_method_name(const char *dotted);

/* The attribute in "a.name"; NULL for "self.name", "cls.name" and a name without a dot. */
const char *flmem_python_foreign_attribute(const char *dotted);

#endif
