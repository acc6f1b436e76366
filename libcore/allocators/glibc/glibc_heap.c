/* SPDX-License-Identifier: Apache-2.0 */
#include "allocators/glibc/glibc_heap.h"

#include <stdlib.h>

#include "allocators/glibc/glibc_links.h"
#include "allocators/glibc/glibc_lists.h"
#include "allocators/glibc/glibc_mmapped.h"
#include "allocators/glibc/glibc_sample.h"
#include "allocators/glibc/glibc_stretches.h"
#include "allocators/glibc/glibc_walk.h"
#include "allocators/heap_figures.h"
#include "base/clock.h"

#define ATTEMPTS	  3
#define ATTEMPTS_CHANGING 8    /* number of attempts while each of them finds the arena changing */
#define RETRY_US	  5000 /* pause before the second attempt, then six times as long */
#define MIGRATION_US	  1000
#define LOCK_WAITS	  20
#define LOCK_WAIT_US	  100
#define DEFAULT_MMAP	  ((uint64_t)128 << 10) /* DEFAULT_MMAP_THRESHOLD_MIN */
#define DEFAULT_TCACHE	  16U			/* number of bins in the release with the most */
#define SAYS_NOTHING	  4   /* the error may be 1/PRECISION of the resident bytes */
#define NEGLIGIBLE	  128 /* smaller parts are not worth a long search */
#define LENGTH_PER_WALKED 4   /* longer heaps are walked only if mostly not resident */
/* Bytes that may be allocated or freed during a reading. */
#define MOVING_BYTES ((uint64_t)64 << 10)

static const char unused[] = "glibc's malloc has not been used by this process";
static const char no_params[] = "malloc's parameters were not found in the memory of the process";
static const char lost[] =
	"its chunks do not follow each other as glibc's do: the heap is damaged, "
	"or changes faster than it can be read";
static const char changing[] =
	"the program allocates or frees memory faster than it can be read; read it again when the "
	"program allocates less";
static const char glibc_heap_elsewhere[] =
	"part of its memory is in mappings that flmem does not search, "
	"as with glibc.malloc.hugetlb=2";
static const char swapped_out[] = "part of it is swapped out, and reading it would swap it in";
static const char no_time[] =
	"the time budget was too short to read it all; allow more with --budget";
static const char glibc_heap_no_memory[] = "flmem is out of memory";
static const char uncounted[] = "glibc counts the threads of an arena from 2.23 on";
static const char only_sampled[] = "the heap was too large to read arena by arena; it was sampled";

/* State of reading all heaps. */
struct heap_reading {
	const struct flmem_glibc_space *space;
	const struct flmem_glibc *glibc;
	struct flmem_glibc_walker *walker;
	uint64_t deadline_ns, walked_max, precision;
	struct flmem_glibc_sums sums;
	uint64_t resident, metadata, error;
	struct flmem_arena_list arenas;
	const char *method;	 /* static: "walked" or "sampled" */
	const char *skipped_why; /* static: why an arena could not be read, or NULL */
	const char *why;	 /* static: why all figures are unknown, or NULL */
};

/* The result of one attempt to read an arena. */
struct heap_attempt {
	struct flmem_glibc_sums sums;
	uint64_t resident, metadata;
	uint64_t unseen; /* bytes that the arena took from the system but that were not found */
	uint64_t threads;
	enum flmem_glibc_walked walked;
	bool changed; /* the arena changed while it was read */
	bool rested;  /* the arena did not change, and no thread was about to change it */
};

static const char *explain_walked(enum flmem_glibc_walked walked)
{
	switch (walked) {
	case FLMEM_GLIBC_WALKED:
		return NULL;
	case FLMEM_GLIBC_LOST:
		return lost;
	case FLMEM_GLIBC_SWAPPED:
		return swapped_out;
	case FLMEM_GLIBC_OUT_OF_TIME:
		return no_time;
	case FLMEM_GLIBC_NO_MEMORY:
		break;
	}
	return glibc_heap_no_memory;
}

static uint64_t absolute_difference(uint64_t a, uint64_t b)
{
	return a > b ? a - b : b - a;
}

