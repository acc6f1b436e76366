/* SPDX-License-Identifier: Apache-2.0 */
#include <flmem/heap_profile.h>

#include <math.h>
#include <stdlib.h>

#include <flmem/text.h>

#include "base/cleanup.h"
#include "series/robust.h"

#define ROUNDS_MIN     5U /* complete rounds; with fewer, no order is significant */
#define CONFIDENCE_MIN 0.95
#define CONFIDENCE_MAX 0.999

/* Growth below this, over all rounds together, is not reported. */
#define MATERIAL_BYTES (128.0 * 1024)
#define MATERIAL_SHARE 0.01 /* share of the live bytes of the process */

/*
 * Without rounds, the time is divided into parts. What was allocated in the last quarter may still
 * be in use, so only older parts count; the confidence follows from the share of these parts that
 * left survivors.
 */
#define PARTS		  16U
#define PARTS_COUNTED	  12U
#define PARTS_MIN	  8U
#define AGES_CONFIDENCE	  0.9
#define AGES_DURATION_MIN 10000000U
#define STEP_SHARE_MIN	  0.25 /* share of the slope */
#define RSS_SHARE_MIN	  0.5  /* share of the growth of a stack */
/*
 * From ROUNDS_OF_PARTS rounds on, ROUND_PARTS_MIN of ROUND_PARTS parts of them must grow; what is
 * not kept in each round may be in one of each part.
 */
#define ROUNDS_OF_PARTS 12U
#define ROUND_PARTS	4U
#define ROUND_PARTS_MIN 3U
/* A cache counts as full after so many rounds without growth, if never half as many came before. */
#define FULL_ROUNDS_MIN 3U
#define HOUR_US		3.6e9

/* The history of one site, as places in the lists of the profile, which are sorted by site. */
struct site_history {
	const struct flmem_heap_profile *profile;
	uint32_t site;
	size_t change, change_end;
	size_t survivor, survivor_end;
	uint32_t rounds; /* number of complete rounds, from the first on */
	bool is_short;	 /* without the last round, a stack grew in the remaining ones */
};

static bool is_material(const struct flmem_heap_profile *p, double growth)
{
	double live = (double)p->totals.bytes[FLMEM_HEAP_LIVE];

	return growth >= MATERIAL_BYTES && growth >= live * MATERIAL_SHARE;
}

/*
 * True if a program that has ended has freed most of its memory. Without rounds only live memory
 * shows growth.
 */
static bool has_freed_all(const struct flmem_heap_profile *p)
{
	return p->ending == FLMEM_HEAP_ENDED &&
	       p->totals.bytes[FLMEM_HEAP_LIVE] < p->peak_bytes / 2;
}

/*
 * Returns how many rounds are complete. The first round is a warm-up, as is the time before it;
 * the last one may still run, or was cut by the end of a killed process. Rounds for whose sites the
 * file had no space are not in the history.
 */
static uint32_t complete_rounds(const struct flmem_heap_profile *p)
{
	uint32_t count = 0;

	while (count < p->round_count && p->rounds[count].has_sites)
		count++;
	if (count == p->round_count && count && p->ending != FLMEM_HEAP_ENDED)
		count--;
	return count;
}

/* Returns the index of the first round with a number. */
static uint32_t first_numbered(const struct flmem_heap_profile *p)
{
	return p->round_count && p->rounds[0].number.unknown ? 1 : 0;
}

/* Live bytes at the ends of rounds, at most FLMEM_ROBUST_POINTS_MAX of them. */
struct round_ends {
	double x[FLMEM_ROBUST_POINTS_MAX], y[FLMEM_ROBUST_POINTS_MAX];
	unsigned char segment[FLMEM_ROBUST_POINTS_MAX];
	size_t count;
};

static void fill_ends(const struct site_history *h, struct round_ends *ret_ends)
{
	const struct flmem_heap_profile *p = h->profile;
	uint32_t first = first_numbered(p), rounds = h->rounds - first;
	uint32_t step = (rounds + FLMEM_ROBUST_POINTS_MAX - 1) / FLMEM_ROBUST_POINTS_MAX;
	size_t change = h->change;
	double live = 0;

	*ret_ends = (struct round_ends){0};
	for (uint32_t round = first + (rounds - 1) % step; round < h->rounds; round += step) {
		for (; change < h->change_end && p->changes[change].round <= round; change++)
			live += (double)p->changes[change].allocated_bytes -
				(double)p->changes[change].freed_bytes;
		ret_ends->x[ret_ends->count] = (double)(round - first);
		ret_ends->y[ret_ends->count++] = live;
	}
}

