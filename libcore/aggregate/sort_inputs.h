/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_AGGREGATE_SORT_INPUTS_H
#define FLMEM_AGGREGATE_SORT_INPUTS_H

/* Sorts the inputs of each element, for algorithms that use their order. */

#include "aggregate/algorithm.h"

/* Marks the elements of one row that are NaN in any input. */
struct flmem_nan_marks {
	bool any;
	unsigned char marks[FLMEM_ROW_LONGEST];
};

/*
 * Sorts, so that rows[i][e] <= rows[i + 1][e] for every element e without a NaN. An element with a
 * NaN in any input is in no order and gets a mark.
 */
void flmem_rows_sort(const struct flmem_combination *combination, double *const *rows, size_t count,
		     struct flmem_nan_marks *ret_marks);

/* Sets the marked elements to NaN. */
void flmem_nan_marks_apply(const struct flmem_nan_marks *marks, double *values, size_t count);

#endif
