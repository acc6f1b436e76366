/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_DOCUMENTS_PYTHON_UNICODE_H
#define FLMEM_DOCUMENTS_PYTHON_UNICODE_H

#include "documents/python/python.h"

/*
 * Rewrites names of the source in ASCII that Python takes for such ones; blanks fill the room of
 * the letters, so that places stay as they are. `text` is the source's.
 */
void flmem_python_fold_letters(char *text, const struct flmem_python_source *source);

/* The same for every letter of a text, wherever it is; false: the text has no such letter. */
bool flmem_python_fold_text(const struct flmem_buf *text, struct flmem_buf *ret_folded);

#endif
