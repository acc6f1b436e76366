/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_DOCUMENTS_PYTHON_ENCODING_H
#define FLMEM_DOCUMENTS_PYTHON_ENCODING_H

#include <flmem/error.h>

#include "base/text/buf.h"

/*
 * Converts Python whose first or second line declares an encoding (PEP 263) to UTF-8. Lines stay
 * the same, columns count characters. FLMEM_EUSAGE for an encoding that is unknown here or in which
 * ASCII is not written as such, and for bytes that are not in it; `text` is then unchanged.
 */
int flmem_python_decode(struct flmem_buf *text, struct flmem_error *err);

#endif
