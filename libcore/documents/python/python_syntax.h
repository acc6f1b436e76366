/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_DOCUMENTS_PYTHON_SYNTAX_H
#define FLMEM_DOCUMENTS_PYTHON_SYNTAX_H

#include <stdbool.h>

#include "documents/document.h"

/* A fault for which CPython rejects a file with a SyntaxError. `text` is static. */
struct flmem_python_fault {
	const char *text;
	struct flmem_place place;
};

/*
 * Finds the first certain fault of a file: a bracket or string that is not closed, a closing
 * bracket of another kind, a block without the indentation that Python requires. Returns false if
 * there is no such fault or it is not certain. Tabs in indentation are not judged, nor is text
 * after an f-string with its own kind of quotes in a field (3.12).
 */
bool flmem_python_find_fault(const char *text, struct flmem_python_fault *ret_fault);

#endif
