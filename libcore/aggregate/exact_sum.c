/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregate/exact_sum.h"

#include <math.h>
#include <stddef.h>

#define LIMB_BITS     32U
#define LIMB_MASK     UINT64_C(0xffffffff)
#define FRACTION_BITS 53
#define LOWEST	      1074 /* 2^-1074 is the smallest double above 0 */
#define ADDS_MAX      (UINT32_C(1) << 31)

static void carry_exact_sum(struct flmem_exact_sum *sum)
{
	for (size_t i = 0; i + 1 < FLMEM_EXACT_SUM_LIMBS; i++) {
		sum->limbs[i + 1] += sum->limbs[i] >> LIMB_BITS;
		sum->limbs[i] &= LIMB_MASK;
	}
	sum->adds = 0;
}

void flmem_exact_sum_add(struct flmem_exact_sum *sum, double x)
{
	__extension__ unsigned __int128 bits;
	unsigned place;
	int exponent;

	if (!isfinite(x)) {
		sum->infinite = true;
		return;
	}
	/*
	 * A double below 2^-1022 has zeros in its lowest bits, which are shifted out below, so that
	 * `place` is not negative.
	 */
	bits = (uint64_t)ldexp(frexp(x, &exponent), FRACTION_BITS);
	if (!bits)
		return;
	exponent += LOWEST - FRACTION_BITS;
	if (exponent < 0) {
		bits >>= -exponent;
		exponent = 0;
	}
	place = (unsigned)exponent / LIMB_BITS;
	bits <<= (unsigned)exponent % LIMB_BITS;
	sum->limbs[place] += (uint64_t)bits & LIMB_MASK;
	sum->limbs[place + 1] += (uint64_t)(bits >> LIMB_BITS) & LIMB_MASK;
	sum->limbs[place + 2] += (uint64_t)(bits >> 2 * LIMB_BITS);
	if (++sum->adds == ADDS_MAX)
		carry_exact_sum(sum);
}

void flmem_exact_sum_merge(struct flmem_exact_sum *sum, struct flmem_exact_sum *other)
{
	carry_exact_sum(sum);
	carry_exact_sum(other);
	for (size_t i = 0; i < FLMEM_EXACT_SUM_LIMBS; i++)
		sum->limbs[i] += other->limbs[i];
	sum->infinite |= other->infinite;
	carry_exact_sum(sum);
}

double flmem_exact_sum_value(struct flmem_exact_sum *sum)
{
	double value = sum->infinite ? (double)INFINITY : 0;

	carry_exact_sum(sum);
	for (size_t i = 0; i < FLMEM_EXACT_SUM_LIMBS; i++)
		value += ldexp((double)sum->limbs[i], (int)(i * LIMB_BITS) - LOWEST);
	return value;
}
