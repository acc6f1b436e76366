/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/index_set.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define SIZE_FIRST 64U

void flmem_index_set_init(struct flmem_index_set *set)
{
	uint64_t random = 0;

	/* Without a random number the set still works for files that are not hostile. */
	if (getrandom(&random, sizeof(random), GRND_NONBLOCK) != (ssize_t)sizeof(random))
		random = 0;
	*set = (struct flmem_index_set){.seed = FLMEM_FNV_START ^ random};
}

void flmem_index_set_clear(struct flmem_index_set *set)
{
	free(set->slots);
	*set = (struct flmem_index_set){.seed = set->seed};
}

static uint32_t fold_hash(uint64_t hash)
{
	return (uint32_t)(hash ^ hash >> 32);
}

static struct flmem_index_slot *probe_slots(const struct flmem_index_set *set, uint32_t hash,
					    const struct flmem_index_key *key)
{
	size_t at = hash & (set->size - 1);

	while (set->slots[at].index != FLMEM_INDEX_NONE &&
	       !(key && set->slots[at].hash == hash &&
		 key->same(key->context, set->slots[at].index)))
		at = (at + 1) & (set->size - 1);
	return &set->slots[at];
}

static bool grow_index_set(struct flmem_index_set *set)
{
	struct flmem_index_set grown = {.size = set->size ? set->size * 2 : SIZE_FIRST,
					.count = set->count,
					.seed = set->seed};

	grown.slots = malloc(grown.size * sizeof(*grown.slots));
	if (!grown.slots)
		return false;
	memset(grown.slots, 0xff, grown.size * sizeof(*grown.slots));
	for (size_t i = 0; i < set->size; i++)
		if (set->slots[i].index != FLMEM_INDEX_NONE)
			*probe_slots(&grown, set->slots[i].hash, NULL) = set->slots[i];
	free(set->slots);
	*set = grown;
	return true;
}

uint32_t flmem_index_set_take(struct flmem_index_set *set, const struct flmem_index_key *key,
			      uint32_t fresh)
{
	struct flmem_index_slot *slot;

	if (set->count >= set->size / 2 && !grow_index_set(set))
		return FLMEM_INDEX_NONE;
	slot = probe_slots(set, fold_hash(key->hash), key);
	if (slot->index != FLMEM_INDEX_NONE)
		return slot->index;
	*slot = (struct flmem_index_slot){.index = fresh, .hash = fold_hash(key->hash)};
	set->count++;
	return fresh;
}

uint32_t flmem_index_set_find(const struct flmem_index_set *set, const struct flmem_index_key *key)
{
	return set->size ? probe_slots(set, fold_hash(key->hash), key)->index : FLMEM_INDEX_NONE;
}
