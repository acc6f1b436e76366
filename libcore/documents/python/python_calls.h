/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_DOCUMENTS_PYTHON_CALLS_H
#define FLMEM_DOCUMENTS_PYTHON_CALLS_H

/*
 * Reads Python source into a tree of the names that it imports and of what it does with them. The
 * root is a map with these keys. A path is the full name of what an import binds: after "import a.b
 * as c", the path of c.d is "a.b.d".
 *
 *   imports       [path, ...]  everything that is imported
 *   calls         [{"path": path, "args": {...}}, ...]  calls of imported names, wherever they are;
 *                 an assignment to an entry of an imported object is a call of PATH.__setitem__,
 *                 its deletion one of PATH.__delitem__
 *   methods       the same for methods of anything that is not imported, and for setattr(),
 *                 __import__() and the like; the path is the name alone, "__dict__.update" for a
 *                 method of a __dict__ or of vars(), "" for a call of the result of a call
 *   bases         [path, ...]  imported classes that classes of the source inherit from
 *   values        [path, ...]  imported names that are passed on or stored without a call
 *   attributes    [name, ...]  attributes that are assigned or deleted, except those of self and
 *                 cls; "__dict__" stands for one whose name is not known
 *   items         [key, ...]  keys of entries that are assigned: object["key"] = value
 *   keys          [key, ...]  keys of dictionaries that are not arguments of the calls above
 *   rebound       [path, ...]  attributes of imported objects that are assigned or deleted
 *   definitions   [name, ...]  functions, attributes of self and cls that are assigned, and names
 *                 that are assigned on an indented line
 *   paths         [path, ...]  strings that are a dotted name, by which configurations name classes
 *   dictionaries  {name: {...}, ...}  dictionaries that are assigned to a name which the source
 *                 then only passes on
 *   entries       [name, ...]  first names of targets whose last key is known only when the program
 *                 runs, with the place of that key; absent if there are none
 *   fault         text  absent unless Python refuses the file with a SyntaxError
 *
 * Arguments by position have the keys "0", "1" and so on; "*" and "**" hold those that are known
 * only when the program runs. Literals are values as in a configuration. Everything else is a node
 * of kind FLMEM_NODE_EXPRESSION; if it is a single name, its text is the path or the name.
 */
#include "documents/build.h"
#include "documents/python/python.h"

/* Reads the tree into the cursor's document, without `fault`. FLMEM_EUSAGE at a limit. */
int flmem_python_calls_read(struct flmem_cursor *cursor, const struct flmem_python_source *source);

/* Returns FLMEM_EUSAGE if a string in three quotes that does not end hides the rest of a part. */
int flmem_python_check_ends(struct flmem_cursor *cursor, const struct flmem_python_source *source);

#endif
