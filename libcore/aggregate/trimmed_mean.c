/* SPDX-License-Identifier: Apache-2.0 */
/* The mean of each element without its largest and its smallest values (Yin et al., 2018). */
#include <math.h>

#include "aggregate/sort_inputs.h"

#define TRIM_DEFAULT 0.2
#define INPUTS_MIN   3U

/* The smallest share in thousandths that trims one input at each end. */
static double smallest_trim(size_t inputs)
{
	return ceil(1000.0 / (double)inputs) / 1000;
}

static int prepare_trimmed_mean(struct flmem_combination *c, struct flmem_error *err)
{
	double trim = c->trim > 0 ? c->trim : TRIM_DEFAULT;

	/* In binary 0.3 x 10 may be just below 3; a small amount is added before rounding down. */
	c->trimmed = trim < 0.5 ? (size_t)(trim * (double)c->inputs + 1e-9) : c->inputs;
	if (2 * c->trimmed >= c->inputs)
		return flmem_error_set(err, FLMEM_EUSAGE, 0,
				       "trimming a share of %g at each end leaves none of %zu "
				       "inputs; use a --trim of less than 0.5",
				       trim, c->inputs);
	if (c->inputs < INPUTS_MIN)
		return flmem_error_set(
			err, FLMEM_EUSAGE, 0,
			"too few inputs for 'trimmed-mean': %zu; it needs %u or more", c->inputs,
			INPUTS_MIN);
	if (!c->trimmed)
		return flmem_error_set(err, FLMEM_EUSAGE, 0,
				       "trimming a share of %g at each end removes none of %zu "
				       "inputs; use a --trim of %g or more, or fedavg",
				       trim, c->inputs, smallest_trim(c->inputs));
	return 0;
}

static void combine_trimmed_mean(const struct flmem_combination *c, double *const *rows,
				 size_t count, double *ret_result)
{
	size_t left = c->inputs - 2 * c->trimmed;
	struct flmem_nan_marks marks;

	flmem_rows_sort(c, rows, count, &marks);
	/*
	 * `part` is a power of two, so multiplying by it is exact. It keeps sums of finite numbers
	 * finite.
	 */
	double part = 1;

	while (part * (double)left >= 1)
		part /= 2;
	c->kernels->scale(rows[c->trimmed], part, ret_result, count);
	for (size_t i = 1; i < left; i++)
		c->kernels->add(rows[c->trimmed + i], part, ret_result, count);
	c->kernels->divide(ret_result, part * (double)left, count);
	flmem_nan_marks_apply(&marks, ret_result, count);
}

const struct flmem_algorithm flmem_trimmed_mean = {
	.trims = true,
	.compares = true,
	.prepare = prepare_trimmed_mean,
	.combine = combine_trimmed_mean,
};
