/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_FRAMEWORKS_LAUNCH_PROGRAMS_H
#define FLMEM_FRAMEWORKS_LAUNCH_PROGRAMS_H

/* The programs of all frameworks, and the functions of Python that do what these do. */

#include "documents/document.h"
#include "frameworks/framework.h"
#include "frameworks/launch/launch_search.h"

/* A walk over the programs, in the order of their frameworks; all zero before the first. */
struct flmem_launch_programs {
	size_t framework, program;
	const struct flmem_framework_ops *owner; /* of the last one */
};

/* NULL after the last. */
const struct flmem_launch_program *flmem_launch_program_next(struct flmem_launch_programs *at);

/* Whether its verb alone decides what it starts: "PROGRAM VERB" and not "PROGRAM GROUP VERB". */
static inline bool flmem_launch_has_verb(const struct flmem_launch_program *program)
{
	return program->before && !program->of;
}

/* Whether the Python with this root calls what runs a command line, or passes that on. */
bool flmem_launch_has_entry_point(const struct flmem_node *root);

/* Whether a text may call one. */
bool flmem_launch_may_call_entry_point(const struct flmem_buf *text);

/* Whether code imports the module of such a function. */
bool flmem_launch_names_command_line(const char *code);

/* Adds those of a tree. */
void flmem_launch_note_entry_points(const struct flmem_node *root, struct flmem_launches *launches);

#endif
