/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_SERIES_STEPS_H
#define FLMEM_SERIES_STEPS_H

/*
 * Telling one-off steps from a slope: a straight line with up to a few jumps is laid through the
 * points, and a jump stays only if it makes the fit so much better that it is worth its two
 * parameters. What climbs in many jumps is no set of one-off steps, so too many jumps of one
 * direction are none.
 */

#include <stddef.h>

#include "series/robust.h"

#define FLMEM_STEPS_MAX 3U

struct flmem_steps {
	size_t count;
	double height[FLMEM_STEPS_MAX];		     /* in the order of the points */
	unsigned char part[FLMEM_ROBUST_POINTS_MAX]; /* stretch of each point, from 0 */
	double evidence; /* log-likelihood ratio for the jumps, their price taken off */
};

/* `least` is the height below which a jump is not looked for. */
void flmem_steps_find(const double *x, const double *y, size_t count, double least,
		      struct flmem_steps *ret_steps);

#endif
