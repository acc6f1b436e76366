/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_FRAMEWORKS_LAUNCH_PROGRAMS_H
#define FLMEM_FRAMEWORKS_LAUNCH_PROGRAMS_H

/* Programs of all frameworks, and Python functions that do the same as these programs. */

#include "documents/document.h"
#include "frameworks/framework.h"
#include "frameworks/launch/launch_search.h"

/* A walk over the programs of all frameworks. Zero it before the first call. */
struct flmem_launch_programs {
	size_t framework, program;
	const struct flmem_framework_ops *owner; /* the framework of the program returned last */
};

/* Returns the next program; NULL after the last. */
const struct flmem_launch_program *flmem_launch_program_next(struct flmem_launch_programs *at);

/*
 * Whether the verb after a program decides what it starts: "PROGRAM VERB", not "PROGRAM GROUP
 * VERB".
 */
static inline bool flmem_launch_has_verb(const struct flmem_launch_program *program)
{
	return program->before && !program->of;
}

/* Whether Python with this root calls a function that runs a command line, or passes one on. */
bool flmem_launch_has_entry_point(const struct flmem_node *root);

/* Whether a text may call such a function. */
bool flmem_launch_may_call_entry_point(const struct flmem_buf *text);

/* Whether Python code imports a module with such a function. */
bool flmem_launch_names_command_line(const char *code);

/* Adds a launch for each such function that the Python calls or passes on. */
void flmem_launch_note_entry_points(const struct flmem_node *root, struct flmem_launches *launches);

#endif
