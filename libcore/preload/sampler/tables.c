/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Keeps the tables that only grow. A record is written, then published in a slot of its index by
 * one compare-and-swap; a thread that loses that race uses the winner's record. So no thread waits
 * for another one, and a signal handler may do the same in the middle of it.
 */

#include <string.h>

#include "preload/sampler/sampler.h"

#define PROBES 256U

void sampler_drop(enum flmem_profile_drop drop)
{
	__atomic_fetch_add(&sampler_tables.header->dropped[drop], 1, __ATOMIC_RELAXED);
}

/* Reserves `count` records in a row. Returns the first. */
static uint32_t reserve_records(unsigned section, uint32_t count)
{
	struct flmem_profile_section *s = &sampler_tables.header->section[section];
	const uint32_t capacity = sampler_tables.capacity[section];
	uint32_t first = __atomic_load_n(&s->used, __ATOMIC_RELAXED);

	do {
		if (first > capacity || count > capacity - first)
			return FLMEM_PROFILE_NONE;
	} while (!__atomic_compare_exchange_n(&s->used, &first, first + count, true,
					      __ATOMIC_RELAXED, __ATOMIC_RELAXED));
	return first;
}

uint32_t sampler_section_add(unsigned section)
{
	return reserve_records(section, 1);
}

/* This is a table, and the key that is searched in it. */
struct table_search {
	const struct sampler_index *index;
	uint64_t hash;
	const void *wanted;
	bool (*is_equal)(uint32_t record, const void *wanted);
	uint32_t (*add)(const void *wanted);
};

