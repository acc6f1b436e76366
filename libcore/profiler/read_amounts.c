/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>

#include "base/text/text.h"
#include "profiler/amounts.h"
#include "profiler/read_private.h"
#include "profiler/sampling_error.h"

#define SIZE_ACCURACY 1000

static uint64_t live_amount(uint64_t allocated, uint64_t freed)
{
	return allocated > freed ? allocated - freed : 0;
}

static uint64_t whole_count(uint64_t count)
{
	return count / FLMEM_PROFILE_COUNT_UNIT +
	       (count % FLMEM_PROFILE_COUNT_UNIT >= FLMEM_PROFILE_COUNT_UNIT / 2);
}

static void fill_amounts(const struct flmem_profile_header *h,
			 const struct flmem_profile_site *from, struct flmem_heap_amounts *to)
{
	const struct flmem_profile_totals *t = &from->totals;

	*to = (struct flmem_heap_amounts){0};
	to->bytes[FLMEM_HEAP_ALLOCATED] = t->allocated_bytes;
	to->bytes[FLMEM_HEAP_FREED] = t->freed_bytes;
	to->bytes[FLMEM_HEAP_LIVE] = live_amount(t->allocated_bytes, t->freed_bytes);
	to->bytes[FLMEM_HEAP_PEAK] = from->peak_epoch == h->peak_epoch ? from->live_at_peak_bytes
								       : to->bytes[FLMEM_HEAP_LIVE];
	to->count[FLMEM_HEAP_ALLOCATED] = whole_count(t->allocated_count);
	to->count[FLMEM_HEAP_FREED] = whole_count(t->freed_count);
	to->count[FLMEM_HEAP_LIVE] = whole_count(live_amount(t->allocated_count, t->freed_count));
}

/*
 * True if Python's own code calls the innermost native frame: mmap() by other code is not an arena.
 */
static bool is_called_by_python(const struct flmem_heap_profile *p, uint32_t node)
{
	const struct flmem_heap_frame *frame = node ? &p->frames[p->nodes[node].frame] : NULL;
	const char *name = frame && frame->module ? flmem_text_basename(frame->module) : "";

	return frame && (frame->python || flmem_text_starts(name, "python") ||
			 flmem_text_starts(name, "libpython"));
}

/* True for a site of arenas: weights and counts are rounded, sizes of mappings are whole pages. */
static bool is_arena_site(const struct flmem_heap_profile *p, const struct flmem_profile_site *from,
			  uint32_t node)
{
	const struct flmem_profile_totals *t = &from->totals;
	double bytes = (double)t->allocated_bytes;
	double expected =
		(double)t->allocated_count / FLMEM_PROFILE_COUNT_UNIT * (double)p->arena_size;

	return p->arena_size && from->kind == FLMEM_PROFILE_MAPPING &&
	       fabs(bytes - expected) < bytes / SIZE_ACCURACY && is_called_by_python(p, node);
}

/* Fills in sums over samples; those of several sites can be added. */
static void fill_sample_counts(const struct flmem_heap_profile *p,
			       const struct flmem_profile_totals *t, struct flmem_heap_site *site)
{
	double samples = (double)t->samples;
	double count = (double)t->allocated_count / FLMEM_PROFILE_COUNT_UNIT;

	site->count_variance = flmem_sampling_variance_of_count(samples, count);
	site->twice = fmax(0, (double)t->allocated_bytes / (double)p->interval_now_bytes - samples);
}

/* Adds a site. One whose stack is missing still counts, at the root. */
static bool add_site(void *context, uint32_t index, const void *record)
{
	struct flmem_profile_reader *reader = context;
	struct flmem_heap_profile *p = reader->profile;
	const struct flmem_profile_site *from = record;
	uint32_t nodes = flmem_profile_file_count(reader->file, FLMEM_PROFILE_SECTION_NODES);
	uint32_t node = from->node < nodes ? reader->node_map[from->node] : 0;
	struct flmem_heap_site *sites =
		flmem_profile_reader_grow(reader, p->sites, p->site_count, sizeof(*sites));

	if (!sites)
		return false;
	p->sites = sites;
	p->skipped += !node;
	p->sites[p->site_count] = (struct flmem_heap_site){
		.node = node ? node - 1 : 0,
		.arenas = is_arena_site(p, from, node ? node - 1 : 0),
		.oldest_us = FLMEM_UNKNOWN(FLMEM_HEAP_LACKS(p, SURVIVORS)
						   ? "the file was truncated before its live "
						     "allocations"
						   : "nothing of it is live"),
	};
	fill_sample_counts(p, &from->totals, &p->sites[p->site_count]);
	fill_amounts(&reader->file->header, from, &p->sites[p->site_count++].amounts);
	reader->site_map[index] = (uint32_t)p->site_count;
	return true;
}

static uint32_t site_of_record(const struct flmem_profile_reader *reader, uint32_t record)
{
	uint32_t sites = flmem_profile_file_count(reader->file, FLMEM_PROFILE_SECTION_SITES);

	return record < sites ? reader->site_map[record] : 0;
}

