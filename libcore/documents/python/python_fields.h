/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_DOCUMENTS_PYTHON_FIELDS_H
#define FLMEM_DOCUMENTS_PYTHON_FIELDS_H

/* Reads the fields of strings, which are code: f"{value!r:>{width}}". */

#include "documents/build.h"
#include "documents/python/python.h"
#include "documents/python/python_names.h"

/* Whether a string has fields: f"{value}", t"{value}". */
bool flmem_python_has_fields(const struct flmem_python_word *string);

/* Whether the current word is a string that is a whole argument or key, without fields of code. */
bool flmem_python_at_literal(const struct flmem_python_reader *reader);

/*
 * Finds the next field of a string with fields; *at is 0 before the first one. *ret_reader is at
 * the first word of the field, with the "{" as word before, and reads END after the last one.
 * Returns false if there is no further field.
 */
bool flmem_python_field_next(const struct flmem_python *python,
			     const struct flmem_python_word *string, size_t *at,
			     struct flmem_python_reader *ret_reader);

/* Adds the imported names that fields call to `list`; their arguments are not read. */
int flmem_python_fields_read(struct flmem_cursor *cursor, const struct flmem_python_names *names,
			     const struct flmem_python_source *source, struct flmem_node *list);

#endif
