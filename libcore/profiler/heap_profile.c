/* SPDX-License-Identifier: Apache-2.0 */
#include <flmem/heap_profile.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "profiler/amounts.h"
#include "profiler/string_pool.h"

#define NAME_ROW(name, text) [FLMEM_HEAP_##name] = (text),
static const char *const measure_names[] = {FLMEM_HEAP_MEASURES(NAME_ROW)};
#undef NAME_ROW

#define NAME_ROW(name, text) [FLMEM_HEAP_STACKS_##name] = (text),
static const char *const stacks_names[] = {FLMEM_HEAP_STACKS(NAME_ROW)};
#undef NAME_ROW

#define PART_ROW(name, word, text) {word, text},
static const struct {
	const char *name, *text;
} parts[] = {FLMEM_HEAP_PARTS(PART_ROW)};
#undef PART_ROW

#define NAME_ROW(name, text) [FLMEM_HEAP_##name] = (text),
static const char *const ending_names[] = {FLMEM_HEAP_ENDINGS(NAME_ROW)};
#undef NAME_ROW

const char *flmem_heap_ending_name(enum flmem_heap_ending ending)
{
	return ending_names[ending];
}

const char *flmem_heap_measure_name(enum flmem_heap_measure measure)
{
	return measure_names[measure];
}

const char *flmem_heap_stacks_name(enum flmem_heap_stacks stacks)
{
	return stacks_names[stacks];
}

const char *flmem_heap_part_name(enum flmem_heap_part part)
{
	return parts[part].name;
}

const char *flmem_heap_cut_name(const struct flmem_heap_profile *profile)
{
	return profile->has_zeros ? "has zeros in place of records, as after a power failure"
				  : "is truncated";
}

char *flmem_heap_cut_text(const struct flmem_heap_profile *profile, char *out, size_t size)
{
	const char *separator = "its amounts are whole; it lacks all or some of: ";
	size_t used = 0;

	if (!profile->lacks)
		snprintf(out, size, "nothing that was recorded is missing");
	else if (FLMEM_HEAP_LACKS(profile, AMOUNTS) || FLMEM_HEAP_LACKS(profile, STACKS))
		snprintf(out, size, "amounts that it lacks are not counted");
	else
		for (size_t i = 0; i < FLMEM_HEAP_PART_COUNT && used < size; i++) {
			if (!(profile->lacks >> i & 1U))
				continue;
			used += (size_t)snprintf(out + used, size - used, "%s%s", separator,
						 parts[i].text);
			separator = ", ";
		}
	return out;
}

void flmem_heap_profile_free(struct flmem_heap_profile *profile)
{
	if (!profile)
		return;
	free(profile->path);
	free(profile->frames);
	free(profile->nodes);
	free(profile->sites);
	free(profile->rounds);
	free(profile->changes);
	free(profile->survivors);
	free(profile->points);
	flmem_string_pool_free(profile->texts);
	free(profile);
}

struct flmem_heap_amounts *flmem_heap_totals(const struct flmem_heap_profile *profile)
{
	struct flmem_heap_amounts *totals = calloc(profile->node_count, sizeof(*totals));

	if (!totals)
		return NULL;
	for (size_t i = 0; i < profile->site_count; i++)
		flmem_amounts_add(&totals[profile->sites[i].node], &profile->sites[i].amounts);
	for (size_t i = profile->node_count; i-- > 1;)
		flmem_amounts_add(&totals[profile->nodes[i].parent], &totals[i]);
	return totals;
}

struct flmem_u64 flmem_heap_bytes(const struct flmem_heap_profile *profile,
				  const struct flmem_heap_amounts *amounts,
				  enum flmem_heap_measure measure)
{
	return (struct flmem_u64){.value = amounts->bytes[measure],
				  .unknown = profile->unknown[measure]};
}

struct flmem_u64 flmem_heap_count(const struct flmem_heap_profile *profile,
				  const struct flmem_heap_amounts *amounts,
				  enum flmem_heap_measure measure)
{
	const char *unknown = profile->unknown[measure];

	if (!unknown && measure == FLMEM_HEAP_PEAK)
		unknown = "of the peak the file records only bytes";
	return (struct flmem_u64){.value = amounts->count[measure], .unknown = unknown};
}

struct flmem_u64 flmem_heap_live_error(const struct flmem_heap_profile *profile,
				       double live_variance)
{
	if (profile->unknown[FLMEM_HEAP_LIVE])
		return FLMEM_UNKNOWN(profile->unknown[FLMEM_HEAP_LIVE]);
	if (profile->ending == FLMEM_HEAP_DUMPED)
		return FLMEM_UNKNOWN("a dump of jemalloc does not have its samples one by one");
	if (FLMEM_HEAP_LACKS(profile, SURVIVORS))
		return FLMEM_UNKNOWN("the file was truncated before its live allocations");
	return FLMEM_KNOWN((uint64_t)fmin(ceil(sqrt(live_variance)), (double)(1ULL << 62)));
}

const char *flmem_heap_lacks_amounts(const struct flmem_heap_profile *profile)
{
	for (enum flmem_heap_measure m = 0; m < FLMEM_HEAP_MEASURE_COUNT; m++)
		if (!profile->unknown[m])
			return NULL;
	return profile->unknown[FLMEM_HEAP_LIVE];
}