/*
 * Reads the lists alone. This works if each thread of the arena has its tcache where a thread's
 * first request puts it; a tcache elsewhere is found only by walking.
 */
static bool read_lists(const struct heap_reading *reading, const struct flmem_glibc_arena *arena,
		       const struct flmem_glibc_stretches *list,
		       const struct flmem_glibc_fast *fast, struct flmem_glibc_sums *sums)
{
	FLMEM_AUTO_GLIBC_RUNS struct flmem_glibc_runs runs = {0};
	const struct flmem_glibc *glibc = reading->glibc;
	struct flmem_glibc_sums own = {0};

	if (!flmem_glibc_lists_read(reading->space, glibc, arena, list, fast, &runs))
		return false;
	for (size_t i = 0; i < list->count; i++)
		flmem_glibc_walk_runs(reading->walker, &list->rows[i], &runs, &own);
	if (glibc->layout->tcache.chunk_bytes &&
	    (!arena->threads ||
	     own.tcache_structs != arena->threads * glibc->layout->tcache.chunk_bytes))
		return false;
	flmem_glibc_sums_add(sums, &own);
	return true;
}

static void read_chunks(struct heap_reading *reading, size_t index,
			const struct flmem_glibc_arena *arena, struct heap_attempt *attempt)
{
	FLMEM_AUTO_GLIBC_FAST struct flmem_glibc_fast fast = {0};
	FLMEM_AUTO_GLIBC_STRETCHES struct flmem_glibc_stretches list = {0};

	uint64_t length = 0;
	bool listed = false;

	*attempt = (struct heap_attempt){.threads = arena->threads};
	attempt->walked =
		flmem_glibc_stretches_find(reading->space, reading->glibc, index, arena, &list);
	if (attempt->walked == FLMEM_GLIBC_WALKED)
		attempt->walked =
			flmem_glibc_fast_collect(reading->walker, arena->fastbins,
						 arena->system_mem / FLMEM_GLIBC_MIN_CHUNK, &fast);
	if (attempt->walked == FLMEM_GLIBC_WALKED)
		listed = read_lists(reading, arena, &list, &fast, &attempt->sums);
	for (size_t i = 0; i < list.count; i++) {
		const struct flmem_glibc_stretch *stretch = &list.rows[i];

		length += flmem_glibc_stretch_finish(stretch) - stretch->begin;
		/* Memory that cannot be walked still counts as resident. */
		attempt->resident += flmem_peek_resident(reading->space->peek, stretch->begin,
							 flmem_glibc_stretch_finish(stretch));
		attempt->metadata +=
			flmem_peek_resident(reading->space->peek, stretch->begin, stretch->start);
		if (attempt->walked == FLMEM_GLIBC_WALKED && !listed)
			attempt->walked =
				flmem_glibc_walk(reading->walker, stretch, &fast, &attempt->sums);
	}
	attempt->unseen = absolute_difference(length, arena->system_mem);
}

/* Waits briefly for a thread that is changing the arena. */
static bool read_arena(struct heap_reading *reading, size_t index,
		       struct flmem_glibc_arena *ret_arena)
{
	for (unsigned i = 0;; i++) {
		if (!flmem_glibc_arena_read(reading->space, reading->glibc, index, ret_arena))
			return false;
		if (!ret_arena->locked || i == LOCK_WAITS)
			return true;
		flmem_clock_sleep_us(LOCK_WAIT_US);
	}
}

/* The difference of two readings of a changing heap, plus a margin for what neither saw. */
static uint64_t estimate_error(const struct heap_attempt *a, const struct heap_attempt *b)
{
	const uint64_t apart[] = {
		absolute_difference(a->sums.free, b->sums.free),
		absolute_difference(a->sums.free_resident, b->sums.free_resident),
		absolute_difference(a->sums.trimmable, b->sums.trimmable),
		absolute_difference(a->sums.cached, b->sums.cached),
		absolute_difference(a->resident, b->resident),
	};
	uint64_t most = 0;

	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(apart); i++)
		if (apart[i] > most)
			most = apart[i];
	return 2 * most + MOVING_BYTES;
}

