/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The median of each element (Yin et al., 2018); for an even number of inputs, the mean of the two
 * middle values.
 */
#include "aggregate/sort_inputs.h"

static void combine_median(const struct flmem_combination *c, double *const *rows, size_t count,
			   double *ret_result)
{
	struct flmem_nan_marks marks;
	size_t middle = c->inputs / 2;

	flmem_rows_sort(c, rows, count, &marks);
	if (c->inputs % 2) {
		c->kernels->scale(rows[middle], 1, ret_result, count);
	} else { /* halve first: the sum of two large numbers could be infinite */
		c->kernels->scale(rows[middle - 1], 0.5, ret_result, count);
		c->kernels->add(rows[middle], 0.5, ret_result, count);
	}
	flmem_nan_marks_apply(&marks, ret_result, count);
}

const struct flmem_algorithm flmem_median = {
	.compares = true,
	.combine = combine_median,
};
