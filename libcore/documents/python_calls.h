/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_DOCUMENTS_PYTHON_CALLS_H
#define FLMEM_DOCUMENTS_PYTHON_CALLS_H

/*
 * Python source as a tree: {"imports": [path, ...], "calls": [{"path": path, "args": {...}}, ...],
 * "bases": [path, ...], "values": [path, ...]}, where a path is the full name of what an import
 * binds. Only calls of imported names are in it, wherever they occur. `bases` are the classes that
 * others inherit from, `values` those that are passed on or stored without a call.
 *
 * Arguments by position have the keys "0", "1", ..., and "*" and "**" hold those that are known
 * only when the program runs. Literals are values as in a configuration; everything else is an
 * EXPRESSION, whose text is the path, or the name, if it is a single one.
 */
#include "documents/build.h"
#include "documents/python.h"

/* Reads the tree into the cursor's document. FLMEM_EUSAGE at a limit. */
int flmem_python_calls_read(struct flmem_cursor *cursor, const struct flmem_python_source *source);

#endif
