/* SPDX-License-Identifier: Apache-2.0 */
/* FedYogi (Reddi et al., 2021). */
#include "aggregate/adaptive.h"

static void combine_fedyogi(const struct flmem_combination *c, double *const *rows, size_t count,
			    double *ret_result)
{
	struct flmem_adaptive a = flmem_adaptive_begin(c, rows, count, ret_result);

	flmem_adaptive_momentum(c, &a, count);
	for (size_t e = 0; e < count; e++) {
		double square = a.step[e] * a.step[e], more = (1 - c->beta2) * square;

		if (a.variance[e] > square)
			a.variance[e] -= more;
		else if (!(a.variance[e] == square)) /* true for a NaN, too */
			a.variance[e] += more;
	}
	flmem_adaptive_move(c, &a, count);
}

const struct flmem_algorithm flmem_fedyogi = {
	.weighted = true,
	.passes_special = true,
	.takes_base = true,
	.slots = 3,
	.beta1 = 0.9,
	.beta2 = 0.99,
	.prepare = flmem_adaptive_prepare,
	.combine = combine_fedyogi,
};
