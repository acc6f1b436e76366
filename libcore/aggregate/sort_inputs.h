/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_AGGREGATE_SORT_INPUTS_H
#define FLMEM_AGGREGATE_SORT_INPUTS_H

/* Sorts the inputs of each element, for algorithms that use their order. */

#include "aggregate/algorithm.h"

/* Marks, for one row's worth of elements, which have a NaN in an input. */
struct flmem_nan_marks {
	bool any;
	unsigned char marks[FLMEM_ROW_LONGEST];
};

/* Afterwards rows[i][e] <= rows[i + 1][e]; NaNs are anywhere, and marked. */
void flmem_rows_sort(const struct flmem_combination *combination, double *const *rows, size_t count,
		     struct flmem_nan_marks *ret_marks);

/* Makes the marked elements NaN. */
void flmem_nan_marks_apply(const struct flmem_nan_marks *marks, double *values, size_t count);

#endif