static uint32_t find_or_add(const struct table_search *search)
{
	uint32_t added = FLMEM_PROFILE_NONE;

	for (uint32_t i = 0; i < PROBES; i++) {
		uint32_t *slot = &search->index->slots[(search->hash + i) & search->index->mask];
		uint32_t there = __atomic_load_n(slot, __ATOMIC_ACQUIRE);

		if (!there) {
			if (added == FLMEM_PROFILE_NONE)
				added = search->add(search->wanted);
			if (added == FLMEM_PROFILE_NONE)
				return FLMEM_PROFILE_NONE;
			if (__atomic_compare_exchange_n(slot, &there, added + 1, false,
							__ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
				return added;
		}
		if (search->is_equal(there - 1, search->wanted))
			return there - 1;
	}
	/*
	 * Such a record is not indexed: it is found by its number, and a later one is a duplicate
	 * of it.
	 */
	return added != FLMEM_PROFILE_NONE ? added : search->add(search->wanted);
}

struct table_text {
	const char *bytes;
	size_t length;
};

static bool is_equal_string(uint32_t record, const void *wanted)
{
	const struct flmem_profile_string_block *block = &sampler_tables.strings[record];
	const struct table_text *text = wanted;

	return block->length == text->length &&
	       memcmp(block->bytes, text->bytes, text->length) == 0;
}

/* Follows the first block's bytes into the blocks after it. */
static uint32_t add_string_record(const void *wanted)
{
	const struct table_text *text = wanted;
	size_t first = sizeof(struct flmem_profile_string_block) -
		       offsetof(struct flmem_profile_string_block, bytes);
	size_t rest = text->length > first ? text->length - first : 0;
	uint32_t blocks = 1 + (uint32_t)((rest + sizeof(struct flmem_profile_string_block) - 1) /
					 sizeof(struct flmem_profile_string_block));
	uint32_t record = reserve_records(FLMEM_PROFILE_SECTION_STRINGS, blocks);
	struct flmem_profile_string_block *block;

	if (record == FLMEM_PROFILE_NONE) {
		sampler_drop(FLMEM_PROFILE_DROP_STRINGS_FULL);
		return record;
	}
	block = &sampler_tables.strings[record];
	block->length = (uint16_t)text->length;
	block->blocks = (uint16_t)blocks;
	memcpy((char *)block + offsetof(struct flmem_profile_string_block, bytes), text->bytes,
	       text->length);
	__atomic_store_n(&block->state, FLMEM_PROFILE_READY, __ATOMIC_RELEASE);
	return record;
}

uint32_t sampler_string_find(const char *bytes, size_t length)
{
	struct table_text text = {bytes, length};
	struct table_search search = {
		.index = &sampler_tables.string_index,
		.wanted = &text,
		.is_equal = is_equal_string,
		.add = add_string_record,
	};

	if (length > FLMEM_PROFILE_STRING_MAX)
		text.length = FLMEM_PROFILE_STRING_MAX;
	search.hash = text.length;
	for (size_t i = 0; i < text.length; i++)
		search.hash = (search.hash ^ (unsigned char)bytes[i]) * UINT64_C(0x100000001b3);
	search.hash = sampler_hash(search.hash, 1);
	return find_or_add(&search);
}

static bool is_equal_frame(uint32_t record, const void *wanted)
{
	const struct flmem_profile_frame *a = &sampler_tables.frames[record], *b = wanted;

	return a->kind == b->kind && a->address == b->address && a->module == b->module &&
	       a->function == b->function && a->file == b->file && a->line == b->line &&
	       a->first_line == b->first_line;
}

static uint32_t add_frame_record(const void *wanted)
{
	uint32_t record = sampler_section_add(FLMEM_PROFILE_SECTION_FRAMES);
	struct flmem_profile_frame *frame;

	if (record == FLMEM_PROFILE_NONE) {
		sampler_drop(FLMEM_PROFILE_DROP_FRAMES_FULL);
		return record;
	}
	frame = &sampler_tables.frames[record];
	*frame = *(const struct flmem_profile_frame *)wanted;
	__atomic_store_n(&frame->state, FLMEM_PROFILE_READY, __ATOMIC_RELEASE);
	return record;
}

uint32_t sampler_frame_find(const struct flmem_profile_frame *frame)
{
	const struct table_search search = {
		.index = &sampler_tables.frame_index,
		.hash = sampler_hash(frame->address ^ ((uint64_t)frame->line << 40),
				     ((uint64_t)frame->function << 32) ^ frame->file ^
					     ((uint64_t)frame->module << 16)),
		.wanted = frame,
		.is_equal = is_equal_frame,
		.add = add_frame_record,
	};

	return find_or_add(&search);
}

static bool is_equal_node(uint32_t record, const void *wanted)
{
	const struct flmem_profile_node *a = &sampler_tables.nodes[record], *b = wanted;

	return a->parent == b->parent && a->frame == b->frame;
}

static uint32_t add_node_record(const void *wanted)
{
	uint32_t record = sampler_section_add(FLMEM_PROFILE_SECTION_NODES);
	struct flmem_profile_node *node;

	if (record == FLMEM_PROFILE_NONE) {
		sampler_drop(FLMEM_PROFILE_DROP_NODES_FULL);
		return record;
	}
	node = &sampler_tables.nodes[record];
	*node = *(const struct flmem_profile_node *)wanted;
	__atomic_store_n(&node->state, FLMEM_PROFILE_READY, __ATOMIC_RELEASE);
	return record;
}

uint32_t sampler_node_find(uint32_t parent, uint32_t frame)
{
	const struct flmem_profile_node node = {
		.parent = parent,
		.frame = frame,
		.depth = sampler_tables.nodes[parent].depth + 1,
	};
	const struct table_search search = {
		.index = &sampler_tables.node_index,
		.hash = sampler_hash(parent, frame),
		.wanted = &node,
		.is_equal = is_equal_node,
		.add = add_node_record,
	};

	return find_or_add(&search);
}

static bool is_equal_site(uint32_t record, const void *wanted)
{
	const struct flmem_profile_site *a = &sampler_tables.sites[record], *b = wanted;

	return a->node == b->node && a->kind == b->kind;
}

static uint32_t add_site_record(const void *wanted)
{
	uint32_t record = sampler_section_add(FLMEM_PROFILE_SECTION_SITES);
	struct flmem_profile_site *site;

	if (record == FLMEM_PROFILE_NONE)
		return record;
	site = &sampler_tables.sites[record];
	*site = *(const struct flmem_profile_site *)wanted;
	__atomic_store_n(&site->state, FLMEM_PROFILE_READY, __ATOMIC_RELEASE);
	return record;
}

uint32_t sampler_site_find(uint32_t node, uint32_t kind)
{
	const struct flmem_profile_site site = {.node = node, .kind = kind};
	const struct table_search search = {
		.index = &sampler_tables.site_index,
		.hash = sampler_hash(node, kind + 7),
		.wanted = &site,
		.is_equal = is_equal_site,
		.add = add_site_record,
	};

	return find_or_add(&search);
}

static bool is_equal_cell(uint32_t record, const void *wanted)
{
	const struct flmem_profile_cell *a = &sampler_tables.cells[record], *b = wanted;

	return a->site == b->site && a->round == b->round;
}

static uint32_t add_cell_record(const void *wanted)
{
	uint32_t record = sampler_section_add(FLMEM_PROFILE_SECTION_CELLS);
	struct flmem_profile_cell *cell;

	if (record == FLMEM_PROFILE_NONE)
		return record;
	cell = &sampler_tables.cells[record];
	*cell = *(const struct flmem_profile_cell *)wanted;
	__atomic_store_n(&cell->state, FLMEM_PROFILE_READY, __ATOMIC_RELEASE);
	return record;
}

uint32_t sampler_cell_find(uint32_t site, uint32_t round)
{
	const struct flmem_profile_cell cell = {.site = site, .round = round};
	const struct table_search search = {
		.index = &sampler_tables.cell_index,
		.hash = sampler_hash(site, round + UINT64_C(0x100000000)),
		.wanted = &cell,
		.is_equal = is_equal_cell,
		.add = add_cell_record,
	};

	return find_or_add(&search);
}
