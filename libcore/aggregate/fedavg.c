/* SPDX-License-Identifier: Apache-2.0 */
/*
 * FedAvg: the weighted mean (McMahan et al., 2017), summed in the order of the inputs. The sum is
 * divided at the end: with counts of samples as weights, each product of a float is exact, and the
 * average of equal models is that model.
 */
#include "aggregate/algorithm.h"

static void combine_fedavg(const struct flmem_combination *c, double *const *rows, size_t count,
			   double *ret_result)
{
	c->kernels->scale(rows[0], c->weights[0], ret_result, count);
	for (size_t i = 1; i < c->inputs; i++)
		c->kernels->add(rows[i], c->weights[i], ret_result, count);
	c->kernels->divide(ret_result, c->total, count);
}

const struct flmem_algorithm flmem_fedavg = {
	.weighted = true,
	.is_mean = true,
	.passes_special = true,
	.combine = combine_fedavg,
};
