/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_AGGREGATE_STATISTICS_H
#define FLMEM_AGGREGATE_STATISTICS_H

/*
 * Computes the smallest, largest and mean element and the L2 norm of a tensor, row by row. With the
 * same rows the result has the same bits on every machine. Elements that are not finite are only
 * counted.
 */

#include <stddef.h>
#include <stdint.h>

struct flmem_statistics {
	double min, max;  /* valid if there is a finite element */
	double sum, lost; /* `lost` is what additions to `sum` have rounded off */
	/* Sum of the squares of the elements divided by 2^exponent, so that none overflows. */
	double squares;
	int exponent;
	uint64_t finite, nans, infinities;
};

/* Adds a row, from which it removes the elements that are not finite. */
void flmem_statistics_add(struct flmem_statistics *statistics, double *row, size_t count);

/* Adds the statistics of the elements that follow. */
void flmem_statistics_join(struct flmem_statistics *statistics,
			   const struct flmem_statistics *following);

/* Returns the mean; NaN without finite elements, and where the sum exceeds a double. */
double flmem_statistics_mean(const struct flmem_statistics *statistics);

double flmem_statistics_norm(const struct flmem_statistics *statistics);

#endif
