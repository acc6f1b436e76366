/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_AGGREGATE_COMBINE_H
#define FLMEM_AGGREGATE_COMBINE_H

/* Applies an algorithm to arrays of elements, in pieces that stay in the processor's cache. */

#include <stdbool.h>
#include <stddef.h>

#include "aggregate/algorithm.h"

/* Memory of one thread: one row of doubles per input and one for the result. */
struct flmem_combine_rows {
	double **rows; /* the rows of the inputs, then that of the result */
	size_t length; /* elements of a row */
	double *memory;
};

/* Allocates the rows. `inputs` counts all rows except that of the result. False: out of memory. */
bool flmem_combine_rows_init(struct flmem_combine_rows *rows, size_t inputs);
void flmem_combine_rows_clear(struct flmem_combine_rows *rows);

/* The state of some elements, one array per slot, which is set for the next round. */
struct flmem_combine_state {
	enum flmem_element element;
	char *slots[FLMEM_SLOTS_MAX];
};

/* An array of `count` elements of one type, which begins at byte `at` of each buffer. */
struct flmem_combine_array {
	enum flmem_element element;
	char *const *buffers; /* of the inputs, the base and the output */
	size_t at, count;
	const struct flmem_combine_state *state; /* NULL: the algorithm keeps no state */
};

/*
 * Combines an array of the inputs into the same place of the output. Returns true if all elements
 * that were read are finite. An integer that is equal in all inputs is copied.
 */
bool flmem_combine(const struct flmem_combination *combination, struct flmem_combine_rows *rows,
		   const struct flmem_combine_array *array);

#endif
