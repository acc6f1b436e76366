/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Keeps sampled mappings by their range, since munmap() may take a part of one, or several at once.
 * They are few; a list is enough.
 */

#include "preload/sampler/sampler.h"

#define TAKEN 1U /* not an address but a mark: the entry is being changed or removed */
/* No processor has program addresses from here on. */
#define ADDRESSES_END (UINT64_C(1) << 57)

static uint64_t removals; /* number of removals, over all profiles of the process */

bool sampler_mapping_add(uintptr_t start, size_t length)
{
	for (uint32_t i = 0; i < SAMPLER_MAPPINGS; i++) {
		struct sampler_mapping *mapping = &sampler_control.mapping[i];
		uintptr_t none = 0;

		if (!mapping->start &&
		    __atomic_compare_exchange_n(&mapping->start, &none, TAKEN, false,
						__ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) {
			mapping->length = length;
			__atomic_store_n(&mapping->start, start, __ATOMIC_RELEASE);
			if (i >= __atomic_load_n(&sampler_control.mappings, __ATOMIC_RELAXED))
				__atomic_store_n(&sampler_control.mappings, i + 1,
						 __ATOMIC_RELAXED);
			return true;
		}
	}
	return false;
}

/*
 * This is the removed range of a sampled mapping, with the lengths that remain before and after it.
 */
struct removed_range {
	uintptr_t start;
	size_t length, front, back;
};

static uint64_t share_of_weight(uint64_t weight, size_t part, size_t whole)
{
	return (uint64_t)((unsigned __int128)weight * part / whole);
}

/*
 * Gives the range after a hole a separate sample. Returns false where it stays part of the first
 * one.
 */
static bool split_mapping(const struct removed_range *at)
{
	const uintptr_t behind_start = at->start + at->length - at->back;
	struct flmem_profile_live live, behind;
	bool added;

	if (!sampler_forget((const void *)at->start, &live))
		return false;
	behind = live;
	behind.size = at->back;
	behind.weight_bytes = share_of_weight(live.weight_bytes, at->back, at->length);
	behind.weight_count = 0;
	added = sampler_is_in_profile(&live) && sampler_mapping_add(behind_start, at->back) &&
		sampler_live_add(behind_start, &behind);
	if (added) {
		live.weight_bytes -= behind.weight_bytes;
		live.size -= at->back;
	}
	sampler_forget_undo((const void *)at->start, &live);
	return added;
}

/*
 * Keeps the rest of a mapping that is removed in part. Returns true where the list is full, and the
 * rest takes the entry of the mapping.
 */
static bool keep_rest(struct sampler_mapping *mapping, const struct removed_range *at,
		      struct flmem_profile_live *removed)
{
	const uintptr_t start = at->front ? at->start : at->start + at->length - at->back;
	const size_t kept = at->front + at->back;
	struct flmem_profile_live rest = *removed;
	bool added;

	rest.size = kept;
	rest.weight_bytes -= share_of_weight(removed->weight_bytes, at->length - kept, at->length);
	added = sampler_mapping_add(start, kept);
	if (!sampler_live_add(start, &rest))
		return false;
	removed->size -= kept;
	removed->weight_bytes -= rest.weight_bytes;
	removed->weight_count = 0;
	if (!added) {
		mapping->length = kept;
		__atomic_store_n(&mapping->start, start, __ATOMIC_RELEASE);
	}
	return !added;
}

static void give_mapping_back(struct sampler_mapping *mapping)
{
	mapping->removal = 0;
	__atomic_store_n(&mapping->start, 0, __ATOMIC_RELEASE);
}

/*
 * Removes a range from a mapping. `live` is in the frame of this call, where no other thread finds
 * it.
 */
static void remove_overlap(struct sampler_mapping *mapping, struct removed_range at,
			   struct sampler_removal *removal)
{
	struct flmem_profile_live live;
	bool has_place = true;

	if (at.front && at.back && split_mapping(&at)) {
		at.length -= at.back;
		at.back = 0;
	}
	if (!sampler_forget((const void *)at.start, &live)) {
		give_mapping_back(mapping);
		return;
	}
	if (at.front + at.back && sampler_is_in_profile(&live))
		has_place = !keep_rest(mapping, &at, &live);
	if (has_place && removal->number && sampler_is_in_profile(&live)) {
		mapping->at = at.start + at.front;
		mapping->live = live;
		mapping->round = sampler_tables.header->round;
		__atomic_store_n(&mapping->removal, removal->number, __ATOMIC_RELEASE);
		removal->parts++;
	} else if (has_place) {
		give_mapping_back(mapping);
	}
	sampler_forget_done(&live);
}

static void remove_range(uintptr_t start, uintptr_t end, struct sampler_removal *removal)
{
	uint32_t count = __atomic_load_n(&sampler_control.mappings, __ATOMIC_RELAXED);

	sampler_memory_refresh();
	for (uint32_t i = 0; i < count; i++) {
		struct sampler_mapping *mapping = &sampler_control.mapping[i];
		uintptr_t there = __atomic_load_n(&mapping->start, __ATOMIC_ACQUIRE);
		size_t size = mapping->length;
		struct removed_range at = {.start = there, .length = size};

		if (there <= TAKEN || there >= end || start >= there + size ||
		    !__atomic_compare_exchange_n(&mapping->start, &there, TAKEN, false,
						 __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
			continue;
		at.front = start > at.start ? start - at.start : 0;
		at.back = at.start + size > end ? at.start + size - end : 0;
		remove_overlap(mapping, at, removal);
	}
}

/* Finds the end of the last page. Returns false for a range that the kernel refuses, too. */
static bool find_range_end(uintptr_t start, size_t length, uintptr_t *ret_end)
{
	const uintptr_t page = sampler_page_size();
	uintptr_t end;

	if (!length || start % page || __builtin_add_overflow(start, length, &end) ||
	    __builtin_add_overflow(end, page - 1, &end))
		return false;
	*ret_end = sampler_page_of(end);
	return *ret_end <= ADDRESSES_END;
}

void sampler_mapping_removed(uintptr_t start, size_t length)
{
	struct sampler_removal for_good = {0};
	uintptr_t end;

	if (find_range_end(start, length, &end))
		remove_range(start, end, &for_good);
}

struct sampler_removal sampler_mapping_leaves(uintptr_t start, size_t length)
{
	struct sampler_removal removal = {.start = start};
	uintptr_t end;

	if (!sampler_is_active() || !__atomic_load_n(&sampler_control.mappings, __ATOMIC_RELAXED) ||
	    !find_range_end(start, length, &end))
		return removal;
	removal.number = __atomic_add_fetch(&removals, 1, __ATOMIC_RELAXED);
	remove_range(start, end, &removal);
	return removal;
}

/*
 * Counts a removed part as live again, at its old place or another one. It is cut where it is
 * longer than the new mapping.
 */
static void return_part(const struct sampler_mapping *mapping,
			const struct sampler_removal *removal, uintptr_t start, size_t length)
{
	const uintptr_t offset = mapping->at - removal->start;
	struct flmem_profile_live live = mapping->live;

	if (offset >= length)
		return;
	if (live.size > length - offset) {
		live.weight_bytes = share_of_weight(live.weight_bytes, length - offset, live.size);
		live.size = length - offset;
	}
	sampler_return(start + offset, &live, mapping->round);
}

void sampler_mapping_came(const struct sampler_removal *removal, uintptr_t start, size_t length)
{
	uint32_t count = __atomic_load_n(&sampler_control.mappings, __ATOMIC_RELAXED);
	uint32_t left = removal->parts;

	for (uint32_t i = 0; i < count && left; i++) {
		struct sampler_mapping *mapping = &sampler_control.mapping[i], part;

		if (__atomic_load_n(&mapping->removal, __ATOMIC_ACQUIRE) != removal->number)
			continue;
		left--;
		part = *mapping;
		give_mapping_back(mapping);
		return_part(&part, removal, start, length);
	}
}
