/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The weighted mean of updates, each scaled down to a maximal norm (Sun et al., 2019). An update is
 * the difference of an input from the base; without a base it is the input.
 */
#include <math.h>
#include <stdlib.h>

#include "aggregate/algorithm.h"

static int compare_norms(const void *a, const void *b)
{
	const double *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

/* The median depends on half of the inputs, so a few large norms cannot raise it. */
static double find_median_norm(const struct flmem_combination *c, const double *squares,
			       double *scratch)
{
	size_t middle = c->inputs / 2;

	for (size_t i = 0; i < c->inputs; i++)
		scratch[i] = sqrt(squares[i]);
	qsort(scratch, c->inputs, sizeof(*scratch), compare_norms);
	return c->inputs % 2 ? scratch[middle] : scratch[middle - 1] * 0.5 + scratch[middle] * 0.5;
}

static void judge_norm_clipped_mean(const struct flmem_combination *c, const double *squares,
				    double *factors, double *scratch)
{
	double most = c->clip_norm > 0 ? c->clip_norm : find_median_norm(c, squares, scratch);

	for (size_t i = 0; i < c->inputs; i++) {
		double norm = sqrt(squares[i]);

		if (isinf(norm))
			/* Leave it out even if the median is infinite, too, and clips nothing. */
			factors[i] = 0;
		else
			factors[i] = norm > most ? most / norm : 1;
	}
}

static void combine_norm_clipped_mean(const struct flmem_combination *c, double *const *rows,
				      size_t count, double *ret_result)
{
	for (size_t i = 0; i < c->inputs; i++) {
		double factor = c->weights[i] * c->factors[i];

		if (c->has_base)
			c->kernels->add(rows[c->inputs], -1, rows[i], count);
		if (i)
			c->kernels->add(rows[i], factor, ret_result, count);
		else
			c->kernels->scale(rows[i], factor, ret_result, count);
	}
	c->kernels->divide(ret_result, c->total, count);
	if (c->has_base)
		c->kernels->add(rows[c->inputs], 1, ret_result, count);
}

const struct flmem_algorithm flmem_norm_clipped_mean = {
	.weighted = true,
	.compares = true,
	.clips = true,
	.takes_base = true,
	.passes_special = true,
	.measures = FLMEM_MEASURE_NORMS,
	.left_out = "the norm of its update is infinite",
	.scaled_out = "its update is scaled to 0",
	.judge = judge_norm_clipped_mean,
	.combine = combine_norm_clipped_mean,
};
