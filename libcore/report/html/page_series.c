/* SPDX-License-Identifier: Apache-2.0 */
#include "report/html/page_series.h"

#include <stdlib.h>

/* Grows a full list by doubling; NULL, with the list unchanged, if memory is out. */
static void *grow_list(void *list, size_t count, size_t *room, size_t size)
{
	size_t wanted = *room ? *room * 2 : 16;

	if (count < *room)
		return list;
	list = reallocarray(list, wanted, size);
	if (list)
		*room = wanted;
	return list;
}

/* Width of the first spans that hold more than one sample. */
#define WIDTH_US 2000U

static void widen_spans(struct flmem_page_series *s)
{
	if (!s->width_us)
		s->width_us = WIDTH_US / 2;
	s->span_count = flmem_spans_widen(s->spans, s->span_count, &s->width_us);
}

bool flmem_page_series_sample(struct flmem_page_series *series, uint64_t at_us, uint64_t bytes,
			      size_t most)
{
	struct flmem_span span;
	void *list;

	if (flmem_spans_take(series->spans, series->span_count, series->width_us, at_us, bytes,
			     &span))
		return true;
	while (series->span_count && series->span_count >= most && series->width_us < UINT64_MAX)
		widen_spans(series);
	list = grow_list(series->spans, series->span_count, &series->span_room,
			 sizeof(*series->spans));
	if (!list)
		return false;
	series->spans = list;
	series->spans[series->span_count++] = span;
	return true;
}

/* Drops every second split. */
static void thin_splits(struct flmem_page_series *s)
{
	size_t kept = 0;

	for (size_t i = 0; i < s->split_count; i += 2)
		s->splits[kept++] = s->splits[i];
	s->split_count = kept;
	s->split_every *= 2;
}

/* True for the split of a process that ends: it is not drawn, as unknown is not 0. */
static bool is_split_unknown(const struct flmem_watch_split *split)
{
	return split->anon_bytes.unknown && split->file_bytes.unknown && split->shmem_bytes.unknown;
}

bool flmem_page_series_split(struct flmem_page_series *series, uint64_t at_us,
			     const struct flmem_watch_split *split)
{
	void *list;

	if (is_split_unknown(split))
		return true;
	if (!series->split_every)
		series->split_every = 1;
	if (series->split_seen++ % series->split_every)
		return true;
	if (series->split_count == FLMEM_PAGE_SPLITS)
		thin_splits(series);
	list = grow_list(series->splits, series->split_count, &series->split_room,
			 sizeof(*series->splits));
	if (!list)
		return false;
	series->splits = list;
	series->splits[series->split_count++] = (struct flmem_page_split){
		.at_us = at_us,
		.bytes = {[FLMEM_PAGE_ANON] = flmem_u64_or(split->anon_bytes, 0),
			  [FLMEM_PAGE_SHMEM] = flmem_u64_or(split->shmem_bytes, 0),
			  [FLMEM_PAGE_FILE] = flmem_u64_or(split->file_bytes, 0),
			  [FLMEM_PAGE_SWAP] = flmem_u64_or(split->swap_bytes, 0)},
	};
	return true;
}

static void merge_rounds(struct flmem_page_round *round, const struct flmem_page_round *next)
{
	round->last = next->last;
	round->ended_us = next->ended_us;
	if (round->peak_bytes.unknown ||
	    (!next->peak_bytes.unknown && next->peak_bytes.value > round->peak_bytes.value))
		round->peak_bytes = next->peak_bytes;
	if (round->trough_bytes.unknown ||
	    (!next->trough_bytes.unknown && next->trough_bytes.value < round->trough_bytes.value))
		round->trough_bytes = next->trough_bytes;
	if (round->growth_bytes.unknown)
		round->growth_bytes = next->growth_bytes;
	else if (!next->growth_bytes.unknown &&
		 __builtin_add_overflow(round->growth_bytes.value, next->growth_bytes.value,
					&round->growth_bytes.value))
		round->growth_bytes = (struct flmem_i64){.unknown = "too large"};
}

static void join_pairs(struct flmem_page_series *s)
{
	size_t kept = 0;

	for (size_t i = 0; i + 1 < s->round_count; i += 2) {
		merge_rounds(&s->rounds[i], &s->rounds[i + 1]);
		s->rounds[kept++] = s->rounds[i];
	}
	s->round_count = kept;
	s->per_round *= 2;
}

bool flmem_page_series_round(struct flmem_page_series *series,
			     const struct flmem_watch_round *round)
{
	const struct flmem_page_round one = {
		.first = round->number,
		.last = round->number,
		.started_us = round->started_us,
		.ended_us = round->elapsed_us,
		.peak_bytes = round->peak_bytes,
		.trough_bytes = round->trough_bytes,
		.growth_bytes = round->growth_bytes,
	};
	void *list;

	if (!series->per_round)
		series->per_round = 1;
	if (series->round_count && series->in_last < series->per_round) {
		merge_rounds(&series->rounds[series->round_count - 1], &one);
		series->in_last++;
		return true;
	}
	if (series->round_count == FLMEM_PAGE_ROUNDS)
		join_pairs(series);
	list = grow_list(series->rounds, series->round_count, &series->round_room,
			 sizeof(*series->rounds));
	if (!list)
		return false;
	series->rounds = list;
	series->rounds[series->round_count++] = one;
	series->in_last = 1;
	return true;
}

void flmem_page_series_clear(struct flmem_page_series *series)
{
	free(series->spans);
	free(series->splits);
	free(series->rounds);
	*series = (struct flmem_page_series){0};
}