/* For an arena that could not be read, nothing is known to be trimmable. */
static void list_arena(struct heap_reading *reading, size_t index,
		       const struct heap_attempt *attempt)
{
	const struct flmem_glibc *glibc = reading->glibc;
	const struct flmem_arena_report arena = {
		.number = index,
		.threads = flmem_glibc_counts_threads(glibc) ? FLMEM_KNOWN(attempt->threads)
							     : FLMEM_UNKNOWN(uncounted),
		.resident_bytes = attempt->resident,
		.trimmable_bytes = attempt->sums.trimmable,
	};

	flmem_heap_add_arena(&reading->arenas, &arena);
}

static void accept_attempt(struct heap_reading *reading, size_t index,
			   const struct heap_attempt *attempt, uint64_t error)
{
	reading->sums.free += attempt->sums.free;
	reading->sums.free_resident += attempt->sums.free_resident;
	reading->sums.trimmable += attempt->sums.trimmable;
	reading->sums.cached += attempt->sums.cached;
	reading->sums.tcache_structs += attempt->sums.tcache_structs;
	reading->sums.chunks += attempt->sums.chunks;
	reading->resident += attempt->resident;
	reading->metadata += attempt->metadata;
	reading->error += error + attempt->unseen;
	if (attempt->unseen)
		reading->skipped_why = glibc_heap_elsewhere;
	list_arena(reading, index, attempt);
}

/*
 * An arena that cannot be read, because it is damaged or always changing, counts as in use with its
 * resident bytes, which are also added to the error.
 */
static void skip_arena(struct heap_reading *reading, size_t index,
		       const struct heap_attempt *attempt, bool rested)
{
	const char *why = explain_walked(attempt->walked);
	const struct heap_attempt unread = {
		.resident = attempt->resident,
		.threads = attempt->threads,
	};

	accept_attempt(reading, index, &unread, attempt->resident + MOVING_BYTES);
	/* Only a mismatch in an arena that did not change counts as damage. */
	reading->skipped_why = !why || (why == lost && !rested) ? changing : why;
	if (attempt->walked == FLMEM_GLIBC_NO_MEMORY)
		reading->why = glibc_heap_no_memory;
}

/*
 * Waits for the end of a change. A single-threaded process takes no lock, and its
 * malloc_consolidate over all freed chunks takes milliseconds, more on a busy machine.
 */
static void wait_for_change(const struct heap_reading *reading, unsigned attempt)
{
	const uint64_t us = attempt == 1 ? RETRY_US : 6 * RETRY_US;

	if (!reading->deadline_ns || flmem_clock_ns() + 1000 * us < reading->deadline_ns)
		flmem_clock_sleep_us(us);
}

/* Pauses before another attempt, as long as the reason for the failure requires. */
static void pause_reading(const struct heap_reading *reading, unsigned number,
			  const struct heap_attempt *attempt)
{
	if (attempt->walked == FLMEM_GLIBC_LOST)
		wait_for_change(reading, number);
	/* While the kernel migrates a page, it looks swapped out. */
	if (attempt->walked == FLMEM_GLIBC_SWAPPED)
		flmem_clock_sleep_us(MIGRATION_US);
	flmem_peek_forget(reading->space->peek);
}

/* Reads an arena once; false if the arena itself could not be read. */
static bool attempt_arena(struct heap_reading *reading, size_t index, struct heap_attempt *attempt)
{
	struct flmem_glibc_arena before, after;

	if (!read_arena(reading, index, &before))
		return false;
	read_chunks(reading, index, &before, attempt);
	if (!flmem_glibc_arena_read(reading->space, reading->glibc, index, &after))
		return false;
	attempt->changed = after.state != before.state;
	attempt->rested = !attempt->changed && !before.locked && !after.locked;
	return true;
}