/*
 * Counts the rounds, from the first numbered one on, in which something was allocated that is still
 * live.
 */
static uint32_t rounds_with_survivors(const struct site_history *h)
{
	const struct flmem_heap_profile *p = h->profile;
	uint32_t first = first_numbered(p), count = 0, last = FLMEM_HEAP_NO_ROUND;

	/* Survivors are sorted oldest first, so those of a round are together. */
	for (size_t i = h->survivor; i < h->survivor_end; i++) {
		uint32_t round = p->survivors[i].round;

		count += round != last && round >= first && round < h->rounds;
		last = round;
	}
	return count;
}

/* True if live bytes grow between two rounds by a good part of the slope. */
static bool grows_between(const struct round_ends *ends, double slope, size_t from, size_t to)
{
	return ends->y[to] - ends->y[from] >=
	       slope * (ends->x[to] - ends->x[from]) * STEP_SHARE_MIN;
}

/*
 * True if growth is neither a single jump nor that of a cache which is full by now: with many
 * rounds most parts grow, with few at least half of the steps, and always the end.
 */
static bool grows_mostly(const struct round_ends *ends, double slope)
{
	const bool many = ends->count >= ROUNDS_OF_PARTS;
	const size_t steps = ends->count - 1;
	const size_t parts = many ? ROUND_PARTS : steps;
	const size_t last = many ? steps * 3 / 4 : steps / 2;
	size_t up = 0;

	for (size_t i = 0; i < parts; i++)
		up += grows_between(ends, slope, i * steps / parts, (i + 1) * steps / parts);
	return up >= (many ? ROUND_PARTS_MIN : (steps + 1) / 2) &&
	       grows_between(ends, slope, last, steps);
}

/* True for a site that grew in nearly every round, and no longer does. */
static bool has_just_ended(const struct round_ends *ends, double slope)
{
	size_t still = 0, longest = 0;

	for (size_t i = 1; i < ends->count; i++) {
		if (!grows_between(ends, slope, i - 1, i)) {
			still++;
			continue;
		}
		longest = still > longest ? still : longest;
		still = 0;
	}
	return still >= FULL_ROUNDS_MIN && still > 2 * longest;
}

/* Returns the growth of RSS from its first point to the last one up to a time. */
static struct flmem_u64 rss_growth(const struct flmem_heap_profile *p, uint64_t to_us)
{
	struct flmem_u64 first = FLMEM_UNKNOWN("it was not recorded"), last = first;

	for (size_t i = 0; i < p->point_count && p->points[i].at_us <= to_us; i++) {
		if (p->points[i].rss_bytes.unknown)
			continue;
		last = p->points[i].rss_bytes;
		first = first.unknown ? last : first;
	}
	if (!first.unknown)
		first.value = last.value > first.value ? last.value - first.value : 0;
	return first;
}

static uint64_t end_of_history(const struct site_history *h, bool by_round)
{
	const struct flmem_heap_profile *p = h->profile;

	return by_round && h->rounds < p->round_count ? p->rounds[h->rounds].started_us
						      : p->duration_us;
}

/*
 * True if the blocks may replace older ones. If those are unknown, so is their release: a cache
 * that was full before looks as if it grew, until all of it is replaced.
 */
static bool may_be_replacing(const struct site_history *h, bool by_round, uint64_t grown)
{
	struct flmem_u64 rss;

	if (!h->profile->began_late)
		return false;
	rss = rss_growth(h->profile, end_of_history(h, by_round));
	return !rss.unknown && (double)rss.value < (double)grown * RSS_SHARE_MIN;
}

/* Leaves out the end of the program: memory that it frees when it exits does not end the growth. */
static void leave_out_teardown(const struct site_history *h, struct round_ends *ends)
{
	if (h->profile->ending == FLMEM_HEAP_ENDED && ends->count > 1 &&
	    ends->y[ends->count - 1] < ends->y[ends->count - 2] / 2)
		ends->count--;
}