static bool add_change(void *context, uint32_t index, const void *record)
{
	struct flmem_profile_reader *reader = context;
	struct flmem_heap_profile *p = reader->profile;
	const struct flmem_profile_cell *from = record;
	uint32_t site = site_of_record(reader, from->site);
	uint32_t round = flmem_profile_reader_round(reader, from->round);
	struct flmem_heap_change *changes;

	(void)index;
	if (!site || round == FLMEM_HEAP_NO_ROUND) {
		p->skipped += !site || !FLMEM_HEAP_LACKS(p, ROUNDS);
		return true;
	}
	changes = flmem_profile_reader_grow(reader, p->changes, p->change_count, sizeof(*changes));
	if (!changes)
		return false;
	p->changes = changes;
	p->changes[p->change_count++] = (struct flmem_heap_change){
		.site = site - 1,
		.round = round,
		.allocated_bytes = from->allocated_bytes,
		.freed_bytes = from->freed_bytes,
		.allocated_count = whole_count(from->allocated_count),
		.freed_count = whole_count(from->freed_count),
	};
	return true;
}

/*
 * Returns the variance of one block. A block that was sampled with probability p stands for size /
 * p. The variance of a sum of these is estimated without bias by the sum of their squares times 1 -
 * p (Horvitz and Thompson).
 */
static double weight_variance(const struct flmem_profile_live *from)
{
	const double bytes = (double)from->weight_bytes;

	if (from->weight_count <= FLMEM_PROFILE_COUNT_UNIT)
		return 0;
	return bytes * bytes * (1 - (double)FLMEM_PROFILE_COUNT_UNIT / (double)from->weight_count);
}

static bool add_survivor(void *context, uint32_t index, const void *record)
{
	struct flmem_profile_reader *reader = context;
	struct flmem_heap_profile *p = reader->profile;
	const struct flmem_profile_live *from = record;
	uint32_t site = site_of_record(reader, from->site);
	struct flmem_heap_survivor *survivors;

	(void)index;
	if (!site) {
		p->skipped++;
		return true;
	}
	survivors = flmem_profile_reader_grow(reader, p->survivors, p->survivor_count,
					      sizeof(*survivors));
	if (!survivors)
		return false;
	p->survivors = survivors;
	p->survivors[p->survivor_count++] = (struct flmem_heap_survivor){
		.site = site - 1,
		.round = flmem_profile_reader_round(reader, from->round),
		.at_us = flmem_profile_reader_us(from->time_ms),
		.bytes = from->weight_bytes,
		.count = whole_count(from->weight_count),
		.variance = weight_variance(from),
	};
	return true;
}

static bool add_profile_point(void *context, uint32_t index, const void *record)
{
	struct flmem_profile_reader *reader = context;
	struct flmem_heap_profile *p = reader->profile;
	const struct flmem_profile_moment *from = record;
	struct flmem_heap_point *points =
		flmem_profile_reader_grow(reader, p->points, p->point_count, sizeof(*points));

	(void)index;
	if (!points)
		return false;
	p->points = points;
	p->points[p->point_count++] = (struct flmem_heap_point){
		.at_us = flmem_profile_reader_us(from->time_ms),
		.rss_bytes = from->rss_bytes ? FLMEM_KNOWN(from->rss_bytes)
					     : FLMEM_UNKNOWN("the sampler could not read it"),
		.round = from->round == FLMEM_PROFILE_ROUND_NONE
				 ? FLMEM_UNKNOWN("before the first round")
				 : FLMEM_KNOWN(from->round),
		.live_bytes = from->live_bytes,
	};
	return true;
}

static int compare_point_times(const void *a, const void *b)
{
	const struct flmem_heap_point *x = a, *y = b;

	return x->at_us < y->at_us ? -1 : x->at_us > y->at_us;
}

static bool read_section_list(struct flmem_profile_reader *reader,
			      enum flmem_profile_section_index section,
			      bool (*add)(void *context, uint32_t index, const void *record))
{
	reader->room = 0;
	return flmem_profile_file_visit(reader->file, section, add, reader);
}

bool flmem_profile_reader_amounts(struct flmem_profile_reader *reader)
{
	struct flmem_heap_profile *p = reader->profile;

	reader->site_map = flmem_profile_reader_map(reader, FLMEM_PROFILE_SECTION_SITES);
	if (!reader->site_map ||
	    !read_section_list(reader, FLMEM_PROFILE_SECTION_SITES, add_site) ||
	    !read_section_list(reader, FLMEM_PROFILE_SECTION_CELLS, add_change) ||
	    !read_section_list(reader, FLMEM_PROFILE_SECTION_LIVE, add_survivor) ||
	    !read_section_list(reader, FLMEM_PROFILE_SECTION_TIMELINE, add_profile_point))
		return false;
	if (p->point_count)
		qsort(p->points, p->point_count, sizeof(*p->points), compare_point_times);
	return true;
}
