/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/sampling_error.h"

#include <math.h>

/*
 * Size and share at which size * share is largest; of several sizes only the mean is known, which
 * may hide it.
 */
#define STRATIFIED_PEAK_SIZE  0.76394
#define STRATIFIED_PEAK_SHARE 0.36068
#define POISSON_PEAK_SIZE     1.6
#define POISSON_PEAK_SHARE    0.67

/*
 * Returns the share for each byte of blocks of x intervals, in intervals: x / (e^x - 1), here with
 * the first terms of the series. For large x, the tangent of the curve is above every mixture. More
 * blocks than there are only raise the bound.
 */
static double share_of_poisson(double x)
{
	return x > POISSON_PEAK_SIZE ? POISSON_PEAK_SHARE / x
				     : 1 / (1 + x / 2 + x * x / 6 + x * x * x / 24);
}

/*
 * Returns the share for stratified samples: a block is least likely to be sampled if half of it
 * lies on either side of a border.
 */
static double share_of_stratified(double x)
{
	return x > STRATIFIED_PEAK_SIZE ? STRATIFIED_PEAK_SHARE / x
					: (1 - x / 2) * (1 - x / 2) / (1 - x / 4);
}

/*
 * A sample with chance p has the variance w^2 (1 - p), w = size / p, which is at most 4 (1 - p) /
 * (1 + sqrt(1 - p))^2: a curve that is concave in 1 / p, so the mean bounds the sum.
 */
double flmem_sampling_variance_of_count(double samples, double count)
{
	double unsure = count > samples && samples > 0 ? 1 - samples / count : 0;
	double root = 1 + sqrt(unsure);

	return samples * 4 * unsure / (root * root);
}

/* A part of all that was allocated; numbers are in intervals. */
struct sampled_part {
	double bytes, all_bytes;
	/* Number of threads, each of which has a last interval that it did not fill. */
	double threads;
	double twice; /* what the samples stand for beyond their number */
};

/*
 * Returns the variance of a part. In an interval of which the part has the share f, it is f (1 -
 * f), which is concave, too: the share of the whole bounds it. Blocks on borders are counted by
 * points that meet one block twice.
 */
static double variance_of_part(const struct sampled_part *part)
{
	double unfilled = fmin(part->bytes, part->threads);
	double filled = part->bytes - unfilled, all = part->all_bytes - unfilled;
	double others = all > filled && all > 0 ? 1 - filled / all : 0;

	return unfilled + filled * others + fmax(part->twice, 0);
}

/* Returns the measure that counts these allocations; the number at the peak is unknown. */
static enum flmem_heap_measure counted_measure(enum flmem_heap_measure measure)
{
	return measure == FLMEM_HEAP_PEAK ? FLMEM_HEAP_ALLOCATED : measure;
}

static bool has_all_survivors(const struct flmem_heap_profile *profile)
{
	return profile->stratified && !FLMEM_HEAP_LACKS(profile, SURVIVORS);
}

static double site_variance(const struct flmem_heap_profile *profile,
			    const struct flmem_heap_site *site, enum flmem_heap_measure measure)
{
	double interval = (double)profile->interval_now_bytes;
	double bytes = (double)site->amounts.bytes[measure];
	double count = (double)site->amounts.count[counted_measure(measure)];
	double x = count > 0 && interval > 0 ? bytes / count / interval : 0;

	if (!profile->stratified)
		return bytes * interval * share_of_poisson(x);
	if (measure == FLMEM_HEAP_LIVE && has_all_survivors(profile))
		return site->live_variance;
	return fmin(bytes * interval * share_of_stratified(x),
		    site->count_variance * interval * interval);
}

void flmem_heap_sum_add(const struct flmem_heap_profile *profile,
			const struct flmem_heap_site *site, enum flmem_heap_measure measure,
			struct flmem_heap_sampled_sum *sum)
{
	sum->bytes += (double)site->amounts.bytes[measure];
	sum->variance += site_variance(profile, site, measure);
	sum->twice += site->twice;
}

double flmem_heap_sum_variance(const struct flmem_heap_profile *profile,
			       const struct flmem_heap_sampled_sum *sum)
{
	double interval = (double)profile->interval_now_bytes, square = interval * interval;
	const struct sampled_part part = {
		.bytes = sum->bytes / interval,
		.all_bytes = (double)profile->whole_bytes / interval,
		.threads = (double)profile->threads,
		.twice = sum->twice,
	};
	double variance = sum->variance;

	if (!profile->stratified || !(variance > 0))
		return variance;
	if (profile->threads && profile->interval_now_bytes == profile->interval_bytes)
		variance = fmin(variance, variance_of_part(&part) * square);
	/* One sample more or less: with few, the estimate itself is uncertain. */
	return variance + square;
}
