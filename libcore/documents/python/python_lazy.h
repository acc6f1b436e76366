/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_DOCUMENTS_PYTHON_LAZY_H
#define FLMEM_DOCUMENTS_PYTHON_LAZY_H

#include "documents/python/python.h"

/*
 * Makes "import a" of "lazy import a" and "from" of "lazy from" (Python 3.15, PEP 810). Blanks fill
 * the room, so that the places of names stay valid. `text` is the text of the source.
 */
void flmem_python_fold_lazy(char *text, const struct flmem_python_source *source);

#endif
