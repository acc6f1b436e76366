/* SPDX-License-Identifier: Apache-2.0 */
#include "series/robust.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

#define PAIRS_MAX ((size_t)FLMEM_ROBUST_POINTS_MAX * (FLMEM_ROBUST_POINTS_MAX - 1) / 2)

#define Z_95		1.959963984540054 /* normal quantile of 0.975 */
#define CORRELATION_MAX 0.9
#define WILD		3.0 /* residuals are limited to this many median deviations */

/*
 * Autocorrelation of the residuals above which they may be a random walk around a line: that of a
 * walk of 48 points is above it in nine of ten cases (Fuller 1976, table 8.5.1).
 */
#define WANDERS 0.67

/*
 * Limits of the autocorrelation of changes: averages of a random walk have 1/4 (Working 1960), a
 * level with noise -1/2.
 */
#define CHANGES_MAX 0.25
#define CHANGES_MIN (-0.6)

static void swap_values(double *a, double *b)
{
	double kept = *a;

	*a = *b;
	*b = kept;
}

double flmem_robust_select(double *values, size_t n, size_t k)
{
	size_t left = 0, right = n - 1;

	while (left < right) {
		double pivot = values[left + (right - left) / 2];
		size_t i = left, j = right;

		for (;;) {
			while (values[i] < pivot)
				i++;
			while (values[j] > pivot)
				j--;
			if (i >= j)
				break;
			swap_values(&values[i++], &values[j--]);
		}
		/*
		 * values[left..j] <= pivot <= values[j + 1..right]; i == j leaves the pivot there.
		 */
		if (i == j)
			j = values[j] > pivot ? j - 1 : j;
		if (k <= j)
			right = j;
		else
			left = j + 1;
	}
	return values[k];
}

double flmem_robust_median(double *values, size_t n)
{
	double upper = flmem_robust_select(values, n, n / 2);

	if (n % 2)
		return upper;
	return (upper + flmem_robust_select(values, n, n / 2 - 1)) / 2;
}

/* Computes the slopes of all pairs on one segment; `ret_order` is Kendall's S. */
static size_t pair_slopes(const struct flmem_curve *c, double *slopes, double *ret_order)
{
	size_t pairs = 0;
	double order = 0;

	for (size_t i = 0; i < c->count; i++)
		for (size_t j = i + 1; j < c->count; j++) {
			double width = c->x[j] - c->x[i], rise = c->y[j] - c->y[i];

			if (c->segment[i] != c->segment[j] || width <= 0)
				continue;
			slopes[pairs++] = rise / width;
			order += (rise > 0) - (rise < 0);
		}
	*ret_order = order;
	return pairs;
}

double flmem_robust_slope(const struct flmem_curve *curve)
{
	double slopes[PAIRS_MAX], order;
	size_t pairs = pair_slopes(curve, slopes, &order);

	return pairs ? flmem_robust_median(slopes, pairs) : 0;
}

/* Computes the distance of each point from the line of its segment. */
static void fill_residuals(const struct flmem_curve *c, double slope, double *ret_residuals)
{
	double level[FLMEM_ROBUST_POINTS_MAX];

	for (size_t first = 0, end; first < c->count; first = end) {
		double middle;

		for (end = first; end < c->count && c->segment[end] == c->segment[first]; end++)
			level[end - first] = ret_residuals[end] = c->y[end] - slope * c->x[end];
		middle = flmem_robust_median(level, end - first);
		for (size_t i = first; i < end; i++)
			ret_residuals[i] -= middle;
	}
}

/* Properties of the residuals of the line. */
struct residuals {
	double deviation;
	double correlation; /* autocorrelation at lag 1; 0 when it is negative or unknown */
	bool may_wander;
};

static void measure_rest(const struct flmem_curve *c, double slope, struct residuals *ret_rest)
{
	double r[FLMEM_ROBUST_POINTS_MAX], size[FLMEM_ROBUST_POINTS_MAX];
	double n = (double)c->count, sum = 0, middle, squares = 0, products = 0, rho;

	fill_residuals(c, slope, r);
	for (size_t i = 0; i < c->count; i++) {
		size[i] = fabs(r[i]);
		sum += size[i];
	}
	middle = 1.4826 * flmem_robust_median(size, c->count);
	for (size_t i = 0; i < c->count; i++) {
		if (middle > 0)
			r[i] = fmin(WILD * middle, fmax(-WILD * middle, r[i]));
		squares += r[i] * r[i];
		if (i && c->segment[i] == c->segment[i - 1])
			products += r[i] * r[i - 1];
	}
	*ret_rest = (struct residuals){.deviation = fmax(middle, 1.2533 * sum / n)};
	if (squares <= 0)
		return;
	rho = products / squares;
	ret_rest->may_wander = rho > WANDERS;
	/* A fitted line makes short series look less correlated than they are (Kendall 1954). */
	rho += (1 + 4 * rho) / n;
	/*
	 * Subtract half of the estimate's standard deviation: with few points it is above 0 by
	 * chance.
	 */
	rho -= 0.5 / sqrt(n);
	ret_rest->correlation = fmin(CORRELATION_MAX, fmax(0, rho));
}

