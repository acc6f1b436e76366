/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_BASE_DIFF_H
#define FLMEM_BASE_DIFF_H

/* Differences of two texts in the unified format that patch(1) takes. */

#include "base/text/buf.h"

/*
 * Appends the difference between the texts `before` and `after` of the file `name`; appends nothing
 * when they are equal. The result is right for any two texts, and short for texts that differ in
 * few places.
 */
void flmem_diff_unified(const char *name, const char *before, const char *after,
			struct flmem_buf *out);

#endif
