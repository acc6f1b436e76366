/* SPDX-License-Identifier: Apache-2.0 */
/* Counts the totals of the process, its sites and rounds, and the timeline. */

#include <fcntl.h>
#include <unistd.h>

#include "preload/sampler/sampler.h"

static void add_to(uint64_t *total, uint64_t amount)
{
	__atomic_fetch_add(total, amount, __ATOMIC_RELAXED);
}

static uint64_t get_total(const uint64_t *total)
{
	return __atomic_load_n(total, __ATOMIC_RELAXED);
}

static bool raise_peak(uint64_t *peak, uint64_t value)
{
	uint64_t old = get_total(peak);

	while (value > old)
		if (__atomic_compare_exchange_n(peak, &old, value, true, __ATOMIC_RELAXED,
						__ATOMIC_RELAXED))
			return true;
	return false;
}

static uint64_t live_of(const struct flmem_profile_totals *totals)
{
	uint64_t freed = get_total(&totals->freed_bytes);
	uint64_t allocated = get_total(&totals->allocated_bytes);

	return allocated > freed ? allocated - freed : 0;
}

/*
 * Saves the site's values at the peak of the process, before the site changes for the first time
 * since.
 */
static void keep_peak(struct flmem_profile_site *site)
{
	uint64_t epoch = get_total(&sampler_tables.header->peak_epoch);

	if (get_total(&site->peak_epoch) == epoch)
		return;
	__atomic_store_n(&site->live_at_peak_bytes, live_of(&site->totals), __ATOMIC_RELAXED);
	__atomic_store_n(&site->peak_epoch, epoch, __ATOMIC_RELEASE);
}

/*
 * Returns the cell, or NULL for a round without a record, and when the table is full; from then on
 * cells of later rounds are incomplete.
 */
static struct flmem_profile_cell *find_cell(uint32_t site, uint32_t record)
{
	struct flmem_profile_header *header = sampler_tables.header;
	uint32_t none = FLMEM_PROFILE_NONE, cell;

	if (record == none)
		return NULL;
	cell = sampler_cell_find(site, sampler_tables.rounds[record].round);
	if (cell != none)
		return &sampler_tables.cells[cell];
	sampler_drop(FLMEM_PROFILE_DROP_CELLS_FULL);
	__atomic_compare_exchange_n(&header->cells_full_round, &none, record, false,
				    __ATOMIC_RELAXED, __ATOMIC_RELAXED);
	return NULL;
}

static struct flmem_profile_round *get_round(uint32_t record)
{
	return record == FLMEM_PROFILE_NONE ? NULL : &sampler_tables.rounds[record];
}

static void raise_process_peak(uint64_t live, struct flmem_profile_round *round, uint64_t now_ms)
{
	struct flmem_profile_header *header = sampler_tables.header;

	if (raise_peak(&header->totals.peak_bytes, live)) {
		header->peak_ms = now_ms;
		add_to(&header->peak_epoch, 1);
	}
	if (round && raise_peak(&round->peak_bytes, live))
		round->peak_ms = now_ms;
}

static void add_allocated(struct flmem_profile_totals *totals,
			  const struct flmem_profile_live *live)
{
	add_to(&totals->allocated_bytes, live->weight_bytes);
	add_to(&totals->allocated_count, live->weight_count);
	add_to(&totals->samples, 1);
}

/*
 * Counts an allocation. The caller looks the record of the round up once: another round may begin
 * in the middle.
 */
static void count_allocated(const struct flmem_profile_live *live, uint32_t record, uint64_t now_ms)
{
	struct flmem_profile_site *site = &sampler_tables.sites[live->site];
	struct flmem_profile_cell *cell = find_cell(live->site, record);
	struct flmem_profile_round *round = get_round(record);
	int64_t all;

	keep_peak(site);
	add_allocated(&site->totals, live);
	add_allocated(&sampler_tables.header->totals, live);
	if (!get_total(&site->first_ms))
		site->first_ms = now_ms;
	site->last_ms = now_ms;
	raise_peak(&site->totals.peak_bytes, live_of(&site->totals));
	if (cell) {
		add_to(&cell->allocated_bytes, live->weight_bytes);
		add_to(&cell->allocated_count, live->weight_count);
		raise_peak(&cell->peak_bytes, live_of(&site->totals));
	}
	if (round) {
		add_to(&round->allocated_bytes, live->weight_bytes);
		add_to(&round->allocated_count, live->weight_count);
	}
	all = __atomic_add_fetch(&sampler_control.live_bytes, (int64_t)live->weight_bytes,
				 __ATOMIC_RELAXED);
	raise_process_peak(all > 0 ? (uint64_t)all : 0, round, now_ms);
}

void sampler_count_allocated(const struct flmem_profile_live *live, uint64_t now_ms)
{
	count_allocated(live, sampler_round_find(now_ms), now_ms);
}

