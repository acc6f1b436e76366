/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_DOCUMENTS_PYTHON_UNICODE_H
#define FLMEM_DOCUMENTS_PYTHON_UNICODE_H

#include "documents/python/python.h"

/*
 * Rewrites names that Python takes for ASCII ones in ASCII. Blanks fill the room that becomes free,
 * so that places stay valid. `text` is the text of the source.
 */
void flmem_python_fold_letters(char *text, const struct flmem_python_source *source);

/* Writes a copy with every such letter in ASCII, wherever it is. Returns false if there is none. */
bool flmem_python_fold_text(const struct flmem_buf *text, struct flmem_buf *ret_folded);

#endif