static void read_one_arena(struct heap_reading *reading, size_t index)
{
	struct heap_attempt attempt = {.walked = FLMEM_GLIBC_LOST}, last = {0};
	bool has_last = false, rested = true;

	for (unsigned i = 0; i < (rested ? ATTEMPTS : ATTEMPTS_CHANGING); i++) {
		if (i)
			pause_reading(reading, i, &attempt);
		if (!attempt_arena(reading, index, &attempt))
			continue;
		if (attempt.walked == FLMEM_GLIBC_OUT_OF_TIME)
			break;
		if (attempt.walked != FLMEM_GLIBC_WALKED) {
			rested = rested && attempt.rested;
			continue;
		}
		if (!attempt.changed) {
			accept_attempt(reading, index, &attempt, 0);
			return;
		}
		if (has_last && i >= ATTEMPTS - 1) {
			accept_attempt(reading, index, &attempt, estimate_error(&attempt, &last));
			return;
		}
		last = attempt;
		has_last = true;
	}
	skip_arena(reading, index, &attempt, rested);
}

static void fill_params(const struct flmem_glibc_params *params, struct flmem_heap_report *heap)
{
	if (!params->known) {
		heap->trim_threshold_bytes = FLMEM_UNKNOWN(no_params);
		heap->mmap_threshold_bytes = FLMEM_UNKNOWN(no_params);
		heap->arena_max = FLMEM_UNKNOWN(no_params);
		heap->threshold_raised = FLMEM_UNKNOWN(no_params);
		return;
	}
	heap->trim_threshold_bytes = FLMEM_KNOWN(params->trim_threshold);
	heap->mmap_threshold_bytes = FLMEM_KNOWN(params->mmap_threshold);
	heap->arena_max = FLMEM_KNOWN(params->arena_max);
	heap->threshold_raised =
		FLMEM_KNOWN(!params->fixed && params->mmap_threshold > DEFAULT_MMAP);
}

static void fill_unused(struct flmem_heap_report *heap)
{
	const struct flmem_u64 none = FLMEM_KNOWN(0);

	*heap = FLMEM_HEAP_UNKNOWN(unused);
	heap->resident_bytes = heap->in_use_bytes = heap->cached_bytes = none;
	heap->free_resident_bytes = heap->trimmable_bytes = heap->pinned_bytes = none;
	heap->decaying_bytes = none;
	heap->metadata_bytes = heap->mmapped_bytes = heap->free_bytes = none;
	heap->arenas = heap->error_bytes = none;
	heap->method = "walked";
	heap->arena_list.unknown = NULL;
}

static uint64_t subtract_clamped(uint64_t whole, uint64_t part)
{
	return whole > part ? whole - part : 0;
}

static void fill_heap_sizes(const struct heap_reading *reading,
			    const struct flmem_glibc_mmapped *mmapped,
			    struct flmem_heap_report *heap)
{
	const struct flmem_glibc_sums *sums = &reading->sums;
	const uint64_t metadata = reading->metadata + sums->tcache_structs;
	const uint64_t resident = reading->resident + mmapped->resident;

	heap->resident_bytes = FLMEM_KNOWN(resident);
	heap->cached_bytes = FLMEM_KNOWN(sums->cached);
	heap->metadata_bytes = FLMEM_KNOWN(metadata);
	heap->free_resident_bytes = FLMEM_KNOWN(sums->free_resident);
	heap->in_use_bytes = FLMEM_KNOWN(
		subtract_clamped(resident, sums->free_resident + sums->cached + metadata));
	heap->trimmable_bytes = FLMEM_KNOWN(sums->trimmable);
	heap->decaying_bytes = FLMEM_KNOWN(0);
	heap->pinned_bytes = FLMEM_KNOWN(subtract_clamped(sums->free_resident, sums->trimmable));
	heap->mmapped_bytes = FLMEM_KNOWN(mmapped->resident);
	heap->free_bytes = FLMEM_KNOWN(sums->free);
	heap->error_bytes = FLMEM_KNOWN(reading->error);
	heap->method = reading->method;
	heap->arena_list = reading->arenas;
}