static void count_freed(const struct flmem_profile_live *live, uint64_t bytes, uint64_t count,
			uint32_t record)
{
	struct flmem_profile_site *site = &sampler_tables.sites[live->site];
	struct flmem_profile_cell *cell = find_cell(live->site, record);
	struct flmem_profile_round *round = get_round(record);
	struct flmem_profile_totals *totals = &sampler_tables.header->totals;

	keep_peak(site);
	if (cell)
		raise_peak(&cell->peak_bytes, live_of(&site->totals));
	add_to(&site->totals.freed_bytes, bytes);
	add_to(&site->totals.freed_count, count);
	add_to(&totals->freed_bytes, bytes);
	add_to(&totals->freed_count, count);
	if (cell) {
		add_to(&cell->freed_bytes, bytes);
		add_to(&cell->freed_count, count);
	}
	if (round) {
		add_to(&round->freed_bytes, bytes);
		add_to(&round->freed_count, count);
	}
	__atomic_fetch_sub(&sampler_control.live_bytes, (int64_t)bytes, __ATOMIC_RELAXED);
}

void sampler_count_freed(const struct flmem_profile_live *live, uint64_t bytes, uint64_t count,
			 uint64_t now_ms)
{
	count_freed(live, bytes, count, sampler_round_find(now_ms));
}

/* A round that has begun since the free has not counted it: there the bytes count as allocated. */
void sampler_count_returned(const struct flmem_profile_live *live, uint32_t round, uint64_t now_ms)
{
	const uint32_t record = sampler_round_find(now_ms);

	if (record != FLMEM_PROFILE_NONE && sampler_tables.rounds[record].round != round)
		count_allocated(live, record, now_ms);
	else
		count_freed(live, 0 - live->weight_bytes, 0 - live->weight_count, record);
}

/* Returns the RSS from the second number of /proc/self/statm, which is in pages. */
static uint64_t read_own_rss(void)
{
	char text[128];
	int fd = sampler_open("/proc/self/statm", O_RDONLY);
	ssize_t length = fd < 0 ? 0 : sampler_read_file(fd, text, sizeof(text));
	uint64_t pages = 0;
	ssize_t i = 0;

	if (fd >= 0)
		sampler_close(fd);
	while (i < length && text[i] != ' ')
		i++;
	for (i++; i < length && text[i] >= '0' && text[i] <= '9'; i++)
		pages = pages * 10 + (uint64_t)(text[i] - '0');
	return pages * sampler_page_size();
}

/* Drops every second point and doubles the period: the timeline covers the whole run. */
static void thin_timeline(struct flmem_profile_section *section)
{
	struct flmem_profile_moment *moments = sampler_tables.timeline;
	uint32_t used = sampler_section_used(FLMEM_PROFILE_SECTION_TIMELINE), kept = used / 2;

	for (uint32_t i = 0; i < kept; i++)
		moments[i] = moments[2 * (size_t)i];
	for (uint32_t i = kept; i < used; i++)
		moments[i].state = 0;
	__atomic_store_n(&section->used, kept, __ATOMIC_RELEASE);
	sampler_tables.header->timeline_period_ms *= 2;
}

static void add_moment(uint64_t now_ms)
{
	struct flmem_profile_header *header = sampler_tables.header;
	struct flmem_profile_section *section = &header->section[FLMEM_PROFILE_SECTION_TIMELINE];
	const uint32_t capacity = sampler_tables.capacity[FLMEM_PROFILE_SECTION_TIMELINE];
	struct flmem_profile_moment *moment;
	uint32_t used;

	if (capacity < 2)
		return;
	if (sampler_section_used(FLMEM_PROFILE_SECTION_TIMELINE) == capacity)
		thin_timeline(section);
	used = sampler_section_used(FLMEM_PROFILE_SECTION_TIMELINE);
	moment = &sampler_tables.timeline[used < capacity ? used : 0];
	moment->round = header->round;
	moment->time_ms = now_ms;
	moment->rss_bytes = read_own_rss();
	moment->live_bytes = live_of(&header->totals);
	moment->allocated_bytes = get_total(&header->totals.allocated_bytes);
	__atomic_store_n(&moment->state, FLMEM_PROFILE_READY, __ATOMIC_RELEASE);
	__atomic_store_n(&section->used, used + 1, __ATOMIC_RELEASE);
}

void sampler_timeline_tick(uint64_t now_ms, bool at_once)
{
	uint64_t period = sampler_tables.header->timeline_period_ms;

	if (!at_once && now_ms < get_total(&sampler_control.tick_ms) + period)
		return;
	if (__atomic_exchange_n(&sampler_control.tick_busy, 1, __ATOMIC_ACQUIRE))
		return;
	__atomic_store_n(&sampler_control.tick_ms, now_ms, __ATOMIC_RELAXED);
	add_moment(now_ms);
	__atomic_store_n(&sampler_control.tick_busy, 0, __ATOMIC_RELEASE);
}
