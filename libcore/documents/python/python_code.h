/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_DOCUMENTS_PYTHON_CODE_H
#define FLMEM_DOCUMENTS_PYTHON_CODE_H

/* Where Python runs code that is not part of its source: exec() and eval(). */

#include "documents/python/python.h"

/* A use of one of these functions. */
struct flmem_python_code {
	struct flmem_python_word function;
	struct flmem_python_word text; /* its argument, if that is one literal; else an END */
	bool built_in;		       /* not a method of the same name */
	bool named;		       /* its argument is a variable, or an attribute */
	bool called;		       /* false: kept under another name, or passed on */
};

struct flmem_python_code_search {
	struct flmem_python_reader reader;
	struct flmem_python_word earlier; /* two words before the reader's */
};

void flmem_python_code_start(struct flmem_python_code_search *search,
			     const struct flmem_python_source *source);

/* The next use; false at the end of the source. */
bool flmem_python_code_next(struct flmem_python_code_search *search,
			    struct flmem_python_code *ret_code);

/* Whether a string holds a name that the source imports from `package`; with `call`, calls it. */
bool flmem_python_code_has_name(const struct flmem_python_word *string,
				const struct flmem_node *root, const char *package, bool call);

#endif
