/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_AGGREGATE_KRUM_SELECTION_H
#define FLMEM_AGGREGATE_KRUM_SELECTION_H

/* Krum's choice of inputs by their distances, shared by all algorithms that use it. */

#include "aggregate/algorithm.h"

/*
 * Checks or sets the number of hostile inputs. Where none is given, sets the largest number h with
 * `inputs` >= `times` x h + 3. FLMEM_EUSAGE if there are too few inputs.
 */
int flmem_krum_prepare(struct flmem_combination *combination, size_t times,
		       struct flmem_error *err);

/*
 * Returns the index of the input with the lowest score among those not `taken`, the first one of
 * several (Blanchard et al., 2017, section 4). `squares` has a row of squared distances per input.
 * `scratch` has room for a number per input.
 */
size_t flmem_krum_best(const struct flmem_combination *combination, const double *squares,
		       const double *taken, double *scratch);

/*
 * Reports whether one of the inputs has a finite score. Without one, flmem_krum_best() would return
 * the first.
 */
bool flmem_krum_is_possible(const struct flmem_combination *combination, const double *squares,
			    const double *taken, double *scratch);

/*
 * The score of `input`: the sum of its squared distances to its nearest neighbours among the inputs
 * that are not `taken`. Their number leaves out the hostile inputs and the input itself.
 */
double flmem_krum_score(const struct flmem_combination *combination, const double *squares,
			const double *taken, size_t input, double *scratch);

#endif
