/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_TESTS_PROFILE_MAKER_H
#define FLMEM_TESTS_PROFILE_MAKER_H

/* Makes small files of heap profiles, record by record, as the sampler writes them. */

#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "preload/profile_format.h"

#define MADE_CAPACITY 256U
#define MADE_FIRST    FLMEM_PROFILE_HEADER_SIZE

struct profile_maker {
	char *bytes;
	size_t size;
	struct flmem_profile_header *header;
};

#define MADE_SECTION(maker, name) (&(maker)->header->section[FLMEM_PROFILE_SECTION_##name])

static inline void maker_init(struct profile_maker *maker)
{
#define MADE_ROW(identifier, index, name, type) [index] = sizeof(struct type),
	static const uint32_t sizes[] = {FLMEM_PROFILE_SECTIONS(MADE_ROW)};
#undef MADE_ROW
	const size_t sections = sizeof(sizes) / sizeof(sizes[0]);
	struct flmem_profile_header *h;
	size_t size = MADE_FIRST;

	for (size_t i = 0; i < sections; i++)
		size += (size_t)sizes[i] * MADE_CAPACITY;
	maker->size = size;
	maker->bytes = calloc(1, size);
	if (!maker->bytes)
		abort();
	maker->header = h = (struct flmem_profile_header *)(void *)maker->bytes;
	memcpy(h->magic, FLMEM_PROFILE_MAGIC, sizeof(h->magic));
	h->version = FLMEM_PROFILE_VERSION;
	h->header_size = FLMEM_PROFILE_HEADER_SIZE;
	h->order = FLMEM_PROFILE_ORDER;
	h->phase = FLMEM_PROFILE_ENDED;
	h->sections = (uint32_t)sections;
	h->file_size = size;
	h->interval_bytes = h->interval_now_bytes = FLMEM_PROFILE_INTERVAL;
	h->start_realtime_ms = 1700000000000U;
	h->python_state = FLMEM_PROFILE_PYTHON_READ;
	h->cells_full_round = FLMEM_PROFILE_ROUND_NONE;
	h->peak_epoch = 1;
	snprintf(h->command, sizeof(h->command), "python3 server.py");
	size = MADE_FIRST;
	for (size_t i = 0; i < sections; i++) {
		h->section[i] = (struct flmem_profile_section){
			.offset = size, .record_size = sizes[i], .capacity = MADE_CAPACITY};
		size += (size_t)sizes[i] * MADE_CAPACITY;
	}
	MADE_SECTION(maker, NODES)->used = 1; /* the root node */
}

static inline void maker_clear(struct profile_maker *maker)
{
	free(maker->bytes);
	maker->bytes = NULL;
}

/* Appends records to a section and returns them. */
static inline void *maker_take(struct profile_maker *maker, struct flmem_profile_section *section,
			       uint32_t count, uint32_t *ret_index)
{
	if (section->used + count > section->capacity)
		abort();
	*ret_index = section->used;
	section->used += count;
	return maker->bytes + section->offset + (size_t)*ret_index * section->record_size;
}

#define MADE_RECORD(maker, name, index) maker_take((maker), MADE_SECTION(maker, name), 1, (index))

static inline uint32_t maker_string(struct profile_maker *maker, const char *text)
{
	size_t length = strlen(text), head = offsetof(struct flmem_profile_string_block, bytes);
	size_t size = sizeof(struct flmem_profile_string_block);
	uint32_t blocks = (uint32_t)((head + length + size - 1) / size), index;
	struct flmem_profile_string_block *block =
		maker_take(maker, MADE_SECTION(maker, STRINGS), blocks, &index);

	block->state = FLMEM_PROFILE_READY;
	block->length = (uint16_t)length;
	block->blocks = (uint16_t)blocks;
	memcpy((char *)block + head, text, length);
	return index;
}

static inline uint32_t maker_python(struct profile_maker *maker, const char *function,
				    const char *file, uint32_t line)
{
	uint32_t strings[2] = {maker_string(maker, function), maker_string(maker, file)}, index;
	struct flmem_profile_frame *frame = MADE_RECORD(maker, FRAMES, &index);

	*frame = (struct flmem_profile_frame){.state = FLMEM_PROFILE_READY,
					      .kind = FLMEM_PROFILE_FRAME_PYTHON,
					      .function = strings[0],
					      .file = strings[1],
					      .line = line,
					      .module = FLMEM_PROFILE_NONE};
	return index;
}

