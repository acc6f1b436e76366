/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_DOCUMENTS_NOTEBOOK_KINDS_H
#define FLMEM_DOCUMENTS_NOTEBOOK_KINDS_H

/* What a cell of a notebook holds, by the magic command in its first line. */

#include <stdbool.h>

/*
 * Whether a cell holds Python: it has no magic command in its first line, or any other one than
 * those that are known for another language.
 */
bool flmem_notebook_is_python(const char *code);

/* Whether "%%writefile NAME" writes a file of settings; it is not read. */
bool flmem_notebook_writes_settings(const char *code);

/* Whether the lines of a cell are commands of the shell. */
bool flmem_notebook_is_shell(const char *code);

#endif
