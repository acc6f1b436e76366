/* SPDX-License-Identifier: Apache-2.0 */
#include "report/html/page_trend.h"

#include <math.h>
#include <stdlib.h>

#define HOUR_US	    3.6e9
#define GROUPS	    48U
#define POINTS_MAX  FLMEM_PAGE_ROUNDS
#define LEAST_BYTES 1.0

struct trend_points {
	double x[POINTS_MAX], y[POINTS_MAX];
	size_t count;
};

static int compare_points(const void *a, const void *b)
{
	const double *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

static double median_point_of(const double *values, size_t count)
{
	double sorted[POINTS_MAX];

	for (size_t i = 0; i < count; i++)
		sorted[i] = values[i];
	qsort(sorted, count, sizeof(sorted[0]), compare_points);
	return count % 2 ? sorted[count / 2] : (sorted[count / 2 - 1] + sorted[count / 2]) / 2;
}

static void collect_rounds(const struct flmem_page_series *s, struct trend_points *ret_points)
{
	for (size_t i = 0; i < s->round_count; i++) {
		if (s->rounds[i].trough_bytes.unknown)
			continue;
		ret_points->x[ret_points->count] = (double)s->rounds[i].ended_us;
		ret_points->y[ret_points->count++] = (double)s->rounds[i].trough_bytes.value;
	}
}

/* Collects the minimum of each group of spans, for the trend without rounds. */
static void collect_spans(const struct flmem_page_series *s, struct trend_points *ret_points)
{
	size_t groups = s->span_count < GROUPS ? s->span_count : GROUPS;

	for (size_t i = 0; i < groups; i++) {
		size_t first = i * s->span_count / groups, end = (i + 1) * s->span_count / groups;
		const struct flmem_span *low = &s->spans[first];

		for (size_t k = first + 1; k < end; k++)
			if (s->spans[k].low_bytes < low->low_bytes)
				low = &s->spans[k];
		ret_points->x[i] = ((double)low->first_us + (double)low->last_us) / 2;
		ret_points->y[i] = (double)low->low_bytes;
	}
	ret_points->count = groups;
}

/* Converts growth per unit of the trend's basis (round or hour) to growth per us. */
static double bytes_per_us(const struct flmem_trend *t)
{
	if (t->basis == FLMEM_TREND_BY_HOUR)
		return 1 / HOUR_US;
	if (t->growth_per_hour_bytes.unknown || t->growth_per_round_bytes.unknown ||
	    fabs((double)t->growth_per_round_bytes.value) < LEAST_BYTES)
		return 0;
	return (double)t->growth_per_hour_bytes.value / (double)t->growth_per_round_bytes.value /
	       HOUR_US;
}

bool flmem_page_trend_fit(const struct flmem_page_subject *subject,
			  struct flmem_page_trend *ret_trend)
{
	const struct flmem_trend *t = &subject->result->trend;
	struct trend_points points = {.count = 0};
	struct flmem_page_trend trend;
	double unit = bytes_per_us(t);

	if (t->low_bytes.unknown || t->high_bytes.unknown || t->growth_per_hour_bytes.unknown ||
	    unit <= 0)
		return false;
	if (t->basis == FLMEM_TREND_BY_ROUND)
		collect_rounds(subject->series, &points);
	else
		collect_spans(subject->series, &points);
	if (!points.count)
		return false;
	trend.per_us = (double)t->growth_per_hour_bytes.value / HOUR_US;
	trend.low_per_us = (double)t->low_bytes.value * unit;
	trend.high_per_us = (double)t->high_bytes.value * unit;
	trend.mid_us = median_point_of(points.x, points.count);
	for (size_t i = 0; i < points.count; i++)
		points.y[i] -= trend.per_us * (points.x[i] - trend.mid_us);
	trend.mid_bytes = median_point_of(points.y, points.count);
	*ret_trend = trend;
	return true;
}
