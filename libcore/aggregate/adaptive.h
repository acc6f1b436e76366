/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_AGGREGATE_ADAPTIVE_H
#define FLMEM_AGGREGATE_ADAPTIVE_H

/*
 * Shared by the algorithms that treat the mean of the inputs as a step from the server's model and
 * keep moments of these steps from round to round (Reddi et al., 2021, algorithm 2).
 */

#include "aggregate/algorithm.h"

/* The state of a row of elements. What an algorithm writes here is kept for the next round. */
struct flmem_adaptive {
	double *model, *momentum, *variance; /* `variance` is NULL where the algorithm keeps none */
	/* The difference from the model to the mean of the inputs. */
	double *step;
};

/* Computes the step, using `result` as its memory. In the first round the model is the base. */
struct flmem_adaptive flmem_adaptive_begin(const struct flmem_combination *combination,
					   double *const *rows, size_t count, double *result);

/* Updates the momentum: momentum = beta1 x momentum + (1 - beta1) x step. */
void flmem_adaptive_momentum(const struct flmem_combination *combination,
			     const struct flmem_adaptive *a, size_t count);

/* Moves the model: model += rate x momentum / (sqrt(variance) + tau). The result is the model. */
void flmem_adaptive_move(const struct flmem_combination *combination,
			 const struct flmem_adaptive *a, size_t count);

/*
 * Sets a rate or tau of 0 to its default, and checks all parameters: FLMEM_EUSAGE for an invalid
 * one. fedavgm sets its default rate of 1 first.
 */
int flmem_adaptive_prepare(struct flmem_combination *combination, struct flmem_error *err);

#endif
