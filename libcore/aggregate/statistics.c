/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregate/statistics.h"

#include <math.h>

static void add_sum(struct flmem_statistics *s, double x)
{
	/* Neumaier's variant of compensated summation. */
	double sum = s->sum + x;

	s->lost += fabs(s->sum) >= fabs(x) ? (s->sum - sum) + x : (x - sum) + s->sum;
	s->sum = sum;
}

static void add_element(struct flmem_statistics *s, double x)
{
	if (!s->finite++)
		s->min = s->max = x;
	s->min = x < s->min ? x : s->min;
	s->max = x > s->max ? x : s->max;
	add_sum(s, x);
}

/*
 * Squares the elements after division by a power of two near the largest, so that no square
 * overflows.
 */
static double row_norm(const double *row, size_t count, double largest)
{
	double sum = 0;
	int exponent;

	frexp(largest, &exponent);
	for (size_t i = 0; i < count; i++)
		if (isfinite(row[i])) {
			double x = ldexp(row[i], -exponent);

			sum += x * x;
		}
	return ldexp(sqrt(sum), exponent);
}

void flmem_statistics_add(struct flmem_statistics *s, const double *row, size_t count)
{
	double largest = 0;

	for (size_t i = 0; i < count; i++) {
		double x = row[i];

		if (isfinite(x)) {
			add_element(s, x);
			largest = fmax(largest, fabs(x));
		} else if (isnan(x)) {
			s->nans++;
		} else {
			s->infinities++;
		}
	}
	if (largest > 0)
		s->norm = hypot(s->norm, row_norm(row, count, largest));
}

double flmem_statistics_mean(const struct flmem_statistics *s)
{
	double mean = (s->sum + s->lost) / (double)s->finite;

	return s->finite && isfinite(mean) ? mean : (double)NAN;
}
