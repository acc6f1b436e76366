/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_AGGREGATE_KRUM_SELECTION_H
#define FLMEM_AGGREGATE_KRUM_SELECTION_H

/* Krum's choice of inputs by their distances, for all algorithms that use it. */

#include "aggregate/algorithm.h"

/*
 * Completes the number of hostile inputs: the largest that `inputs` >= times x it + 3 allows, where
 * none is given. FLMEM_EUSAGE if there are too few inputs.
 */
int flmem_krum_prepare(struct flmem_combination *combination, size_t times,
		       struct flmem_error *err);

/*
 * The input of those not `taken` whose nearest others, without the hostile and itself, are nearest
 * (Blanchard et al., 2017, section 4); the first one of several. `scratch` has room for a number
 * per input. `squares` has a row of squared distances per input.
 */
size_t flmem_krum_best(const struct flmem_combination *combination, const double *squares,
		       const double *taken, double *scratch);

/* Whether one of the inputs has a finite score. Without one the first would be chosen. */
bool flmem_krum_is_possible(const struct flmem_combination *combination, const double *squares,
			    const double *taken, double *scratch);

/*
 * The sum of squared distances from one of the inputs that are not `taken` to its nearest others.
 */
double flmem_krum_score(const struct flmem_combination *combination, const double *squares,
			const double *taken, size_t input, double *scratch);

#endif
