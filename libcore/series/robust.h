/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_SERIES_ROBUST_H
#define FLMEM_SERIES_ROBUST_H

/*
 * Statistics that are robust against outliers. All are pure functions of their arguments and use
 * bounded memory; none allocates.
 */

#include <stdbool.h>
#include <stddef.h>

/* Largest number of points of one measurement. */
#define FLMEM_ROBUST_POINTS_MAX 64U

/* Returns the k-th smallest of n > k values, and reorders them. */
double flmem_robust_select(double *values, size_t n, size_t k);

/* Returns the median of n > 0 values, and reorders them. */
double flmem_robust_median(double *values, size_t n);

/*
 * Points of a curve that may have jumps: points with the same number in `segment` are on one
 * segment. At most FLMEM_ROBUST_POINTS_MAX, x ascending.
 */
struct flmem_curve {
	const double *x, *y;
	const unsigned char *segment;
	size_t count;
};

/*
 * Returns the slope by Theil (1950) and Sen (1968): the median of the slopes of all pairs of
 * points, here of pairs on one segment. 0 when there is no pair.
 */
double flmem_robust_slope(const struct flmem_curve *curve);

struct flmem_slope {
	double slope;
	double low, high; /* 95 % interval */
	double p_value;	  /* two-sided probability of such an order without any trend */
	/* Probability of such a growth in a random walk without a drift; one-sided. */
	double walk_p_value;
	bool may_wander; /* the points may be a random walk, for which p_value is too small */
};

/*
 * Computes the slope with its interval (Sen 1968, by the variance of Kendall's S) and the
 * significance of the trend (Mann 1945, Kendall 1970). The variance is widened for values that
 * follow their predecessors, as memory does: by (1 + r) / (1 - r) with the lag-1 autocorrelation r
 * of the residuals, as for an AR(1) process (Yue and Wang 2004).
 *
 * For a random walk that is too little, because its distance from a line does not return to 0.
 * There the mean change from point to point is compared with the deviation of the changes, widened
 * in the same way, as Harvey, Leybourne and Taylor (2007) do where a unit root is not excluded.
 */
void flmem_robust_trend(const struct flmem_curve *curve, struct flmem_slope *ret_slope);

#endif
