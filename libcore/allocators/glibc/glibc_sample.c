/* SPDX-License-Identifier: Apache-2.0 */
#include "allocators/glibc/glibc_sample.h"

#include <math.h>
#include <stdlib.h>

#include "allocators/glibc/glibc_links.h"
#include "allocators/glibc/glibc_slice.h"
#include "base/clock.h"

#define MEASURED_MAX  ((uint64_t)8 << 30) /* above this, querying all pages takes too long */
#define SLICES_MAX    ((size_t)1 << 20)	  /* 1 TiB */
#define STRATA_MAX    48U
#define STRATUM_LEAST 4U   /* number of slices read of each stratum, or all if it has fewer */
#define QUANTILE      2.58 /* quantile of the normal distribution for confidence 99 % */
#define BORDER_BYTES  512  /* largest error of a slice at its ends */
#define UNSORTED_BIN  0U
#define LAST_BIN      125U /* bin 126, of chunks from 768 KiB on */
#define LIST_MAX      65536U

/* One slice of the population. */
struct sampled_slice {
	uint32_t stretch;
	uint32_t resident_pages;
	uint64_t from;
};

/* Sums over the slices read, for one figure (y) and the quantity it is proportional to (x). */
struct estimate {
	double y, x, yy, xy, xx;
};

enum {
	FREE,
	RESIDENT,
	FREE_RESIDENT,
	TRIMMABLE,
	CACHED,
	TCACHES,
	FIGURES
};

/* Neighbouring slices, which resemble each other more than the rest. */
struct stratum {
	size_t first, count; /* range of the stratum's members */
	size_t read;
	double length, resident;
	struct estimate estimates[FIGURES];
};

struct sample {
	const struct flmem_glibc_sampling *s;
	struct flmem_glibc_slicer *slicer;
	uint64_t page;
	struct sampled_slice *members;
	size_t count, room;
	struct flmem_glibc_sums known; /* sums of the parts that are not sampled */
	uint64_t known_resident;
	bool by_length;	 /* the resident bytes of the population are unknown */
	double resident; /* resident bytes of the population */
	struct stratum strata[STRATA_MAX];
	size_t strata_count;
	size_t read;
};

static uint64_t find_slice_end(const struct sample *sample, const struct sampled_slice *member)
{
	const uint64_t end = sample->s->stretches[member->stretch].end;
	const uint64_t to = (member->from & ~(FLMEM_GLIBC_SLICE_MAX - 1)) + FLMEM_GLIBC_SLICE_MAX;

	return to < end ? to : end;
}

/* Reports whether the whole slice is within one free chunk, the last that begins before it. */
static bool is_in_large_chunk(const struct sample *sample, uint64_t from, uint64_t to)
{
	const struct flmem_glibc_sampling *s = sample->s;
	size_t low = 0, high = s->large->count;
	uint64_t head;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (s->large->chunks[middle] + FLMEM_GLIBC_CHUNK_STRUCT <= from)
			low = middle + 1;
		else
			high = middle;
	}
	if (!low || flmem_peek_read(s->peek, s->large->chunks[low - 1] + 8, &head, sizeof(head)))
		return false;
	return to - s->large->chunks[low - 1] <= (head & ~(uint64_t)FLMEM_GLIBC_SIZE_BITS);
}

/*
 * Adds a slice to the population. A slice without a resident page lies within one chunk that is
 * free, since only free memory was released; it is counted here, not sampled.
 */
static void add_member(struct sample *sample, size_t stretch, uint64_t from)
{
	struct sampled_slice member = {.stretch = (uint32_t)stretch, .from = from};
	const uint64_t to = find_slice_end(sample, &member);
	uint64_t resident = to - from;

	if (!sample->by_length) {
		resident = flmem_peek_resident(sample->s->peek, from, to);
		sample->known_resident += resident;
	}
	if (!resident) {
		sample->known.free += to - from;
		return;
	}
	sample->resident += (double)resident;
	member.resident_pages = (uint32_t)((resident + sample->page - 1) / sample->page);
	if (sample->count < sample->room)
		sample->members[sample->count++] = member;
}

