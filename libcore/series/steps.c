/* SPDX-License-Identifier: Apache-2.0 */
#include "series/steps.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

/* A shorter stretch cannot be distinguished from a few outliers. */
#define SEGMENT_MIN 3U

/*
 * How much the information criterion must fall in addition to the cost of a jump's two parameters.
 */
#define MARGIN 4.0

/* A jump must be this many times the noise. */
#define NOISES_MIN 5.0

/* Limit of places that are tried for a jump, those with the largest differences. */
#define PLACES_MAX 8U

struct step_model {
	unsigned char segment[FLMEM_ROBUST_POINTS_MAX];
	double slope;
	double level[FLMEM_STEPS_MAX + 2]; /* level of each segment, at x = 0 */
	double cost;			   /* sum of the distances from the line */
	double noise;			   /* median deviation, which another jump hardly changes */
};

/* Fits a line with jumps between the segments. */
static void fit_line(const double *x, const double *y, size_t count, struct step_model *m)
{
	const struct flmem_curve curve = {.x = x, .y = y, .segment = m->segment, .count = count};
	double rest[FLMEM_ROBUST_POINTS_MAX];
	size_t used;

	m->slope = flmem_robust_slope(&curve);
	m->cost = 0;
	for (size_t first = 0, end; first < count; first = end) {
		for (end = first; end < count && m->segment[end] == m->segment[first]; end++)
			rest[end - first] = y[end] - m->slope * x[end];
		m->level[m->segment[first]] = flmem_robust_median(rest, end - first);
	}
	for (size_t i = 0; i < count; i++) {
		rest[i] = fabs(y[i] - m->slope * x[i] - m->level[m->segment[i]]);
		m->cost += rest[i];
	}
	/* The line has two parameters, and each jump two more. */
	used = 2U + 2U * m->segment[count - 1];
	m->noise = 1.4826 * flmem_robust_median(rest, count) * (double)count /
		   (double)(count > used ? count - used : 1);
}

static bool may_split(const unsigned char *segment, size_t count, size_t at)
{
	if (at < SEGMENT_MIN || at + SEGMENT_MIN > count)
		return false;
	return segment[at - SEGMENT_MIN] == segment[at + SEGMENT_MIN - 1];
}

static double middle_of_three(const double *y)
{
	return fmax(fmin(y[0], y[1]), fmin(fmax(y[0], y[1]), y[2]));
}

/*
 * Finds the places where the next three points differ most from the last three, after subtraction
 * of the slope.
 */
static size_t find_step_places(const double *x, const double *y, size_t count,
			       const struct step_model *m, size_t *ret_places)
{
	double size[PLACES_MAX];
	size_t found = 0;

	for (size_t at = 1; at < count; at++) {
		double rise;
		size_t k;

		if (!may_split(m->segment, count, at))
			continue;
		rise = fabs(middle_of_three(y + at) - middle_of_three(y + at - SEGMENT_MIN) -
			    m->slope * (x[at + 1] - x[at - 2]));
		for (k = found; k && size[k - 1] < rise; k--)
			if (k < PLACES_MAX) {
				size[k] = size[k - 1];
				ret_places[k] = ret_places[k - 1];
			}
		if (k == PLACES_MAX)
			continue;
		size[k] = rise;
		ret_places[k] = at;
		found += found < PLACES_MAX;
	}
	return found;
}

static double height_at(const struct step_model *m, size_t at)
{
	return m->level[m->segment[at]] - m->level[m->segment[at - 1]];
}

/* Returns twice the negative log-likelihood of Laplace-distributed distances, without constants. */
static double model_misfit(const struct step_model *m, size_t count, double min_height)
{
	double floor = min_height / 20 * (double)count;

	return 2 * (double)count * log(fmax(m->cost, floor) / (double)count);
}

/* Takes the best model with one more jump; false if no jump improves it enough. */
static bool add_jump(const double *x, const double *y, size_t count, double min_height,
		     struct step_model *m)
{
	double price = 2 * log((double)count) + MARGIN, now = model_misfit(m, count, min_height);
	size_t at[PLACES_MAX], n = find_step_places(x, y, count, m, at);
	struct step_model best = {.cost = INFINITY};
	size_t best_at = 0;

	for (size_t i = 0; i < n; i++) {
		struct step_model trial = *m;

		for (size_t k = at[i]; k < count; k++)
			trial.segment[k]++;
		fit_line(x, y, count, &trial);
		if (trial.cost < best.cost) {
			best = trial;
			best_at = at[i];
		}
	}
	if (!best_at || model_misfit(&best, count, min_height) + price >= now)
		return false;
	if (fabs(height_at(&best, best_at)) < fmax(min_height, NOISES_MIN * best.noise))
		return false;
	*m = best;
	return true;
}

static bool all_one_way(const struct flmem_steps *steps)
{
	for (size_t i = 1; i < steps->count; i++)
		if ((steps->height[i] > 0) != (steps->height[0] > 0))
			return false;
	return true;
}

void flmem_steps_find(const double *x, const double *y, size_t count, double min_height,
		      struct flmem_steps *ret_steps)
{
	struct step_model straight = {0}, m;
	size_t jumps = 0;

	fit_line(x, y, count, &straight);
	m = straight;
	while (jumps < FLMEM_STEPS_MAX && add_jump(x, y, count, min_height, &m))
		jumps++;
	*ret_steps = (struct flmem_steps){.count = jumps};
	ret_steps->evidence =
		(model_misfit(&straight, count, min_height) - model_misfit(&m, count, min_height)) /
			2 -
		(double)jumps * log((double)count);
	for (size_t i = 0; i < jumps; i++)
		ret_steps->height[i] = m.level[i + 1] - m.level[i];
	if (jumps == FLMEM_STEPS_MAX && all_one_way(ret_steps)) {
		*ret_steps = (struct flmem_steps){0};
		m = straight;
	}
	memcpy(ret_steps->segment, m.segment, count);
}
