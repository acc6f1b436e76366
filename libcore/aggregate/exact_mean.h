/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_AGGREGATE_EXACT_MEAN_H
#define FLMEM_AGGREGATE_EXACT_MEAN_H

/*
 * Checks a weighted mean of generated values without the code that computed it: values are summed
 * as integers, so without any rounding, divided once, and rounded to the type once.
 */

#include <stddef.h>
#include <stdint.h>

#include "aggregate/generator.h"
#include "aggregate/kernels.h"

/* Weights are integers. While their sum is at most this, every total is an exact double. */
#define FLMEM_EXACT_MEAN_WEIGHTS (INT64_C(1) << 20)

struct flmem_exact_mean {
	const struct flmem_generator *const *generators; /* one per input, of this tensor */
	const int64_t *weights;
	size_t inputs;
	enum flmem_element element; /* a floating-point type */
	/* Inputs from another source, compared bit by bit with the generated ones, or NULL. */
	const void *const *found;
	/*
	 * The input with the first wrong element; `inputs`: all inputs are right, but the mean is
	 * not.
	 */
	size_t wrong_input;
};

/*
 * Compares `count` elements from index `first` of a tensor with their exact means, and those of
 * `found` with the generated values that are averaged. Returns the number of elements before the
 * first wrong one. Zeros of either sign are equal as a mean.
 */
uint64_t flmem_exact_mean_compare(struct flmem_exact_mean *mean, uint64_t first, uint64_t count,
				  const void *values);

#endif