static void walk_arenas(struct heap_reading *reading)
{
	reading->sums = (struct flmem_glibc_sums){0};
	reading->resident = reading->metadata = reading->error = 0;
	reading->arenas = (struct flmem_arena_list){0};
	reading->skipped_why = NULL;
	reading->method = "walked";
	for (size_t i = 0; i < reading->glibc->arena_count && !reading->why; i++) {
		read_one_arena(reading, i);
		/* There is no time for the following arenas either. */
		if (reading->skipped_why == no_time)
			return;
	}
}

/* What all arenas together contain, as the basis of an estimate. */
struct heap_extent {
	struct flmem_glibc_stretches list;
	struct flmem_glibc_large large;
	uint64_t fast_max;
	uint64_t length, metadata;
	uint64_t unseen; /* bytes that the arenas took from the system but that were not found */
};

static void free_extent(struct heap_extent **extent)
{
	if (*extent)
		flmem_glibc_stretches_clear(&(*extent)->list);
	free(*extent);
}

static bool measure_arena(struct heap_reading *reading, size_t index, struct heap_extent *extent)
{
	const struct flmem_glibc_space *space = reading->space;
	struct flmem_glibc_arena arena;
	size_t before = extent->list.count;
	uint64_t length = 0;

	if (!read_arena(reading, index, &arena))
		return false;
	for (unsigned i = 0; i < FLMEM_GLIBC_FASTBINS; i++)
		if (arena.fastbins[i] && flmem_glibc_fast_size(i) > extent->fast_max)
			extent->fast_max = flmem_glibc_fast_size(i);
	if (flmem_glibc_stretches_find(space, reading->glibc, index, &arena, &extent->list) !=
	    FLMEM_GLIBC_WALKED)
		return false;
	flmem_glibc_large_find(space->peek, reading->glibc, arena.address, &extent->large);
	for (size_t i = before; i < extent->list.count; i++) {
		const struct flmem_glibc_stretch *stretch = &extent->list.rows[i];

		length += flmem_glibc_stretch_finish(stretch) - stretch->begin;
		extent->metadata +=
			flmem_peek_resident(space->peek, stretch->begin, stretch->start);
	}
	extent->length += length;
	extent->unseen += absolute_difference(length, arena.system_mem);
	return true;
}

static struct heap_extent *measure_all(struct heap_reading *reading)
{
	FLMEM_AUTO(free_extent) struct heap_extent *extent = calloc(1, sizeof(*extent));
	bool measured = extent;

	for (size_t i = 0; i < reading->glibc->arena_count && measured; i++)
		measured = measure_arena(reading, i, extent);
	if (!measured)
		return NULL;
	return FLMEM_TAKE(extent);
}

static void sample_arenas(struct heap_reading *reading, const struct heap_extent *extent)
{
	const struct flmem_glibc_sampling sampling = {
		.peek = reading->space->peek,
		.glibc = reading->glibc,
		.walker = reading->walker,
		.stretches = extent->list.rows,
		.stretch_count = extent->list.count,
		.large = &extent->large,
		.fast_max = extent->fast_max,
		.precision = reading->precision,
		.deadline_ns = reading->deadline_ns,
	};
	struct flmem_glibc_estimate estimate = {0};

	reading->method = "sampled";
	reading->arenas = (struct flmem_arena_list){.unknown = only_sampled};
	reading->skipped_why = extent->unseen ? glibc_heap_elsewhere : NULL;
	reading->why = explain_walked(flmem_glibc_sample(&sampling, &estimate));
	reading->sums = estimate.sums;
	reading->resident = estimate.resident;
	reading->error = estimate.error + extent->unseen;
	reading->metadata = extent->metadata;
}

/* Reports whether the memory ever taken from the system is within the walking limit. */
static bool is_small(const struct heap_reading *reading)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < reading->glibc->arena_count && sum <= reading->walked_max; i++) {
		struct flmem_glibc_arena arena;

		if (!flmem_glibc_arena_read(reading->space, reading->glibc, i, &arena))
			return false;
		if (arena.system_mem > reading->walked_max)
			return false;
		sum += arena.system_mem;
	}
	return sum <= reading->walked_max;
}

/*
 * Reports whether the resident part, as far as it is cheap to count, is within the walking limit.
 */
