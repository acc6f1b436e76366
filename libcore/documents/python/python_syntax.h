/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_DOCUMENTS_PYTHON_SYNTAX_H
#define FLMEM_DOCUMENTS_PYTHON_SYNTAX_H

#include <stdbool.h>

#include "documents/document.h"

/* Faults for which CPython rejects a file with a SyntaxError. */
struct flmem_python_fault {
	const char *text;
	struct flmem_place place;
};

/*
 * The first certain fault of a file: brackets and strings that are not closed, a closing bracket of
 * another kind, and blocks without the indentation that Python requires. False: no such fault, or
 * not known. Tabs in indentation are not judged, nor is text after an f-string with its own kind of
 * quotes in a field (3.12).
 */
bool flmem_python_find_fault(const char *text, struct flmem_python_fault *ret_fault);

#endif
