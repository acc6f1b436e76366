/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_SERIES_SAWTOOTH_H
#define FLMEM_SERIES_SAWTOOTH_H

/* Detects rises and falls of a series: the low points of a sawtooth. */

#include <stdbool.h>
#include <stddef.h>

#include "series/robust.h"

#define FLMEM_SAWTOOTH_MAX (FLMEM_ROBUST_POINTS_MAX / 2)

struct flmem_sawtooth {
	/* Index of the lowest point of each fall that a rise ended. */
	size_t at[FLMEM_SAWTOOTH_MAX];
	size_t count;
};

/* Returns the range of the values without the highest and the lowest tenth. */
double flmem_sawtooth_swing(const double *y, size_t count);

/*
 * Reports whether the values rise or fall in runs, as a sawtooth does and noise does not: by the
 * number of rises from one value to the next, whose variance in noise is (count + 1) / 12 (Moore
 * and Wallis 1943), or by their correlation.
 */
bool flmem_sawtooth_run(const double *y, size_t count);

/* State of the search for low points, value by value; falls and rises below `swing` are noise. */
struct flmem_tooth {
	double swing;
	double high, low;
	size_t low_at;
	bool begun, falling;
	size_t ended; /* index of the last low point */
};

/* Adds a value. Returns true if a rise has ended at it, so that `ended` is a low point. */
bool flmem_tooth_add(struct flmem_tooth *tooth, double value, size_t at);

void flmem_sawtooth_find(const double *y, size_t count, double swing,
			 struct flmem_sawtooth *ret_teeth);

/*
 * Reports whether there are four low points or more at the same distance, as of collections every
 * few rounds.
 */
bool flmem_sawtooth_is_regular(const struct flmem_sawtooth *teeth);

/*
 * Reports whether memory rose as high before, as fast, from no lower, and fell back: the present
 * rise may then be the next tooth of a sawtooth. A process that starts rises from lower, or faster
 * than it leaks.
 */
bool flmem_sawtooth_rose_before(const double *y, size_t late, size_t count);

/*
 * Reports whether growth that began at the point `late` exceeds the earlier values by a quarter of
 * itself. Growth within them may be a part of a longer rise and fall. Memory that the start of a
 * process took and gave back does not count, unless memory has been rising since.
 */
bool flmem_sawtooth_is_left(const double *y, size_t late, size_t count);

/*
 * Reports whether the last point or the last two are below `level`, after a quarter of the points
 * above it: memory that kept rising has fallen for the first time.
 */
bool flmem_sawtooth_has_just_fallen(const double *y, size_t count, double level);

/* Reports whether the last points rise, each above the one before it, by `least` together. */
bool flmem_sawtooth_ends_rising(const double *y, size_t count, double least);

#endif