static bool is_worth_walking(const struct heap_reading *reading, const struct heap_extent *extent)
{
	uint64_t resident = 0;

	if (extent->length > LENGTH_PER_WALKED * reading->walked_max)
		return false;
	for (size_t i = 0; i < extent->list.count; i++)
		resident += flmem_peek_resident(reading->space->peek, extent->list.rows[i].begin,
						flmem_glibc_stretch_finish(&extent->list.rows[i]));
	return resident <= reading->walked_max;
}

/* Walks small heaps, and heaps whose size cannot be measured; samples large ones. */
static void read_heaps(struct heap_reading *reading)
{
	FLMEM_AUTO(free_extent) struct heap_extent *extent = NULL;

	if (!is_small(reading))
		extent = measure_all(reading);
	if (!extent || is_worth_walking(reading, extent))
		walk_arenas(reading);
	if (!extent && reading->skipped_why == no_time)
		extent = measure_all(reading);
	if (extent && (!reading->method || reading->skipped_why == no_time))
		sample_arenas(reading, extent);
}

static void read_all_heaps(struct heap_reading *reading, struct flmem_heap_report *heap)
{
	const struct flmem_glibc *glibc = reading->glibc;
	struct flmem_glibc_mmapped mmapped;

	read_heaps(reading);
	if (reading->error > reading->resident / SAYS_NOTHING)
		reading->why = reading->skipped_why;
	*heap = FLMEM_HEAP_UNKNOWN(reading->why);
	if (!reading->why) {
		flmem_glibc_mmapped_find(reading->space, glibc, reading->resident / NEGLIGIBLE,
					 reading->deadline_ns, &mmapped);
		if (glibc->params.known)
			reading->error +=
				absolute_difference(mmapped.bytes, glibc->params.mmapped_bytes);
		fill_heap_sizes(reading, &mmapped, heap);
	}
	heap->arenas = FLMEM_KNOWN(glibc->arena_count);
	fill_params(&glibc->params, heap);
}

static struct flmem_glibc_walker *make_walker(const struct flmem_glibc_space *space,
					      const struct flmem_glibc *glibc, uint64_t deadline_ns)
{
	const struct flmem_glibc_params *params = &glibc->params;
	const struct flmem_glibc_walker_options options = {
		.peek = space->peek,
		.layout = glibc->layout,
		.tcache_count = params->known ? params->tcache_count : DEFAULT_TCACHE,
		.top_unit = params->known && params->thp_pagesize
				    ? params->thp_pagesize
				    : flmem_peek_page_bytes(space->peek),
		.brk_end = flmem_glibc_brk(space).end,
		.deadline_ns = deadline_ns,
	};

	return flmem_glibc_walker_new(&options);
}

void flmem_glibc_heap_read(const struct flmem_glibc_space *space,
			   const struct flmem_glibc_effort *effort,
			   struct flmem_heap_report *ret_heap)
{
	FLMEM_AUTO_GLIBC struct flmem_glibc glibc = {0};
	FLMEM_AUTO_GLIBC_WALKER struct flmem_glibc_walker *walker = NULL;
	struct heap_reading reading = {
		.space = space,
		.glibc = &glibc,
		.walked_max = effort->walked_max,
		.precision = effort->precision,
	};
	uint64_t walk_until_ns = 0;
	const char *why;

	if (!flmem_glibc_find(space, &glibc, &why)) {
		*ret_heap = FLMEM_HEAP_UNKNOWN(why);
		return;
	}
	if (!glibc.arenas) {
		fill_unused(ret_heap);
		return;
	}
	if (effort->budget_us) {
		/*
		 * If walking takes more than half of the time, the heap is sampled in the other
		 * half. A small part is left for the work before and after.
		 */
		reading.deadline_ns = flmem_clock_ns() + 950 * effort->budget_us;
		walk_until_ns = reading.deadline_ns - 500 * effort->budget_us;
	}
	walker = make_walker(space, &glibc, walk_until_ns);
	if (!walker) {
		*ret_heap = FLMEM_HEAP_UNKNOWN(glibc_heap_no_memory);
		return;
	}
	reading.walker = walker;
	read_all_heaps(&reading, ret_heap);
}
