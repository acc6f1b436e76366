/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include <flmem/sort.h>

#include "base/cleanup.h"
#include "profiler/amounts.h"
#include "profiler/read_private.h"

#define BEFORE "before the first round"

static uint64_t round_key(const struct flmem_heap_round *round)
{
	return round->number.unknown ? FLMEM_PROFILE_ROUND_NONE : round->number.value;
}

static bool add_profile_round(void *context, uint32_t index, const void *record)
{
	struct flmem_profile_reader *reader = context;
	struct flmem_heap_profile *p = reader->profile;
	const struct flmem_profile_round *from = record;
	struct flmem_heap_round *rounds =
		flmem_profile_reader_grow(reader, p->rounds, p->round_count, sizeof(*rounds));

	if (!rounds)
		return false;
	p->rounds = rounds;
	p->rounds[p->round_count++] = (struct flmem_heap_round){
		.number = from->round == FLMEM_PROFILE_ROUND_NONE ? FLMEM_UNKNOWN(BEFORE)
								  : FLMEM_KNOWN(from->round),
		.started_us = flmem_profile_reader_us(from->start_ms),
		.allocated_bytes = from->allocated_bytes,
		.freed_bytes = from->freed_bytes,
		.peak_bytes = from->peak_bytes,
		.has_sites = index < reader->file->header.cells_full_round,
	};
	return true;
}

static int compare_round_numbers(const void *a, const void *b)
{
	uint64_t x = round_key(a), y = round_key(b);

	return x < y ? -1 : x > y;
}

static int compare_round_starts(const void *a, const void *b)
{
	const struct flmem_heap_round *x = a, *y = b;

	/*
	 * The time before the first round comes first, even if that started in the same
	 * millisecond.
	 */
	if (!x->number.unknown != !y->number.unknown)
		return x->number.unknown ? -1 : 1;
	if (x->started_us == y->started_us)
		return compare_round_numbers(a, b);
	return x->started_us < y->started_us ? -1 : 1;
}

/* Merges records of the same round; `rounds` is sorted by number. */
static size_t merge_equal_rounds(struct flmem_heap_round *rounds, size_t count)
{
	size_t kept = 0;

	for (size_t i = 0; i < count; i++) {
		struct flmem_heap_round *last = kept ? &rounds[kept - 1] : NULL;

		if (!last || compare_round_numbers(last, &rounds[i]) != 0) {
			rounds[kept++] = rounds[i];
			continue;
		}
		if (rounds[i].started_us < last->started_us)
			last->started_us = rounds[i].started_us;
		if (rounds[i].peak_bytes > last->peak_bytes)
			last->peak_bytes = rounds[i].peak_bytes;
		last->allocated_bytes =
			flmem_amount_sum(last->allocated_bytes, rounds[i].allocated_bytes);
		last->has_sites &= rounds[i].has_sites;
		last->freed_bytes = flmem_amount_sum(last->freed_bytes, rounds[i].freed_bytes);
	}
	return kept;
}

static int compare_order(const void *a, const void *b, void *context)
{
	const struct flmem_heap_round *rounds = context;

	return compare_round_numbers(&rounds[*(const uint32_t *)a], &rounds[*(const uint32_t *)b]);
}

bool flmem_profile_reader_rounds(struct flmem_profile_reader *reader)
{
	struct flmem_heap_profile *p = reader->profile;

	reader->room = 0;
	if (!flmem_profile_file_visit(reader->file, FLMEM_PROFILE_SECTION_ROUNDS, add_profile_round,
				      reader))
		return false;
	reader->round_order = calloc(p->round_count + 1, sizeof(*reader->round_order));
	if (!reader->round_order)
		return false;
	if (p->round_count) {
		qsort(p->rounds, p->round_count, sizeof(*p->rounds), compare_round_numbers);
		p->round_count = merge_equal_rounds(p->rounds, p->round_count);
		qsort(p->rounds, p->round_count, sizeof(*p->rounds), compare_round_starts);
	}
	for (size_t i = 0; i < p->round_count; i++)
		reader->round_order[i] = (uint32_t)i;
	flmem_sort(reader->round_order, p->round_count, sizeof(*reader->round_order), compare_order,
		   p->rounds);
	return true;
}

uint32_t flmem_profile_reader_round(const struct flmem_profile_reader *reader, uint32_t number)
{
	const struct flmem_heap_profile *p = reader->profile;
	size_t low = 0, high = p->round_count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (round_key(&p->rounds[reader->round_order[middle]]) < number)
			low = middle + 1;
		else
			high = middle;
	}
	if (low < p->round_count && round_key(&p->rounds[reader->round_order[low]]) == number)
		return reader->round_order[low];
	return FLMEM_HEAP_NO_ROUND;
}
