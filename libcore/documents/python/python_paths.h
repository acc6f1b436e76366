/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_DOCUMENTS_PYTHON_PATHS_H
#define FLMEM_DOCUMENTS_PYTHON_PATHS_H

#include "documents/build.h"
#include "documents/python/python.h"

/* Adds the list "paths" of python_calls.h to the root. FLMEM_EUSAGE at a limit. */
int flmem_python_paths_read(struct flmem_cursor *cursor, struct flmem_node *root,
			    const struct flmem_python_source *source);

#endif
