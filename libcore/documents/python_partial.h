/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_DOCUMENTS_PYTHON_PARTIAL_H
#define FLMEM_DOCUMENTS_PYTHON_PARTIAL_H

#include "documents/document.h"

/*
 * functools.partial(f, ...) is a call of f, whose other arguments come later. `value` is the use of
 * f as the first argument, or NULL, which then is none.
 */
void flmem_python_unfold_partial(struct flmem_node *path, struct flmem_node *args,
				 struct flmem_node *value);

#endif