/* True if there are too few rounds: no order of them is significant. */
static bool is_too_short(const struct site_history *h, const struct round_ends *ends)
{
	return ends->count < ROUNDS_MIN &&
	       is_material(h->profile, ends->y[ends->count - 1] - ends->y[0]);
}

static bool grows_by_round(struct site_history *h, struct flmem_heap_leak *ret_leak)
{
	uint32_t periods = h->rounds - first_numbered(h->profile);
	struct flmem_slope slope;
	struct round_ends ends;
	double confidence;

	fill_ends(h, &ends);
	leave_out_teardown(h, &ends);
	h->is_short |= is_too_short(h, &ends);
	flmem_robust_trend(
		&(struct flmem_curve){
			.x = ends.x, .y = ends.y, .segment = ends.segment, .count = ends.count},
		&slope);
	confidence = fmin(1 - slope.p_value, CONFIDENCE_MAX);
	if (slope.slope <= 0 || confidence < CONFIDENCE_MIN || !grows_mostly(&ends, slope.slope) ||
	    has_just_ended(&ends, slope.slope) || !is_material(h->profile, slope.slope * periods))
		return false;
	ret_leak->confidence = confidence;
	ret_leak->growth_bytes = slope.slope;
	ret_leak->low_bytes = slope.low;
	ret_leak->high_bytes = slope.high;
	ret_leak->grown_bytes = (uint64_t)fmax(0, ends.y[ends.count - 1]);
	ret_leak->periods = periods;
	ret_leak->survived_in = rounds_with_survivors(h);
	return true;
}

static bool grows_by_age(const struct site_history *h, struct flmem_heap_leak *ret_leak)
{
	const struct flmem_heap_profile *p = h->profile;
	double bytes = 0, part = (double)p->duration_us / PARTS;
	bool survived[PARTS_COUNTED] = {false};
	uint32_t parts = 0;

	for (size_t i = h->survivor; i < h->survivor_end; i++) {
		double at = (double)p->survivors[i].at_us / part;

		if (!(at < PARTS_COUNTED))
			continue;
		survived[(size_t)at] = true;
		bytes += (double)p->survivors[i].bytes;
	}
	for (size_t i = 1; i < PARTS_COUNTED; i++) /* the first is the start of the program */
		parts += survived[i];
	if (parts < PARTS_MIN || !is_material(p, bytes))
		return false;
	ret_leak->confidence = AGES_CONFIDENCE * parts / (PARTS_COUNTED - 1);
	ret_leak->growth_bytes = bytes / (part * PARTS_COUNTED) * HOUR_US;
	ret_leak->low_bytes = ret_leak->high_bytes = ret_leak->growth_bytes;
	ret_leak->grown_bytes = ret_leak->live_bytes;
	ret_leak->periods = PARTS_COUNTED;
	ret_leak->survived_in = parts + survived[0];
	return true;
}

static int compare_leaks(const void *a, const void *b)
{
	const struct flmem_heap_leak *x = a, *y = b;
	uint64_t one = flmem_u64_or(x->oldest_us, 0), other = flmem_u64_or(y->oldest_us, 0);

	if (x->unconfirmed != y->unconfirmed)
		return x->unconfirmed ? 1 : -1;
	if (one == other)
		return x->grown_bytes > y->grown_bytes ? -1 : x->grown_bytes < y->grown_bytes;
	return one > other ? -1 : 1;
}

/* Advances the history to the lists of the next site. */
static void take_site(struct site_history *h)
{
	const struct flmem_heap_profile *p = h->profile;

	h->change = h->change_end;
	while (h->change_end < p->change_count && p->changes[h->change_end].site == h->site)
		h->change_end++;
	h->survivor = h->survivor_end;
	while (h->survivor_end < p->survivor_count && p->survivors[h->survivor_end].site == h->site)
		h->survivor_end++;
}

