/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_TESTS_SERIES_H
#define FLMEM_TESTS_SERIES_H

/* Generated memory histories with a noise that is the same in every run. */

#include <stdint.h>

/* xorshift64* (Vigna 2016) */
static inline double noise_uniform(uint64_t *state)
{
	*state ^= *state >> 12;
	*state ^= *state << 25;
	*state ^= *state >> 27;
	return (double)((*state * UINT64_C(2685821657736338717)) >> 11) / 9007199254740992.0;
}

/* Approximately normal, mean 0 and deviation 1: the sum of twelve uniform numbers, less six. */
static inline double noise_normal(uint64_t *state)
{
	double sum = -6;

	for (int i = 0; i < 12; i++)
		sum += noise_uniform(state);
	return sum;
}

#endif
