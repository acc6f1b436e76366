/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Sampled mappings by their range, since munmap() may take a part of one, or several at once. They
 * are few; a list is enough.
 */

#include "preload/sampler/sampler.h"

bool sampler_mapping_add(uintptr_t start, size_t length)
{
	for (uint32_t i = 0; i < SAMPLER_MAPPINGS; i++) {
		struct sampler_mapping *mapping = &sampler_control.mapping[i];
		uintptr_t none = 0;

		if (!mapping->start &&
		    __atomic_compare_exchange_n(&mapping->start, &none, 1, false, __ATOMIC_ACQUIRE,
						__ATOMIC_RELAXED)) {
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

/* A part of a sampled mapping is unmapped: its weight shrinks in proportion. */
static void shrink_mapping(uintptr_t start, size_t length, uintptr_t new_start, size_t kept)
{
	struct flmem_profile_live live;
	uint64_t bytes, count;

	if (!sampler_forget((const void *)start, &live))
		return;
	if (!kept || !sampler_is_in_profile(&live)) {
		sampler_forget_done(&live);
		return;
	}
	bytes = (uint64_t)((unsigned __int128)live.weight_bytes * (length - kept) / length);
	count = 0;
	sampler_count_freed(&live, bytes, count, sampler_now_ms());
	live.weight_bytes -= bytes;
	live.size = kept;
	/* It has just left the list; another thread may have taken its place. */
	if (sampler_mapping_add(new_start, kept)) {
		sampler_forget_undo((const void *)new_start, &live);
		return;
	}
	sampler_drop(FLMEM_PROFILE_DROP_MAPPINGS_FULL);
	sampler_forget_done(&live);
}

/* What is behind a hole gets a sample beside that of the rest. False: it stays a part of it. */
static bool split_mapping(uintptr_t start, size_t length, uintptr_t at, size_t part)
{
	struct flmem_profile_live live, behind;
	bool added;

	if (!sampler_forget((const void *)start, &live))
		return false;
	behind = live;
	behind.size = part;
	behind.weight_bytes = (uint64_t)((unsigned __int128)live.weight_bytes * part / length);
	behind.weight_count = 0;
	added = sampler_is_in_profile(&live) && sampler_mapping_add(at, part) &&
		sampler_live_add(at, &behind);
	if (added) {
		live.weight_bytes -= behind.weight_bytes;
		live.size -= part;
	}
	sampler_forget_undo((const void *)start, &live);
	return added;
}

static void remove_overlap(uintptr_t start, size_t length, uintptr_t from, uintptr_t to)
{
	uintptr_t end = start + length;
	size_t front = from > start ? from - start : 0, back = end > to ? end - to : 0;

	if (front && back && split_mapping(start, length, to, back)) {
		length -= back;
		back = 0;
	}
	shrink_mapping(start, length, front ? start : to, front + back);
}

void sampler_mapping_removed(uintptr_t start, size_t length)
{
	uint32_t count = __atomic_load_n(&sampler_control.mappings, __ATOMIC_RELAXED);

	sampler_memory_refresh();
	for (uint32_t i = 0; i < count; i++) {
		struct sampler_mapping *mapping = &sampler_control.mapping[i];
		uintptr_t there = __atomic_load_n(&mapping->start, __ATOMIC_ACQUIRE);
		size_t size = mapping->length;

		if (there > 1 && there < start + length && start < there + size &&
		    __atomic_compare_exchange_n(&mapping->start, &there, 0, false, __ATOMIC_ACQ_REL,
						__ATOMIC_RELAXED))
			remove_overlap(there, size, start, start + length);
	}
}
