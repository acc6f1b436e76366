/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_AGGREGATE_ADAPTIVE_H
#define FLMEM_AGGREGATE_ADAPTIVE_H

/*
 * Algorithms that treat the mean of the inputs as a step from the server's model and keep moments
 * of these steps from round to round (Reddi et al., 2021, algorithm 2).
 */

#include "aggregate/algorithm.h"

/* The state of some elements; what it is set to is kept for the next round. */
struct flmem_adaptive {
	double *model, *momentum, *variance; /* the last is NULL where the algorithm keeps none */
	double *step;			     /* from the model to the mean of the inputs */
};

/* Computes the step, into `result`; the first round starts with the base. */
struct flmem_adaptive flmem_adaptive_begin(const struct flmem_combination *combination,
					   double *const *rows, size_t count, double *result);

/* momentum = beta1 x momentum + (1 - beta1) x step */
void flmem_adaptive_momentum(const struct flmem_combination *combination,
			     const struct flmem_adaptive *a, size_t count);

/* model += rate x momentum / (sqrt(variance) + tau); the result is the model. */
void flmem_adaptive_move(const struct flmem_combination *combination,
			 const struct flmem_adaptive *a, size_t count);

/* Completes the parameters. The rate of fedavgm is 1 by default. */
int flmem_adaptive_prepare(struct flmem_combination *combination, struct flmem_error *err);

#endif
