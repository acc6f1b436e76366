/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_DOCUMENTS_PYTHON_MEMBERS_H
#define FLMEM_DOCUMENTS_PYTHON_MEMBERS_H

/* Notes names that a program assigns to objects and modules, and that classes define. */

#include "documents/build.h"
#include "documents/python/python_names.h"

/* The lists of python_calls.h to which these names are added. */
struct flmem_python_members {
	struct flmem_node *attributes, *rebound, *definitions;
};

/* Notes the assignment of a name, with or without dots. */
int flmem_python_member_assigned(struct flmem_cursor *cursor,
				 const struct flmem_python_names *names,
				 const struct flmem_python_members *members, const char *dotted,
				 const struct flmem_place *place);

/* Notes the name of a function that is defined. */
int flmem_python_member_defined(struct flmem_cursor *cursor,
				const struct flmem_python_members *members,
				const struct flmem_python_word *name);

#endif
