/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregate/sort_inputs.h"

#include <math.h>
#include <string.h>

static void mark_nans(const struct flmem_combination *c, double *const *rows, size_t count,
		      struct flmem_nan_marks *marks)
{
	marks->any = false;
	memset(marks->marks, 0, count);
	for (size_t i = 0; i < c->inputs; i++) {
		if (c->kernels->finite(rows[i], count))
			continue;
		for (size_t e = 0; e < count; e++)
			if (isnan(rows[i][e]))
				marks->marks[e] = 1;
		marks->any = true;
	}
}

/*
 * One step of the sorting network: orders pairs at distance `gap` within sorted groups of 2 x
 * `size`.
 */
static void merge_step(const struct flmem_combination *c, double *const *rows, size_t count,
		       size_t size, size_t gap)
{
	for (size_t first = gap % size; first + gap < c->inputs; first += 2 * gap)
		for (size_t i = first; i < first + gap && i + gap < c->inputs; i++)
			if (i / (2 * size) == (i + gap) / (2 * size))
				c->kernels->order(rows[i], rows[i + gap], count);
}

/*
 * Batcher's odd-even merge sort: which pairs are compared does not depend on the values, so whole
 * rows are compared at once.
 */
void flmem_rows_sort(const struct flmem_combination *c, double *const *rows, size_t count,
		     struct flmem_nan_marks *ret_marks)
{
	mark_nans(c, rows, count, ret_marks);
	for (size_t size = 1; size < c->inputs; size *= 2)
		for (size_t gap = size; gap; gap /= 2)
			merge_step(c, rows, count, size, gap);
}

void flmem_nan_marks_apply(const struct flmem_nan_marks *marks, double *values, size_t count)
{
	for (size_t e = 0; marks->any && e < count; e++)
		if (marks->marks[e])
			values[e] = (double)NAN;
}
