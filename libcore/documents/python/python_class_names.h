/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_DOCUMENTS_PYTHON_CLASS_NAMES_H
#define FLMEM_DOCUMENTS_PYTHON_CLASS_NAMES_H

/* Imported names that a class holds under another name, as members of an Enum do. */

#include "documents/build.h"
#include "documents/python/python.h"
#include "documents/python/python_names.h"

/* Adds those to `list` that no "NAME.name(...)" calls: what else reaches them is not followed. */
int flmem_python_class_names_read(struct flmem_cursor *cursor,
				  const struct flmem_python_names *names,
				  const struct flmem_python_source *source,
				  struct flmem_node *list);

#endif
