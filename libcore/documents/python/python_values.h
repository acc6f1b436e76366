/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_DOCUMENTS_PYTHON_VALUES_H
#define FLMEM_DOCUMENTS_PYTHON_VALUES_H

/* Decides whether a name is used as a value. */

#include "documents/python/python.h"

/*
 * Whether a name is passed on or stored, not annotated or compared. `before` is the word before it,
 * and the reader is right after it. `bracket` is the innermost open bracket; NUL outside of any.
 */
bool flmem_python_is_value(const struct flmem_python_reader *reader,
			   const struct flmem_python_word *before, char bracket);

/* With the reader after "lambda": offset of its ":"; SIZE_MAX if that is too far ahead. */
size_t flmem_python_lambda_colon(const struct flmem_python_reader *reader);

/*
 * With the reader at the "[" after a name: offset of the "=" that assigns to the entry; SIZE_MAX if
 * there is none.
 */
size_t flmem_python_item_equals(const struct flmem_python_reader *reader);

/* Whether the reader is at "dict(". */
bool flmem_python_is_dictionary_call(struct flmem_python_reader reader);

/* Whether the reader is at the "{" of a dictionary whose first keys, at least, are literals. */
bool flmem_python_is_map(struct flmem_python_reader reader);

/* Whether the brackets of a function hold types, too: isinstance, issubclass, cast. */
bool flmem_python_is_type_test(const char *name);

/* Whether the brackets after a name hold types: Optional, List and the like. */
bool flmem_python_is_generic(const struct flmem_python_word *word);

#endif
