/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_DOCUMENTS_PYTHON_LITERAL_H
#define FLMEM_DOCUMENTS_PYTHON_LITERAL_H

/* Reads words of Python that are values: numbers, strings, True, False and None. */

#include <stdbool.h>

#include "documents/build.h"
#include "documents/python/python.h"

/*
 * Sets kind and text of the node from the word; the text is freed with the cursor's document.
 * Returns false for a word that is no such value, or when out of memory, with the cursor's code
 * set; the node is then unchanged.
 */
bool flmem_python_literal(struct flmem_cursor *cursor, const struct flmem_python_word *word,
			  bool negative, struct flmem_node *node);

#endif