static inline uint32_t maker_native(struct profile_maker *maker, uint64_t address, uint32_t module)
{
	uint32_t index;
	struct flmem_profile_frame *frame = MADE_RECORD(maker, FRAMES, &index);

	*frame = (struct flmem_profile_frame){.state = FLMEM_PROFILE_READY,
					      .kind = FLMEM_PROFILE_FRAME_NATIVE,
					      .function = FLMEM_PROFILE_NONE,
					      .file = FLMEM_PROFILE_NONE,
					      .address = address,
					      .module = module};
	return index;
}

static inline struct flmem_profile_module *maker_module(struct profile_maker *maker,
							const char *path)
{
	uint32_t string = maker_string(maker, path), index;
	struct flmem_profile_module *module = MADE_RECORD(maker, MODULES, &index);

	*module = (struct flmem_profile_module){.state = FLMEM_PROFILE_READY, .path = string};
	return module;
}

static inline uint32_t maker_node(struct profile_maker *maker, uint32_t parent, uint32_t frame)
{
	uint32_t index;
	struct flmem_profile_node *node = MADE_RECORD(maker, NODES, &index);

	*node = (struct flmem_profile_node){
		.state = FLMEM_PROFILE_READY, .parent = parent, .frame = frame, .depth = 1};
	return index;
}

static inline struct flmem_profile_site *maker_site(struct profile_maker *maker, uint32_t node,
						    uint64_t allocated, uint64_t freed)
{
	uint32_t index;
	struct flmem_profile_site *site = MADE_RECORD(maker, SITES, &index);

	*site = (struct flmem_profile_site){
		.state = FLMEM_PROFILE_READY,
		.node = node,
		.totals = {.allocated_bytes = allocated,
			   .allocated_count = 4 * FLMEM_PROFILE_COUNT_UNIT,
			   .freed_bytes = freed,
			   .freed_count = 1 * FLMEM_PROFILE_COUNT_UNIT,
			   .samples = 4}};
	return site;
}

static inline void maker_round(struct profile_maker *maker, uint32_t round, uint64_t start_ms)
{
	uint32_t index;
	struct flmem_profile_round *row = MADE_RECORD(maker, ROUNDS, &index);

	*row = (struct flmem_profile_round){
		.state = FLMEM_PROFILE_READY, .round = round, .start_ms = start_ms};
}

static inline void maker_cell(struct profile_maker *maker, uint32_t site, uint32_t round,
			      uint64_t allocated, uint64_t freed)
{
	uint32_t index;
	struct flmem_profile_cell *cell = MADE_RECORD(maker, CELLS, &index);

	*cell = (struct flmem_profile_cell){.state = FLMEM_PROFILE_READY,
					    .site = site,
					    .round = round,
					    .allocated_bytes = allocated,
					    .allocated_count = 2 * FLMEM_PROFILE_COUNT_UNIT,
					    .freed_bytes = freed,
					    .freed_count = freed ? FLMEM_PROFILE_COUNT_UNIT : 0};
}

static inline void maker_live(struct profile_maker *maker, uint32_t site, uint32_t round,
			      uint64_t time_ms, uint64_t bytes)
{
	uint32_t index;
	struct flmem_profile_live *live = MADE_RECORD(maker, LIVE, &index);

	*live = (struct flmem_profile_live){.state = FLMEM_PROFILE_READY,
					    .site = site,
					    .size = bytes,
					    .weight_bytes = bytes,
					    .weight_count = FLMEM_PROFILE_COUNT_UNIT,
					    .time_ms = time_ms,
					    .thread = FLMEM_PROFILE_NONE,
					    .round = round};
}

static inline void maker_moment(struct profile_maker *maker, uint32_t round, uint64_t time_ms,
				uint64_t rss, uint64_t live)
{
	uint32_t index;
	struct flmem_profile_moment *moment = MADE_RECORD(maker, TIMELINE, &index);

	*moment = (struct flmem_profile_moment){.state = FLMEM_PROFILE_READY,
						.round = round,
						.time_ms = time_ms,
						.rss_bytes = rss,
						.live_bytes = live};
}

static inline void maker_write(const struct profile_maker *maker, const char *path, size_t size)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	if (fd < 0 || write(fd, maker->bytes, size) != (ssize_t)size)
		abort();
	close(fd);
}

#endif
