/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregate/statistics.h"

#include <math.h>

#include "aggregate/kernels.h"

/* 2^-EXPONENT_LOWEST is the largest power of two that is a double. */
#define EXPONENT_LOWEST (-1023)

static void add_sum(struct flmem_statistics *s, double x)
{
	/* Neumaier's variant of compensated summation. */
	double sum = s->sum + x;

	s->lost += fabs(s->sum) >= fabs(x) ? (s->sum - sum) + x : (x - sum) + s->sum;
	s->sum = sum;
}

static void add_value_range(struct flmem_statistics *s, double min, double max, uint64_t count)
{
	if (!s->finite) {
		s->min = min;
		s->max = max;
	}
	s->min = min < s->min ? min : s->min;
	s->max = max > s->max ? max : s->max;
	s->finite += count;
}

/* Divides the sum by another power of two, a larger one than before. */
static void raise_exponent(struct flmem_statistics *s, int exponent)
{
	if (s->squares > 0)
		s->squares = ldexp(s->squares, 2 * (s->exponent - exponent));
	s->exponent = exponent;
}

static void add_squares(struct flmem_statistics *s, const double *row, size_t count, double largest)
{
	int exponent;

	if (!(largest > 0))
		return;
	frexp(largest, &exponent);
	exponent = exponent > EXPONENT_LOWEST ? exponent : EXPONENT_LOWEST;
	if (!(s->squares > 0) || exponent > s->exponent)
		raise_exponent(s, exponent);
	s->squares += flmem_kernels_best()->squares(row, ldexp(1, -s->exponent), count);
}

/* Moves the finite elements to the front. Returns their number. */
static size_t keep_finite(struct flmem_statistics *s, double *row, size_t count)
{
	size_t kept = 0;

	if (flmem_kernels_best()->finite(row, count))
		return count;
	for (size_t i = 0; i < count; i++) {
		if (isfinite(row[i]))
			row[kept++] = row[i];
		else if (isnan(row[i]))
			s->nans++;
		else
			s->infinities++;
	}
	return kept;
}

void flmem_statistics_add(struct flmem_statistics *s, double *row, size_t count)
{
	struct flmem_lanes lanes;
	double largest = 0;

	count = keep_finite(s, row, count);
	if (!count)
		return;
	flmem_kernels_best()->survey(row, count, &lanes);
	for (size_t i = 0; i < FLMEM_LANES; i++) {
		add_value_range(s, lanes.min[i], lanes.max[i], i ? 0 : count);
		add_sum(s, lanes.sum[i]);
		s->lost += lanes.lost[i];
		largest = fmax(largest, fmax(fabs(lanes.min[i]), fabs(lanes.max[i])));
	}
	add_squares(s, row, count, largest);
}

void flmem_statistics_join(struct flmem_statistics *s, const struct flmem_statistics *following)
{
	struct flmem_statistics added = *following;

	if (added.finite)
		add_value_range(s, added.min, added.max, added.finite);
	add_sum(s, added.sum);
	s->lost += added.lost;
	s->nans += added.nans;
	s->infinities += added.infinities;
	if (!(added.squares > 0))
		return;
	if (!(s->squares > 0) || added.exponent > s->exponent)
		raise_exponent(s, added.exponent);
	s->squares += ldexp(added.squares, 2 * (added.exponent - s->exponent));
}

double flmem_statistics_mean(const struct flmem_statistics *s)
{
	double mean = (s->sum + s->lost) / (double)s->finite;

	return s->finite && isfinite(mean) ? mean : (double)NAN;
}

double flmem_statistics_norm(const struct flmem_statistics *s)
{
	return ldexp(sqrt(s->squares), s->exponent);
}
