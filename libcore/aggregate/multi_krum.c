/* SPDX-License-Identifier: Apache-2.0 */
/* Multi-Krum: the weighted mean of the inputs with the best scores (Blanchard et al., 2017). */
#include "aggregate/krum_selection.h"

static int prepare_multi_krum(struct flmem_combination *c, struct flmem_error *err)
{
	int rc = flmem_krum_prepare(c, 2, err);

	if (rc)
		return rc;
	if (c->keep > c->inputs)
		return flmem_error_set(err, FLMEM_EUSAGE, 0,
				       "cannot keep %zu (--keep) of %zu inputs for 'multi-krum'",
				       c->keep, c->inputs);
	if (!c->keep)
		c->keep = c->inputs - c->hostile - 2;
	return 0;
}

/* Scores are computed once, among all inputs; each choice leaves out those chosen before. */
static void judge_multi_krum(const struct flmem_combination *c, const double *squares,
			     double *factors, double *scratch)
{
	double *scores = scratch + c->inputs;

	for (size_t i = 0; i < c->inputs; i++)
		scores[i] = flmem_krum_score(c, squares, factors, i, scratch);
	for (size_t kept = 0; kept < c->keep; kept++) {
		size_t best = c->inputs;

		for (size_t i = 0; i < c->inputs; i++)
			if (factors[i] == 0 && (best == c->inputs || scores[i] < scores[best]))
				best = i;
		factors[best] = 1;
	}
}

static void combine_multi_krum(const struct flmem_combination *c, double *const *rows, size_t count,
			       double *ret_result)
{
	flmem_fedavg.combine(c, rows, count, ret_result);
}

const struct flmem_algorithm flmem_multi_krum = {
	.weighted = true,
	.compares = true,
	.keeps = true,
	.passes_special = true,
	.measures = FLMEM_MEASURE_DISTANCES,
	.left_out = "multi-krum chose others",
	.prepare = prepare_multi_krum,
	.judge = judge_multi_krum,
	.combine = combine_multi_krum,
};