/*
 * Returns the variance of S without a trend, n (n - 1) (2n + 5) / 18 per segment; ties only make it
 * smaller.
 */
static double order_variance(const struct flmem_curve *c)
{
	double variance = 0;

	for (size_t first = 0, end; first < c->count; first = end) {
		double n;

		for (end = first; end < c->count && c->segment[end] == c->segment[first];)
			end++;
		n = (double)(end - first);
		variance += n * (n - 1) * (2 * n + 5) / 18;
	}
	return variance;
}

static size_t rank_within(double rank, size_t pairs)
{
	if (rank <= 0)
		return 0;
	return rank >= (double)(pairs - 1) ? pairs - 1 : (size_t)rank;
}

static double two_sided(double deviations)
{
	return erfc(fmax(0, deviations) / sqrt(2));
}

/* Returns the sum of the squared distances of x from the middle of its segment. */
static double curve_spread(const struct flmem_curve *c)
{
	double squares = 0;

	for (size_t first = 0, end; first < c->count; first = end) {
		double middle = 0;

		for (end = first; end < c->count && c->segment[end] == c->segment[first]; end++)
			middle += c->x[end];
		middle /= (double)(end - first);
		for (size_t i = first; i < end; i++)
			squares += (c->x[i] - middle) * (c->x[i] - middle);
	}
	return squares;
}

/*
 * Returns a second measure of significance. Ranks alone cannot show that growth is many times the
 * noise, which is significant even with few points. The measure is the z of a least-squares slope,
 * halved, because the noise is not normal and its size is uncertain.
 */
static double doubt_by_size(const struct flmem_curve *c, double slope, const struct residuals *rest)
{
	double effective = curve_spread(c) * (1 - rest->correlation) / (1 + rest->correlation);

	if (rest->deviation <= 0)
		return 1;
	return two_sided(fabs(slope) * sqrt(effective) / rest->deviation / 2);
}

/* Sums of the changes from one point of a segment to the next. */
struct changes {
	double count, sum;
	double squares, products; /* of the distances from their mean */
};

static struct changes sum_changes(const struct flmem_curve *c)
{
	struct changes all = {0};
	double before = 0;

	for (size_t i = 1; i < c->count; i++) {
		bool same = c->segment[i] == c->segment[i - 1];

		all.count += same;
		all.sum += same ? c->y[i] - c->y[i - 1] : 0;
	}
	for (size_t i = 1; i < c->count; i++) {
		double change = c->y[i] - c->y[i - 1] - all.sum / all.count;

		if (c->segment[i] != c->segment[i - 1])
			continue;
		all.squares += change * change;
		all.products += change * before;
		before = change;
	}
	return all;
}

/* Returns Student's t as a normal deviation (Abramowitz and Stegun 1964, 26.7.8). */
static double normal_of_t(double t, double freedom)
{
	return t * (1 - 1 / (4 * freedom)) / sqrt(1 + t * t / (2 * freedom));
}

static double doubt_by_changes(const struct flmem_curve *c)
{
	struct changes all = sum_changes(c);
	double r, variance;

	if (all.count < 3 || all.sum == 0)
		return 1;
	if (all.squares <= 0)
		return 0;
	r = fmin(CHANGES_MAX, fmax(CHANGES_MIN, all.products / all.squares));
	variance = all.squares / (all.count - 1) * (1 + r) / (1 - r);
	return two_sided(normal_of_t(fabs(all.sum) / sqrt(all.count * variance), all.count - 1)) /
	       2;
}

void flmem_robust_trend(const struct flmem_curve *curve, struct flmem_slope *ret_slope)
{
	double slopes[PAIRS_MAX], order, slope, deviation;
	size_t pairs = pair_slopes(curve, slopes, &order);
	struct residuals rest;

	*ret_slope = (struct flmem_slope){.p_value = 1, .walk_p_value = 1};
	if (!pairs)
		return;
	slope = flmem_robust_median(slopes, pairs);
	measure_rest(curve, slope, &rest);
	deviation = sqrt(order_variance(curve) * (1 + rest.correlation) / (1 - rest.correlation));
	ret_slope->slope = slope;
	ret_slope->low = flmem_robust_select(
		slopes, pairs, rank_within(floor(((double)pairs - Z_95 * deviation) / 2), pairs));
	ret_slope->high = flmem_robust_select(
		slopes, pairs, rank_within(ceil(((double)pairs + Z_95 * deviation) / 2), pairs));
	ret_slope->p_value =
		fmin(two_sided((fabs(order) - 1) / deviation), doubt_by_size(curve, slope, &rest));
	ret_slope->walk_p_value = doubt_by_changes(curve);
	ret_slope->may_wander = rest.may_wander;
}
