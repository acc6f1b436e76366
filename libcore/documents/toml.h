/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_DOCUMENTS_TOML_H
#define FLMEM_DOCUMENTS_TOML_H

/*
 * Reads single values of TOML, for its reader. The cursor is at their start, and then after them.
 */

#include "documents/build.h"

/* Reads a string of any kind; with `in_line`, only one within a line, as keys are. */
int flmem_toml_string(struct flmem_cursor *cursor, bool in_line, const char **ret_text);

/* Reads a number, truth value, date or time; a date or time becomes a string. */
int flmem_toml_word(struct flmem_cursor *cursor, struct flmem_node *node);

#endif
