/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/profile_sort.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <flmem/text.h>

#include "profiler/amounts.h"

static int compare_changes(const void *a, const void *b)
{
	const struct flmem_heap_change *x = a, *y = b;

	if (x->site != y->site)
		return x->site < y->site ? -1 : 1;
	return x->round < y->round ? -1 : x->round > y->round;
}

static int compare_survivors(const void *a, const void *b)
{
	const struct flmem_heap_survivor *x = a, *y = b;

	if (x->site != y->site)
		return x->site < y->site ? -1 : 1;
	return x->at_us < y->at_us ? -1 : x->at_us > y->at_us;
}

static void merge_changes(struct flmem_heap_profile *p)
{
	size_t kept = 0;

	for (size_t i = 0; i < p->change_count; i++) {
		const struct flmem_heap_change *from = &p->changes[i];
		struct flmem_heap_change *last = kept ? &p->changes[kept - 1] : NULL;

		if (!last || compare_changes(last, from) != 0) {
			p->changes[kept++] = *from;
			continue;
		}
		last->allocated_bytes =
			flmem_amount_sum(last->allocated_bytes, from->allocated_bytes);
		last->freed_bytes = flmem_amount_sum(last->freed_bytes, from->freed_bytes);
		last->allocated_count =
			flmem_amount_sum(last->allocated_count, from->allocated_count);
		last->freed_count = flmem_amount_sum(last->freed_count, from->freed_count);
	}
	p->change_count = kept;
}

static void set_ages(struct flmem_heap_profile *p)
{
	for (size_t i = 0; i < p->site_count; i++)
		p->sites[i].live_variance = 0;
	for (size_t i = p->survivor_count; i-- > 0;) {
		const struct flmem_heap_survivor *s = &p->survivors[i];
		uint64_t age = p->duration_us > s->at_us ? p->duration_us - s->at_us : 0;

		p->sites[s->site].oldest_us = FLMEM_KNOWN(age);
		p->sites[s->site].live_variance += s->variance;
	}
}

void flmem_heap_sort_profile(struct flmem_heap_profile *profile)
{
	if (profile->change_count)
		qsort(profile->changes, profile->change_count, sizeof(*profile->changes),
		      compare_changes);
	merge_changes(profile);
	if (profile->survivor_count)
		qsort(profile->survivors, profile->survivor_count, sizeof(*profile->survivors),
		      compare_survivors);
	set_ages(profile);
}

static bool is_round_selected(const struct flmem_heap_profile *p, uint32_t round)
{
	return round < p->round_count && !p->rounds[round].number.unknown &&
	       p->rounds[round].number.value >= p->first_round &&
	       p->rounds[round].number.value <= p->last_round;
}

bool flmem_heap_rounds_span(const struct flmem_heap_profile *profile, uint64_t *ret_first,
			    uint64_t *ret_last)
{
	uint64_t first = UINT64_MAX, last = 0;

	for (uint32_t i = 0; i < profile->round_count; i++) {
		const uint64_t number = profile->rounds[i].number.value;

		if (profile->rounds[i].number.unknown)
			continue;
		first = number < first ? number : first;
		last = number > last ? number : last;
	}
	*ret_first = first;
	*ret_last = last;
	return first <= last;
}

/* Fails if no round is selected. `ret_complete`: sites are known for all selected rounds. */
static int check_rounds(const struct flmem_heap_profile *p, bool *ret_complete,
			struct flmem_error *err)
{
	uint64_t least, most;
	bool any = false, known = flmem_heap_rounds_span(p, &least, &most);
	char shown[256];