static void find_growing(const struct flmem_heap_profile *p, struct flmem_heap_leaks *leaks)
{
	struct site_history h = {.profile = p, .rounds = complete_rounds(p)};

	for (h.site = 0; h.site < p->site_count; h.site++) {
		const struct flmem_heap_site *site = &p->sites[h.site];
		struct flmem_heap_leak leak = {
			.site = h.site,
			.live_bytes = site->amounts.bytes[FLMEM_HEAP_LIVE],
			.oldest_us = site->oldest_us,
		};

		take_site(&h);
		if (!(leaks->by_round ? grows_by_round(&h, &leak) : grows_by_age(&h, &leak)))
			continue;
		leak.unconfirmed = may_be_replacing(&h, leaks->by_round, leak.grown_bytes);
		leaks->rows[leaks->count++] = leak;
	}
	if (!leaks->count && h.is_short)
		leaks->too_few = "fewer than 5 complete rounds before the program freed its memory";
}

static int refuse_dump(const struct flmem_heap_profile *profile, struct flmem_error *err)
{
	char shown[256];

	return flmem_error_set(err, FLMEM_EUSAGE, 0,
			       "'%s' is a dump of jemalloc: a snapshot without rounds or ages; "
			       "compare two dumps with flmem profile diff --by live",
			       flmem_text_escape(profile->path, shown, sizeof(shown)));
}

static uint32_t count_periods(const struct flmem_heap_profile *p, bool by_round)
{
	uint32_t rounds = complete_rounds(p), first = first_numbered(p);

	if (!by_round)
		return PARTS_COUNTED;
	return rounds > first ? rounds - first : 0;
}

static uint32_t count_passed_rounds(const struct flmem_heap_profile *p)
{
	uint32_t first = first_numbered(p), rounds = complete_rounds(p);
	uint64_t low = UINT64_MAX, high = 0;

	for (uint32_t i = first; i < rounds; i++) {
		uint64_t number = p->rounds[i].number.value;

		low = number < low ? number : low;
		high = number > high ? number : high;
	}
	return rounds > first ? (uint32_t)(high - low + 1) : 0;
}

const char *flmem_heap_leaks_too_few(const struct flmem_heap_profile *profile)
{
	bool by_round = profile->round_count > first_numbered(profile);

	if (profile->ending == FLMEM_HEAP_DUMPED)
		return "a dump is a snapshot";
	if (profile->has_zeros)
		return "the file has zeros in place of records, as after a power failure";
	if (profile->cut)
		return "the file is truncated; copy it again, with all its bytes";
	if (!profile->site_count)
		return "no samples: too little was allocated for the interval, or by other "
		       "processes that this one started";
	if (by_round && profile->restarted_rounds)
		return "the round numbers restarted, as with a second job in the process: rounds "
		       "with the same number are added together";
	if (by_round)
		return count_periods(profile, by_round) < ROUNDS_MIN
			       ? "fewer than 5 complete rounds"
			       : NULL;
	if (profile->duration_us < AGES_DURATION_MIN)
		return "less than 10 s and no rounds; sample longer, or announce rounds with flmem "
		       "profile round";
	if (has_freed_all(profile))
		return "the program has ended and freed its memory, and the file has no rounds: "
		       "read it while the program runs";
	return NULL;
}

int flmem_heap_leaks_find(const struct flmem_heap_profile *profile,
			  struct flmem_heap_leaks *ret_leaks, struct flmem_error *err)
{
	struct flmem_heap_leaks leaks = {
		.by_round = profile->round_count > first_numbered(profile),
		.too_few = flmem_heap_leaks_too_few(profile),
	};

	if (profile->ending == FLMEM_HEAP_DUMPED)
		return refuse_dump(profile, err);
	leaks.rows = calloc(profile->site_count + 1, sizeof(*leaks.rows));
	if (!leaks.rows)
		return flmem_error_nomem(err, "cannot list the leaks of '%s'", profile->path);
	leaks.periods = count_periods(profile, leaks.by_round);
	leaks.round_span = count_passed_rounds(profile);
	if (!leaks.too_few)
		find_growing(profile, &leaks);
	if (leaks.count)
		qsort(leaks.rows, leaks.count, sizeof(*leaks.rows), compare_leaks);
	*ret_leaks = leaks;
	return 0;
}

void flmem_heap_leaks_clear(struct flmem_heap_leaks *leaks)
{
	free(leaks->rows);
	*leaks = (struct flmem_heap_leaks){0};
}
