/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Keeps live sampled allocations by address. Each address has two buckets of slots, and there are
 * no chains, so a search costs the same whatever was freed before. A slot is taken and released
 * by one compare-and-swap on its key. The records in the file are separate from the slots and are
 * reused at once, so that few pages of the file change.
 */

#include "preload/sampler/sampler.h"

#define BUCKET	 16U
#define RESERVED 1U /* not an address but a mark: the slot is being changed */
/* A page has at most this many possible starts of blocks. */
#define PAGE_PLACES (SAMPLER_PAGE / 16)

static uint32_t find_bucket(uintptr_t address, unsigned choice)
{
	return (uint32_t)sampler_hash(address, choice) & sampler_tables.key_mask & ~(BUCKET - 1);
}

static void count_byte(uint8_t *byte, int change)
{
	uint8_t old = __atomic_load_n(byte, __ATOMIC_RELAXED);

	/* A count that was full may stand for more, so it is not reduced. */
	while (old != UINT8_MAX &&
	       !__atomic_compare_exchange_n(byte, &old, (uint8_t)(old + change), true,
					    __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		;
}

/*
 * Finds the count of an address in the exact filter, which is only searched for addresses on pages
 * that have a sampled block. The counts of a page are in four lines of the cache, so they are
 * cached already. They are mixed, as large blocks begin at the same place of each page.
 */
static uint8_t *find_exact_byte(uintptr_t address)
{
	uint64_t hash = address / SAMPLER_PAGE * UINT64_C(0x9e3779b97f4a7c15);
	uint64_t place = (address >> 4 ^ hash >> 24) & (PAGE_PLACES - 1);
	uint64_t page = hash >> (64 - SAMPLER_EXACT_BITS) & ~(uint64_t)(PAGE_PLACES - 1);

	return &sampler_control.exact[page | place];
}

static void count_filter(uintptr_t address, int change)
{
	count_byte(find_exact_byte(address), change);
	count_byte(&sampler_filter[sampler_filter_slot(address)], change);
}

/*
 * Takes a record that was given back. Such records form a stack: its head has the number of the
 * first one plus one, and a count of changes, so that a thread that was interrupted in the middle
 * notices what happened.
 */
static uint32_t take_record(void)
{
	uint64_t head = __atomic_load_n(&sampler_control.spare_records, __ATOMIC_ACQUIRE), next;

	while ((uint32_t)head) {
		next = (head & ~(uint64_t)UINT32_MAX) + (UINT64_C(1) << 32);
		next |= __atomic_load_n(&sampler_tables.spare[(uint32_t)head - 1],
					__ATOMIC_RELAXED);
		if (__atomic_compare_exchange_n(&sampler_control.spare_records, &head, next, true,
						__ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
			return (uint32_t)head - 1;
	}
	return sampler_section_add(FLMEM_PROFILE_SECTION_LIVE);
}

static void give_record_back(uint32_t record)
{
	uint64_t head = __atomic_load_n(&sampler_control.spare_records, __ATOMIC_ACQUIRE), next;

	do {
		__atomic_store_n(&sampler_tables.spare[record], (uint32_t)head, __ATOMIC_RELAXED);
		next = (head & ~(uint64_t)UINT32_MAX) + (UINT64_C(1) << 32) + record + 1;
	} while (!__atomic_compare_exchange_n(&sampler_control.spare_records, &head, next, true,
					      __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE));
}

static void fill_record(struct flmem_profile_live *record, uintptr_t address,
			const struct flmem_profile_live *live)
{
	record->site = live->site;
	record->address_hash = sampler_hash(address, sampler_tables.start_ns);
	record->size = live->size;
	record->weight_bytes = live->weight_bytes;
	record->weight_count = live->weight_count;
	record->time_ms = live->time_ms;
	record->thread = live->thread;
	record->round = live->round;
	__atomic_store_n(&record->state, FLMEM_PROFILE_READY, __ATOMIC_RELEASE);
}

/*
 * Reserves a slot. It is written without a read before: a read would map the zero page, and
 * replacing that interrupts all threads.
 */
static bool reserve_slot(uint32_t slot)
{
	uint64_t none = 0;

	return __atomic_compare_exchange_n(&sampler_tables.keys[slot], &none, RESERVED, false,
					   __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
}

static bool fill_slot(uint32_t slot, uintptr_t address, const struct flmem_profile_live *live)
{
	uint32_t record = take_record();

	if (record == FLMEM_PROFILE_NONE) {
		__atomic_store_n(&sampler_tables.keys[slot], 0, __ATOMIC_RELEASE);
		return false;
	}
	sampler_tables.places[slot] = record;
	fill_record(&sampler_tables.live[record], address, live);
	count_filter(address, 1);
	__atomic_store_n(&sampler_tables.keys[slot], address, __ATOMIC_RELEASE);
	__atomic_fetch_add(&sampler_control.live_samples, 1, __ATOMIC_RELAXED);
	return true;
}

bool sampler_live_add(uintptr_t address, const struct flmem_profile_live *live)
{
	uint32_t buckets[2] = {find_bucket(address, 0), find_bucket(address, 1)};

	for (uint32_t i = 0; i < BUCKET; i++)
		for (unsigned choice = 0; choice < 2; choice++)
			if (reserve_slot(buckets[choice] + i))
				return fill_slot(buckets[choice] + i, address, live);
	return false;
}

/* Returns the slot of the address, or FLMEM_PROFILE_NONE if it is not sampled. */
static uint32_t find_live_slot(uintptr_t address)
{
	for (unsigned choice = 0; choice < 2; choice++) {
		uint32_t bucket = find_bucket(address, choice);

		for (uint32_t i = 0; i < BUCKET; i++)
			if (__atomic_load_n(&sampler_tables.keys[bucket + i], __ATOMIC_RELAXED) ==
			    address)
				return bucket + i;
	}
	return FLMEM_PROFILE_NONE;
}

/* Returns false for most addresses that share a page with a sampled one. */
bool sampler_live_may_have(uintptr_t address)
{
	return __atomic_load_n(find_exact_byte(address), __ATOMIC_RELAXED) != 0;
}

bool sampler_live_has(uintptr_t address)
{
	return find_live_slot(address) != FLMEM_PROFILE_NONE;
}

bool sampler_live_take(uintptr_t address, struct flmem_profile_live *ret_live)
{
	uint32_t slot = find_live_slot(address), record;
	uint64_t there = address;

	if (slot == FLMEM_PROFILE_NONE ||
	    !__atomic_compare_exchange_n(&sampler_tables.keys[slot], &there, RESERVED, false,
					 __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
		return false;
	record = sampler_tables.places[slot];
	*ret_live = sampler_tables.live[record];
	__atomic_store_n(&sampler_tables.live[record].state, 0, __ATOMIC_RELEASE);
	give_record_back(record);
	count_filter(address, -1);
	__atomic_store_n(&sampler_tables.keys[slot], 0, __ATOMIC_RELEASE);
	__atomic_fetch_sub(&sampler_control.live_samples, 1, __ATOMIC_RELAXED);
	/* The record is in the file, so its site is checked. */
	return ret_live->site < sampler_tables.capacity[FLMEM_PROFILE_SECTION_SITES];
}
