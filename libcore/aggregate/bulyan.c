/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bulyan (El Mhamdi et al., 2018): inputs that Krum chooses one after the other, then for each
 * element the mean of the values that are nearest to their median.
 */
#include <math.h>

#include "aggregate/krum_selection.h"
#include "aggregate/sort_inputs.h"

static int prepare_bulyan(struct flmem_combination *c, struct flmem_error *err)
{
	return flmem_krum_prepare(c, 4, err);
}

static void judge_bulyan(const struct flmem_combination *c, const double *squares, double *factors,
			 double *scratch)
{
	for (size_t chosen = 0; chosen < c->inputs - 2 * c->hostile; chosen++)
		factors[flmem_krum_best(c, squares, factors, scratch)] = 1;
}

/* The values are sorted, so those nearest to the median are neighbours. */
static double mean_of_nearest(const struct flmem_combination *c, double *const *rows, size_t e)
{
	size_t middle = c->inputs / 2, left = c->inputs - 2 * c->hostile, first = 0;
	double median =
		c->inputs % 2 ? rows[middle][e] : rows[middle - 1][e] * 0.5 + rows[middle][e] * 0.5;
	double part = 1, sum = 0;

	while (first < 2 * c->hostile && median - rows[first][e] > rows[first + left][e] - median)
		first++;
	/* Scale the terms as the trimmed mean does, so that the sum stays finite. */
	while (part * (double)left >= 1)
		part /= 2;
	for (size_t i = first; i < first + left; i++)
		sum += rows[i][e] * part;
	return sum / (part * (double)left);
}

static void combine_bulyan(const struct flmem_combination *c, double *const *rows, size_t count,
			   double *ret_result)
{
	struct flmem_nan_marks marks;

	flmem_rows_sort(c, rows, count, &marks);
	for (size_t e = 0; e < count; e++)
		ret_result[e] = mean_of_nearest(c, rows, e);
	flmem_nan_marks_apply(&marks, ret_result, count);
}

const struct flmem_algorithm flmem_bulyan = {
	.compares = true,
	.measures = FLMEM_MEASURE_DISTANCES,
	.left_out = "krum, the first step of bulyan, chose others",
	.prepare = prepare_bulyan,
	.judge = judge_bulyan,
	.combine = combine_bulyan,
};
