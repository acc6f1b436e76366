/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_AGGREGATE_COMBINE_H
#define FLMEM_AGGREGATE_COMBINE_H

/* Applies an algorithm to arrays of elements, in pieces that stay in the processor's cache. */

#include <stdbool.h>
#include <stddef.h>

#include "aggregate/algorithm.h"

/* Memory of one thread: a row of doubles per input and one for the result. */
struct flmem_combine_rows {
	double **rows; /* with one for the result behind the inputs' */
	size_t length; /* elements of a row */
	double *memory;
};

bool flmem_combine_rows_init(struct flmem_combine_rows *rows, size_t inputs);
void flmem_combine_rows_clear(struct flmem_combine_rows *rows);

/*
 * Combines `count` elements of each input, from byte `at` of its buffer, into the same place of the
 * buffer behind those of the inputs. True if all that were read are finite. A whole number that is
 * equal in all inputs is copied.
 */
bool flmem_combine(const struct flmem_combination *combination, struct flmem_combine_rows *rows,
		   enum flmem_element element, char *const *buffers, size_t at, size_t count);

#endif
