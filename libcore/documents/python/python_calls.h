/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_DOCUMENTS_PYTHON_CALLS_H
#define FLMEM_DOCUMENTS_PYTHON_CALLS_H

/*
 * Python source as a tree: {"imports": [path, ...], "calls": [{"path": path, "args": {...}}, ...],
 * "methods": [the same], "bases": [path, ...], "values": [path, ...], "attributes": [name, ...],
 * "items": [key, ...], "keys": [key, ...], "rebound": [path, ...], "definitions": [name, ...],
 * "paths": [path, ...], "dictionaries": {name: {...}, ...}, "entries": [name, ...], "fault": text},
 * where a path is the full name of what an import binds. `calls` are those of imported names,
 * wherever they occur, `methods` those of methods of anything else, and of setattr(), __import__()
 * and the like, with the name alone as path ("__dict__.update" for methods of that or of vars(), ""
 * for calls of what a call or an entry is). `bases` are the classes that others inherit from,
 * `values` those that are passed on or stored without a call, `attributes` those that are assigned,
 * except by an object to itself ("__dict__": one whose name is not known), `items` the keys of
 * entries that are assigned, `keys` those of dictionaries that are not arguments of such calls,
 * `rebound` the full names of those attributes that belong to something imported; what `del`
 * deletes counts as assigned, and of entries as a call of PATH.__delitem__, `definitions` the names
 * of functions, of what an object assigns to itself and of what is assigned after an indent,
 * `paths` the strings that are a name with dots, as configurations name classes, `dictionaries`
 * those that are assigned to a name which the script then only passes on, `entries` (absent if
 * there are none) the first names of targets whose last key is known only when the program runs,
 * with the place of that key, and `fault` is in a file that Python refuses with a SyntaxError.
 *
 * Arguments by position have the keys "0", "1", ..., and "*" and "**" hold those that are known
 * only when the program runs. Literals are values as in a configuration; everything else is an
 * EXPRESSION, whose text is the path, or the name, if it is a single one.
 */
#include "documents/build.h"
#include "documents/python/python.h"

/* Reads the tree into the cursor's document. FLMEM_EUSAGE at a limit. */
int flmem_python_calls_read(struct flmem_cursor *cursor, const struct flmem_python_source *source);

/* FLMEM_EUSAGE if an unterminated string hides the rest of a part. */
int flmem_python_check_ends(struct flmem_cursor *cursor, const struct flmem_python_source *source);

#endif
