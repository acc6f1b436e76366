/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_DOCUMENTS_PYTHON_SYNTAX_H
#define FLMEM_DOCUMENTS_PYTHON_SYNTAX_H

#include <stdbool.h>

#include "documents/document.h"

/* For what CPython refuses a file with a SyntaxError. */
struct flmem_python_fault {
	const char *text;
	struct flmem_place place;
};

/*
 * The first fault of a file that is certain: brackets and strings that do not end, a bracket that
 * closes another one, and blocks that are not indented as Python needs them. False: none of these,
 * or not known. Indentation with tabs, and text after an f-string that has quotes of its own kind
 * in a field (3.12), are not judged.
 */
bool flmem_python_find_fault(const char *text, struct flmem_python_fault *ret_fault);

#endif
