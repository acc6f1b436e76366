/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_DOCUMENTS_PYTHON_FIELDS_H
#define FLMEM_DOCUMENTS_PYTHON_FIELDS_H

/* Strings with fields, which are code: f"{value!r:>{width}}". */

#include "documents/build.h"
#include "documents/python/python.h"
#include "documents/python/python_names.h"

/* Whether a string is one with fields: f"{value}", t"{value}". */
bool flmem_python_has_fields(const struct flmem_python_word *string);

/* Whether the word is a string that is all of an argument or a key, and has no field with code. */
bool flmem_python_at_literal(const struct flmem_python_reader *reader);

/*
 * The next field of such a string: `*at` is 0 before the first one. `ret_reader` is at its first
 * word, with the "{" before it, and reads END after its last, also where the string ends in it.
 */
bool flmem_python_field_next(const struct flmem_python *python,
			     const struct flmem_python_word *string, size_t *at,
			     struct flmem_python_reader *ret_reader);

/* Adds the imported names that fields call to `list`; their arguments are not read. */
int flmem_python_fields_read(struct flmem_cursor *cursor, const struct flmem_python_names *names,
			     const struct flmem_python_source *source, struct flmem_node *list);

#endif
