/* SPDX-License-Identifier: Apache-2.0 */
#include "series/sawtooth.h"

#include <math.h>

#define RISING_POINTS 5U    /* this many rising points in a row are not a level */
#define FALLEN_POINTS 2U    /* more of them are found as a step */
#define RUNS_SURE     2.326 /* standard deviations: 1 % of noise is taken for runs on either side */
#define REGULAR_MIN   4
/* Correlation of consecutive values from which they count as following each other. */
#define FOLLOWS	    0.7
#define NEAR_SHARE  0.1 /* share of a rise within which two heights are the same */
#define START_PARTS 10U /* the start of a process is the first of so many parts */
/* Limit of the ratio between the paces of a rise and the one before it. */
#define SAME_PACE 1.35

double flmem_sawtooth_swing(const double *y, size_t count)
{
	double sorted[FLMEM_ROBUST_POINTS_MAX];

	for (size_t i = 0; i < count; i++)
		sorted[i] = y[i];
	return flmem_robust_select(sorted, count, count - 1 - count / 10) -
	       flmem_robust_select(sorted, count, count / 10);
}

static double next_value_correlation(const double *y, size_t count)
{
	double mean = 0, all = 0, next = 0;

	for (size_t i = 0; i < count; i++)
		mean += y[i] / (double)count;
	for (size_t i = 0; i < count; i++) {
		all += (y[i] - mean) * (y[i] - mean);
		if (i)
			next += (y[i] - mean) * (y[i - 1] - mean);
	}
	return all > 0 ? next / all : 0;
}

bool flmem_sawtooth_run(const double *y, size_t count)
{
	double rises = 0, steps = (double)count - 1;

	for (size_t i = 1; i < count; i++)
		rises += y[i] > y[i - 1] ? 1 : y[i] < y[i - 1] ? 0 : 0.5;
	return fabs(rises - steps / 2) >= RUNS_SURE * sqrt((steps + 2) / 12) ||
	       next_value_correlation(y, count) >= FOLLOWS;
}

bool flmem_tooth_add(struct flmem_tooth *tooth, double value, size_t at)
{
	if (!tooth->begun || (!tooth->falling && value > tooth->high))
		tooth->high = value;
	tooth->begun = true;
	if (tooth->falling && value < tooth->low) {
		tooth->low = value;
		tooth->low_at = at;
	}
	if (!tooth->falling && value <= tooth->high - tooth->swing) {
		tooth->falling = true;
		tooth->low = value;
		tooth->low_at = at;
	} else if (tooth->falling && value >= tooth->low + tooth->swing) {
		tooth->falling = false;
		tooth->high = value;
		tooth->ended = tooth->low_at;
		return true;
	}
	return false;
}

void flmem_sawtooth_find(const double *y, size_t count, double swing,
			 struct flmem_sawtooth *ret_teeth)
{
	struct flmem_tooth tooth = {.swing = swing};

	ret_teeth->count = 0;
	for (size_t i = 0; i < count; i++)
		if (flmem_tooth_add(&tooth, y[i], i) && ret_teeth->count < FLMEM_SAWTOOTH_MAX)
			ret_teeth->at[ret_teeth->count++] = tooth.ended;
}

bool flmem_sawtooth_is_regular(const struct flmem_sawtooth *teeth)
{
	size_t distance = teeth->count < REGULAR_MIN ? 0 : teeth->at[1] - teeth->at[0];

	for (size_t i = 2; i < teeth->count && distance; i++)
		if (teeth->at[i] - teeth->at[i - 1] != distance)
			distance = 0;
	return distance;
}

/*
 * Finds where the rise to this point began: its lowest point since memory was higher than half of
 * the rise.
 */
static size_t find_trough(const double *y, size_t top)
{
	size_t trough = top;

	for (size_t i = top; i-- && y[i] <= y[trough] + fmax(0, y[top] - y[trough]) / 2;)
		if (y[i] < y[trough])
			trough = i;
	return trough;
}

static double pace_of(const double *y, size_t trough, size_t top)
{
	return top > trough ? (y[top] - y[trough]) / (double)(top - trough) : 0;
}

bool flmem_sawtooth_rose_before(const double *y, size_t late, size_t count)
{
	size_t top = late, trough, before = 0, began;
	double near;

	for (size_t i = late; i < count; i++)
		if (y[i] > y[top])
			top = i;
	trough = find_trough(y, top);
	near = (y[top] - y[trough]) * NEAR_SHARE;
	for (size_t i = 0; i < trough; i++)
		if (y[i] >= y[top] - near)
			before = i;
	began = find_trough(y, before);
	return y[began] >= y[trough] - near && y[before] - y[began] >= (y[top] - y[trough]) / 2 &&
	       pace_of(y, began, before) <= SAME_PACE * pace_of(y, trough, top);
}

bool flmem_sawtooth_is_left(const double *y, size_t late, size_t count)
{
	double before = 0, least = INFINITY, most = 0;
	size_t begin = late / START_PARTS + 1;

	for (size_t i = late; i < count; i++) {
		least = fmin(least, y[i]);
		most = fmax(most, y[i]);
	}
	if (begin < late && y[late] - y[begin] > (most - least) / 2)
		begin = 0;
	for (size_t i = begin; i < late; i++)
		before = fmax(before, y[i]);
	return most - before >= (most - least) / 4;
}

bool flmem_sawtooth_has_just_fallen(const double *y, size_t count, double level)
{
	size_t end = count;

	while (end > count - FALLEN_POINTS && y[end - 1] < level)
		end--;
	for (size_t i = end - count / 4; i < end; i++)
		if (y[i] < level)
			return false;
	return end < count;
}

bool flmem_sawtooth_ends_rising(const double *y, size_t count, double least)
{
	const double *end = y + count - 1;

	if (count < RISING_POINTS)
		return false;
	for (size_t i = 0; i + 1 < RISING_POINTS; i++)
		if (*(end - i) <= *(end - i - 1))
			return false;
	return *end - *(end - RISING_POINTS + 1) >= least;
}
