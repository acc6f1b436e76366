/* SPDX-License-Identifier: Apache-2.0 */
/* FedAdagrad (Reddi et al., 2021). */
#include "aggregate/adaptive.h"

static void combine_fedadagrad(const struct flmem_combination *c, double *const *rows, size_t count,
			       double *ret_result)
{
	struct flmem_adaptive a = flmem_adaptive_begin(c, rows, count, ret_result);

	flmem_adaptive_momentum(c, &a, count);
	for (size_t e = 0; e < count; e++) {
		a.variance[e] += a.step[e] * a.step[e];
	}
	flmem_adaptive_move(c, &a, count);
}

const struct flmem_algorithm flmem_fedadagrad = {
	.weighted = true,
	.passes_special = true,
	.takes_base = true,
	.slots = 3,
	.beta1 = 0, /* as in the experiments of the paper */
	.prepare = flmem_adaptive_prepare,
	.combine = combine_fedadagrad,
};
