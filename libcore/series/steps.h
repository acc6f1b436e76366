/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_SERIES_STEPS_H
#define FLMEM_SERIES_STEPS_H

/*
 * Distinguishes one-off steps from a slope: fits a straight line with a few jumps to the points and
 * keeps a jump only if the improvement justifies its two parameters. Growth in many jumps is not a
 * set of one-off steps, so too many jumps in one direction are ignored.
 */

#include <stddef.h>

#include "series/robust.h"

#define FLMEM_STEPS_MAX 3U

struct flmem_steps {
	size_t count;
	double height[FLMEM_STEPS_MAX];			/* heights in the order of the points */
	unsigned char segment[FLMEM_ROBUST_POINTS_MAX]; /* number of each point's segment, from 0 */
	double evidence; /* log-likelihood ratio for the jumps, less their cost */
};

/* `min_height` is the minimum height of a jump. */
void flmem_steps_find(const double *x, const double *y, size_t count, double min_height,
		      struct flmem_steps *ret_steps);

#endif
