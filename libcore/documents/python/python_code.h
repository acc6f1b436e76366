/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_DOCUMENTS_PYTHON_CODE_H
#define FLMEM_DOCUMENTS_PYTHON_CODE_H

/* Finds where Python runs code that is not part of its source: exec(), eval(), run_cell(). */

#include "documents/python/python.h"

/* One use of such a function. */
struct flmem_python_code {
	struct flmem_python_word function; /* the name of the function */
	struct flmem_python_word text;	   /* the argument, if it is one literal; else an END */
	bool built_in;			   /* false: a method of the same name */
	bool named;			   /* the argument is a variable or an attribute */
	bool called; /* false: the function is kept under another name or passed on */
};

struct flmem_python_code_search {
	struct flmem_python_reader reader;
	struct flmem_python_word earlier; /* the word before reader.before */
	bool has_interpreter;		  /* the source names one: IPython, InteractiveConsole */
};

/* Starts a search at the first word of the source. */
void flmem_python_code_start(struct flmem_python_code_search *search,
			     const struct flmem_python_source *source);

/* Finds the next use. Returns false at the end of the source. */
bool flmem_python_code_next(struct flmem_python_code_search *search,
			    struct flmem_python_code *ret_code);

/*
 * Whether a string holds a name that the source imports from `package`; with `call`, a call of one.
 */
bool flmem_python_code_has_name(const struct flmem_python_word *string,
				const struct flmem_node *root, const char *package, bool call);

#endif