static uint64_t next_random(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

/* Shuffles the order in which slices are read; the same heap gives the same order. */
static void shuffle_members(struct sampled_slice *members, size_t count)
{
	uint64_t state = UINT64_C(0x9e3779b97f4a7c15);

	for (size_t i = count; i > 1; i--) {
		size_t other = (size_t)(next_random(&state) % i);
		struct sampled_slice swap = members[i - 1];

		members[i - 1] = members[other];
		members[other] = swap;
	}
}

static uint64_t count_top_resident(const struct flmem_glibc_sampling *s,
				   const struct flmem_glibc_stretch *stretch)
{
	return flmem_peek_resident(s->peek, stretch->end, flmem_glibc_stretch_finish(stretch)) +
	       flmem_peek_resident(s->peek, stretch->begin, stretch->start);
}

static bool collect_members(struct sample *sample)
{
	const struct flmem_glibc_sampling *s = sample->s;
	uint64_t length = 0;

	for (size_t i = 0; i < s->stretch_count; i++)
		length += s->stretches[i].end - s->stretches[i].begin;
	if (length / FLMEM_GLIBC_SLICE_MAX > SLICES_MAX)
		return false;
	sample->by_length = length > MEASURED_MAX;
	sample->room = (size_t)(length / FLMEM_GLIBC_SLICE_MAX) + 2 * s->stretch_count;
	sample->members = calloc(sample->room + 1, sizeof(*sample->members));
	if (!sample->members)
		return false;
	for (size_t i = 0; i < s->stretch_count; i++) {
		const struct flmem_glibc_stretch *stretch = &s->stretches[i];
		uint64_t from = stretch->start;

		flmem_glibc_walk_ends(s->walker, stretch, &sample->known);
		sample->known_resident += count_top_resident(s, stretch);
		while (from < stretch->end) {
			add_member(sample, i, from);
			from = (from & ~(FLMEM_GLIBC_SLICE_MAX - 1)) + FLMEM_GLIBC_SLICE_MAX;
		}
	}
	return true;
}

/* Strata of about equal size, in address order; slices within each in random order. */
static void make_strata(struct sample *sample)
{
	size_t first = 0;

	sample->strata_count = sample->count / (2 * STRATUM_LEAST) + 1;
	if (sample->strata_count > STRATA_MAX)
		sample->strata_count = STRATA_MAX;
	for (size_t i = 0; i < sample->strata_count; i++) {
		struct stratum *stratum = &sample->strata[i];

		stratum->first = first;
		first = sample->count * (i + 1) / sample->strata_count;
		stratum->count = first - stratum->first;
		for (size_t k = stratum->first; k < first; k++) {
			const struct sampled_slice *member = &sample->members[k];

			stratum->length += (double)(find_slice_end(sample, member) - member->from);
			stratum->resident += (double)(member->resident_pages * sample->page);
		}
		shuffle_members(sample->members + stratum->first, stratum->count);
	}
}

static void add_observation(struct estimate *estimate, double y, double x)
{
	estimate->y += y;
	estimate->x += x;
	estimate->yy += y * y;
	estimate->xy += x * y;
	estimate->xx += x * x;
}

static void read_member_slice(struct sample *sample, struct stratum *stratum)
{
	const struct sampled_slice *member = &sample->members[stratum->first + stratum->read];
	const uint64_t to = find_slice_end(sample, member);
	const double length = (double)(to - member->from);
	const double resident = (double)(member->resident_pages * sample->page);
	struct flmem_glibc_sums sums = {0};
	uint64_t really;

	flmem_peek_prepare(sample->s->peek, member->from, to);
	really = flmem_peek_resident(sample->s->peek, member->from, to);
	/*
	 * Else flmem_glibc_slice_read() decides: a slice without the start of a chunk is within a
	 * used one.
	 */
	if (is_in_large_chunk(sample, member->from, to))
		sums = (struct flmem_glibc_sums){
			.free = to - member->from,
			.free_resident = really,
			.trimmable = really,
		};
	else
		flmem_glibc_slice_read(sample->slicer, &sample->s->stretches[member->stretch],
				       member->from, to, &sums);
	add_observation(&stratum->estimates[RESIDENT], (double)really, length);
	add_observation(&stratum->estimates[FREE], (double)sums.free, length);
	add_observation(&stratum->estimates[FREE_RESIDENT], (double)sums.free_resident, resident);
	add_observation(&stratum->estimates[TRIMMABLE], (double)sums.trimmable, resident);
	add_observation(&stratum->estimates[CACHED], (double)sums.cached, resident);
	add_observation(&stratum->estimates[TCACHES], (double)sums.tcache_structs, resident);
	stratum->read++;
	sample->read++;
}

/* Reads one more slice of every stratum; false if none is left, or time is up. */
static bool read_round(struct sample *sample)
{
	size_t before = sample->read;

	for (size_t i = 0; i < sample->strata_count; i++) {
		struct stratum *stratum = &sample->strata[i];

		if (stratum->read >= STRATUM_LEAST && sample->s->deadline_ns &&
		    flmem_clock_ns() >= sample->s->deadline_ns)
			return false;
		if (stratum->read < stratum->count)
			read_member_slice(sample, stratum);
	}
	return sample->read > before;
}

/* Estimates one stratum; adds the variance from its unread slices. */
static double estimate_stratum(const struct stratum *stratum, unsigned figure, double *variance)
{
	const struct estimate *e = &stratum->estimates[figure];
	const double n = (double)stratum->read, all = (double)stratum->count;
	const double ratio = e->x > 0 ? e->y / e->x : 0;
	double spread = e->yy - 2 * ratio * e->xy + ratio * ratio * e->xx;

	if (stratum->read < stratum->count && spread > 0)
		*variance += all * (all - n) * spread / (n - 1) / n;
	return ratio * (figure <= RESIDENT ? stratum->length : stratum->resident);
}

/* Estimates the whole population; `ret_error` is half the length of the confidence interval. */
static double estimate_total(const struct sample *sample, unsigned figure, double *ret_error)
{
	double sum = 0, variance = 0;

	for (size_t i = 0; i < sample->strata_count; i++)
		sum += estimate_stratum(&sample->strata[i], figure, &variance);
	*ret_error = QUANTILE * sqrt(variance) + (double)sample->count * BORDER_BYTES;
	return sum;
}

static bool has_enough_slices(const struct sample *sample)
{
	for (size_t i = 0; i < sample->strata_count; i++)
		if (sample->strata[i].read < sample->strata[i].count &&
		    sample->strata[i].read < STRATUM_LEAST)
			return false;
	return true;
}

static bool is_precise(const struct sample *sample)
{
	const double precision = (double)sample->s->precision;
	double resident_error, trim_error;

	estimate_total(sample, FREE_RESIDENT, &resident_error);
	estimate_total(sample, TRIMMABLE, &trim_error);
	return resident_error * precision <= sample->resident &&
	       trim_error * precision <= sample->resident;
}

static void fill_estimate(const struct sample *sample, struct flmem_glibc_estimate *ret_estimate)
{
	struct flmem_glibc_sums *sums = &ret_estimate->sums;
	double figures[FIGURES], most = 0;

	for (unsigned i = 0; i < FIGURES; i++) {
		double error;

		figures[i] = estimate_total(sample, i, &error);
		if (error > most && (i != RESIDENT || sample->by_length))
			most = error;
	}
	*sums = sample->known;
	sums->free += (uint64_t)figures[FREE];
	sums->free_resident += (uint64_t)figures[FREE_RESIDENT];
	sums->trimmable += (uint64_t)figures[TRIMMABLE];
	sums->cached += (uint64_t)figures[CACHED];
	sums->tcache_structs += (uint64_t)figures[TCACHES];
	/* Each figure is a separate estimate, so they may contradict each other; correct that. */
	if (sums->trimmable > sums->free_resident)
		sums->trimmable = sums->free_resident;
	if (sums->free < sums->free_resident)
		sums->free = sums->free_resident;
	ret_estimate->resident = sample->known_resident;
	if (sample->by_length)
		ret_estimate->resident += (uint64_t)figures[RESIDENT];
	ret_estimate->error = (uint64_t)most;
}

static struct flmem_glibc_slicer *make_slicer(const struct flmem_glibc_sampling *s)
{
	const struct flmem_glibc_params *params = &s->glibc->params;
	struct flmem_glibc_slicer_options options = {
		.peek = s->peek,
		.layout = s->glibc->layout,
		.tcache_count = params->known ? params->tcache_count : 16,
		.fast_max = s->fast_max,
		.low = UINT64_MAX,
	};

	for (size_t i = 0; i < s->stretch_count; i++) {
		if (s->stretches[i].start < options.low)
			options.low = s->stretches[i].start;
		if (s->stretches[i].end > options.high)
			options.high = s->stretches[i].end;
	}
	return flmem_glibc_slicer_new(&options);
}

enum flmem_glibc_walked flmem_glibc_sample(const struct flmem_glibc_sampling *sampling,
					   struct flmem_glibc_estimate *ret_estimate)
{
	FLMEM_AUTO_GLIBC_SLICER struct flmem_glibc_slicer *slicer = make_slicer(sampling);
	FLMEM_AUTO_FREE struct sample *sample = calloc(1, sizeof(*sample));
	FLMEM_AUTO_FREE struct sampled_slice *members = NULL;
	bool collected;

	if (!sample || !slicer)
		return FLMEM_GLIBC_NO_MEMORY;
	sample->s = sampling;
	sample->slicer = slicer;
	sample->page = flmem_peek_page_bytes(sampling->peek);
	collected = collect_members(sample);
	members = sample->members;
	if (!collected)
		return FLMEM_GLIBC_NO_MEMORY;
	make_strata(sample);
	while (read_round(sample) && !(has_enough_slices(sample) && is_precise(sample)))
		;
	fill_estimate(sample, ret_estimate);
	return FLMEM_GLIBC_WALKED;
}

static void add_large_chunk(struct flmem_glibc_large *large, uint64_t chunk)
{
	size_t i = large->count;

	if (i == FLMEM_GLIBC_LARGE_MAX)
		return;
	for (; i && large->chunks[i - 1] > chunk; i--)
		large->chunks[i] = large->chunks[i - 1];
	large->chunks[i] = chunk;
	large->count++;
}

void flmem_glibc_large_find(struct flmem_peek *peek, const struct flmem_glibc *glibc,
			    uint64_t arena, struct flmem_glibc_large *large)
{
	static const unsigned bins[] = {UNSORTED_BIN, LAST_BIN};

	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(bins); i++) {
		const uint64_t self = flmem_glibc_bin_head(glibc->layout, arena, bins[i]);
		uint64_t words[2], chunk = self; /* size, fd; from the list's head only fd counts */

		for (unsigned steps = 0; steps < LIST_MAX; steps++) {
			if (flmem_peek_read(peek, chunk + 8, words, sizeof(words)))
				break;
			if (chunk != self && words[0] >= FLMEM_GLIBC_SLICE_MAX)
				add_large_chunk(large, chunk);
			chunk = words[1];
			if (chunk == self || chunk % FLMEM_GLIBC_ALIGNMENT)
				break;
		}
	}
}