	*ret_complete = true;
	for (uint32_t i = 0; i < p->round_count; i++) {
		any |= is_round_selected(p, i);
		*ret_complete &= !is_round_selected(p, i) || p->rounds[i].has_sites;
	}
	if (any)
		return 0;
	flmem_text_escape(p->path, shown, sizeof(shown));
	if (FLMEM_HEAP_LACKS(p, ROUNDS))
		return flmem_error_set(err, FLMEM_EUSAGE, 0,
				       "'%s' was truncated before its last rounds, and has no "
				       "record of those that --round names; copy it again, with "
				       "all its bytes",
				       shown);
	if (!known)
		return flmem_error_set(err, FLMEM_EUSAGE, 0,
				       "'%s' has no rounds; leave out --round", shown);
	if (p->first_round <= most && p->last_round >= least)
		return flmem_error_set(err, FLMEM_EUSAGE, 0,
				       "'%s' has no samples of the rounds that --round names; it "
				       "has others from %" PRIu64 " to %" PRIu64,
				       shown, least, most);
	return flmem_error_set(err, FLMEM_EUSAGE, 0,
			       "'%s' has the rounds %" PRIu64 " to %" PRIu64 " only", shown, least,
			       most);
}

static void add_selected(struct flmem_heap_profile *p)
{
	for (size_t i = 0; i < p->change_count; i++) {
		const struct flmem_heap_change *from = &p->changes[i];
		struct flmem_heap_amounts *to = &p->sites[from->site].amounts;

		if (!is_round_selected(p, from->round))
			continue;
		flmem_amounts_add(to,
				  &(struct flmem_heap_amounts){
					  .bytes = {[FLMEM_HEAP_ALLOCATED] = from->allocated_bytes,
						    [FLMEM_HEAP_FREED] = from->freed_bytes},
					  .count = {[FLMEM_HEAP_ALLOCATED] = from->allocated_count,
						    [FLMEM_HEAP_FREED] = from->freed_count}});
	}
	for (size_t i = 0; i < p->survivor_count; i++) {
		const struct flmem_heap_survivor *from = &p->survivors[i];
		struct flmem_heap_amounts *to = &p->sites[from->site].amounts;

		if (!is_round_selected(p, from->round))
			continue;
		to->bytes[FLMEM_HEAP_LIVE] =
			flmem_amount_sum(to->bytes[FLMEM_HEAP_LIVE], from->bytes);
		to->count[FLMEM_HEAP_LIVE] =
			flmem_amount_sum(to->count[FLMEM_HEAP_LIVE], from->count);
		p->sites[from->site].live_variance += from->variance;
	}
}

/* Makes a measure unknown and its amounts 0, so that no sum contains a part of them. */
static void forget_measure(struct flmem_heap_profile *p, enum flmem_heap_measure measure,
			   const char *why)
{
	p->unknown[measure] = why;
	for (size_t i = 0; i < p->site_count; i++) {
		p->sites[i].amounts.bytes[measure] = 0;
		p->sites[i].amounts.count[measure] = 0;
	}
}

int flmem_heap_select_rounds(struct flmem_heap_profile *profile, uint64_t first_round,
			     uint64_t last_round, struct flmem_error *err)
{
	static const char full[] = "the file was full before the last of these rounds";
	static const char cut[] = "the file was truncated before its data of rounds; copy it "
				  "again, with all its bytes";
	bool complete;
	int rc;

	profile->by_round = true;
	profile->first_round = first_round;
	profile->last_round = last_round;
	rc = check_rounds(profile, &complete, err);
	if (rc)
		return rc;
	for (size_t i = 0; i < profile->site_count; i++) {
		profile->sites[i].amounts = (struct flmem_heap_amounts){0};
		profile->sites[i].live_variance = 0;
	}
	add_selected(profile);
	forget_measure(profile, FLMEM_HEAP_PEAK,
		       "the file does not record how the peak of a round divides into sites");
	if (!complete || FLMEM_HEAP_LACKS(profile, ROUNDS)) {
		forget_measure(profile, FLMEM_HEAP_ALLOCATED, complete ? cut : full);
		forget_measure(profile, FLMEM_HEAP_FREED, complete ? cut : full);
	}
	if (FLMEM_HEAP_LACKS(profile, SURVIVORS))
		forget_measure(profile, FLMEM_HEAP_LIVE, cut);
	return 0;
}
