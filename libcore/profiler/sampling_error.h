/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_PROFILER_SAMPLING_ERROR_H
#define FLMEM_PROFILER_SAMPLING_ERROR_H

/*
 * Estimates how far estimates may be from the true values: variances, never less than those of the
 * samples (docs/internals/heap-sampler.md).
 */

#include <flmem/heap_profile.h>

/*
 * Returns the variance of samples that stand for `count` blocks, in intervals squared; 0 if each
 * stands for itself.
 */
double flmem_sampling_variance_of_count(double samples, double count);

/* A sum over sites, in bytes, with its variance. */
struct flmem_heap_sampled_sum {
	double bytes, variance, twice;
};

void flmem_heap_sum_add(const struct flmem_heap_profile *profile,
			const struct flmem_heap_site *site, enum flmem_heap_measure measure,
			struct flmem_heap_sampled_sum *sum);

/* Returns the variance of the sum, in bytes squared. */
double flmem_heap_sum_variance(const struct flmem_heap_profile *profile,
			       const struct flmem_heap_sampled_sum *sum);

#endif
