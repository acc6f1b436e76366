/* SPDX-License-Identifier: Apache-2.0 */
/* Krum: the one input that is nearest to most others (Blanchard et al., 2017). */
#include "aggregate/krum_selection.h"

static int prepare_krum(struct flmem_combination *c, struct flmem_error *err)
{
	return flmem_krum_prepare(c, 2, err);
}

static void judge_krum(const struct flmem_combination *c, const double *squares, double *factors,
		       double *scratch)
{
	factors[flmem_krum_best(c, squares, factors, scratch)] = 1;
}

static void combine_krum(const struct flmem_combination *c, double *const *rows, size_t count,
			 double *ret_result)
{
	c->kernels->scale(rows[0], 1, ret_result, count);
}

const struct flmem_algorithm flmem_krum = {
	.compares = true,
	.passes_special = true,
	.measures = FLMEM_MEASURE_DISTANCES,
	.left_out = "krum chose another one",
	.prepare = prepare_krum,
	.judge = judge_krum,
	.combine = combine_krum,
};
