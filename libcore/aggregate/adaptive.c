/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregate/adaptive.h"

#include <math.h>
#include <string.h>

/* Defaults that Reddi et al., 2021, found to work well on most of their tasks. */
#define RATE_DEFAULT 0.1
#define TAU_DEFAULT  1e-3

struct flmem_adaptive flmem_adaptive_begin(const struct flmem_combination *c, double *const *rows,
					   size_t count, double *result)
{
	double *const *state = rows + flmem_combination_sources(c);
	struct flmem_adaptive a = {
		.model = state[FLMEM_SLOT_MODEL],
		.momentum = state[FLMEM_SLOT_MOMENTUM],
		.variance = c->algorithm->slots > FLMEM_SLOT_VARIANCE ? state[FLMEM_SLOT_VARIANCE]
								      : NULL,
		.step = result,
	};

	if (c->first_round) {
		memcpy(a.model, rows[c->inputs], count * sizeof(*a.model));
		memset(a.momentum, 0, count * sizeof(*a.momentum));
		for (size_t e = 0; a.variance && e < count; e++)
			a.variance[e] = c->tau * c->tau;
	}
	flmem_fedavg.combine(c, rows, count, result);
	c->kernels->add(a.model, -1, result, count);
	return a;
}

void flmem_adaptive_momentum(const struct flmem_combination *c, const struct flmem_adaptive *a,
			     size_t count)
{
	for (size_t e = 0; e < count; e++)
		a->momentum[e] = c->beta1 * a->momentum[e] + (1 - c->beta1) * a->step[e];
}

void flmem_adaptive_move(const struct flmem_combination *c, const struct flmem_adaptive *a,
			 size_t count)
{
	for (size_t e = 0; e < count; e++)
		a->model[e] += c->rate * a->momentum[e] / (sqrt(a->variance[e]) + c->tau);
	memcpy(a->step, a->model, count * sizeof(*a->step));
}

int flmem_adaptive_prepare(struct flmem_combination *c, struct flmem_error *err)
{
	if (c->rate == 0)
		c->rate = RATE_DEFAULT;
	if (c->tau == 0)
		c->tau = TAU_DEFAULT;
	if (!(c->rate > 0 && c->tau > 0) || isinf(c->rate) || isinf(c->tau))
		return flmem_error_set(err, FLMEM_EUSAGE, 0,
				       "invalid rate %g or tau %g; expected more than 0", c->rate,
				       c->tau);
	if (!(c->beta1 >= 0 && c->beta1 < 1 && c->beta2 >= 0 && c->beta2 < 1))
		return flmem_error_set(err, FLMEM_EUSAGE, 0,
				       "invalid beta1 %g or beta2 %g; expected 0 or more and less "
				       "than 1",
				       c->beta1, c->beta2);
	return 0;
}
