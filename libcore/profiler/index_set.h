/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_PROFILER_INDEX_SET_H
#define FLMEM_PROFILER_INDEX_SET_H

/*
 * A hash set of indices into an array of the caller, which compares the elements. The hash begins
 * with a random number, so that a hostile file cannot choose keys that collide.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes/fnv.h"
#include "base/cleanup.h"

#define FLMEM_INDEX_NONE UINT32_MAX

struct flmem_index_slot {
	uint32_t index; /* FLMEM_INDEX_NONE: the slot is free */
	uint32_t hash;
};

struct flmem_index_set {
	struct flmem_index_slot *slots;
	size_t size; /* number of slots: a power of 2, or 0 */
	size_t count;
	uint64_t seed; /* start of flmem_fnv_mix() for keys of this set */
};

void flmem_index_set_init(struct flmem_index_set *set);
void flmem_index_set_clear(struct flmem_index_set *set);

#define FLMEM_AUTO_INDEX_SET FLMEM_AUTO(flmem_index_set_clear)

/* A key to search for; `same` returns true if the element at `index` has this key. */
struct flmem_index_key {
	uint64_t hash;
	bool (*same)(const void *context, uint32_t index);
	const void *context;
};

/*
 * Returns the index of the element with this key; if there is none, adds and returns `fresh`.
 * FLMEM_INDEX_NONE if memory is out.
 */
uint32_t flmem_index_set_take(struct flmem_index_set *set, const struct flmem_index_key *key,
			      uint32_t fresh);

/* Returns the index of the element with this key; FLMEM_INDEX_NONE if there is none. */
uint32_t flmem_index_set_find(const struct flmem_index_set *set, const struct flmem_index_key *key);

#endif
