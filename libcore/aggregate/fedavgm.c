/* SPDX-License-Identifier: Apache-2.0 */
/* FedAvgM (Hsu et al., 2019): the server keeps a momentum of earlier rounds. */
#include <string.h>

#include "aggregate/adaptive.h"

static int prepare_fedavgm(struct flmem_combination *c, struct flmem_error *err)
{
	if (c->rate == 0)
		c->rate = 1;
	return flmem_adaptive_prepare(c, err);
}

static void combine_fedavgm(const struct flmem_combination *c, double *const *rows, size_t count,
			    double *ret_result)
{
	struct flmem_adaptive a = flmem_adaptive_begin(c, rows, count, ret_result);

	for (size_t e = 0; e < count; e++)
		a.momentum[e] = c->beta1 * a.momentum[e] + a.step[e];
	c->kernels->add(a.momentum, c->rate, a.model, count);
	memcpy(ret_result, a.model, count * sizeof(*ret_result));
}

const struct flmem_algorithm flmem_fedavgm = {
	.weighted = true,
	.passes_special = true,
	.takes_base = true,
	.slots = 2,
	.beta1 = 0.9,
	.prepare = prepare_fedavgm,
	.combine = combine_fedavgm,
};
