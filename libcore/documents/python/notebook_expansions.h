/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_DOCUMENTS_NOTEBOOK_EXPANSIONS_H
#define FLMEM_DOCUMENTS_NOTEBOOK_EXPANSIONS_H

/* Python within the lines of a notebook that IPython runs itself. */

#include <stddef.h>

#include "base/text/buf.h"

/*
 * Adds each "{expression}" of a line that calls something as "; (expression)": IPython evaluates
 * these before it runs the command. "{{" stands for a brace.
 */
void flmem_notebook_expansions_add(struct flmem_buf *code, const char *line, size_t length);

/*
 * Offset of the "!" or "%" in "targets = !command"; 0 if the line is another one. The targets are
 * anything that Python assigns to: "a, b", "d['key']", "self.name".
 */
size_t flmem_notebook_assigned_command(const char *line, size_t length);

#endif
