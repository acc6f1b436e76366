/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_AGGREGATE_EXACT_SUM_H
#define FLMEM_AGGREGATE_EXACT_SUM_H

/*
 * A sum of doubles without rounding, as one number of 2176 bits (Kulisch). It does not depend on
 * the order of the summands, which threads and chunks decide.
 */

#include <stdbool.h>
#include <stdint.h>

#define FLMEM_EXACT_SUM_LIMBS 68U

struct flmem_exact_sum {
	/* Each holds 32 bits of the sum and has room for carries. */
	uint64_t limbs[FLMEM_EXACT_SUM_LIMBS];
	uint32_t adds; /* additions since the carries were moved */
	bool infinite;
};

/* Adds `x`, which is not negative. A NaN or an infinity makes the sum infinite. */
void flmem_exact_sum_add(struct flmem_exact_sum *sum, double x);

/* Adds one sum to another. */
void flmem_exact_sum_merge(struct flmem_exact_sum *sum, struct flmem_exact_sum *other);

double flmem_exact_sum_value(struct flmem_exact_sum *sum);

#endif
