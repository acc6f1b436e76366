/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_PROFILER_READ_PRIVATE_H
#define FLMEM_PROFILER_READ_PRIVATE_H

/* Shared by the files that read a profile. Maps lead from records to elements of the profile. */

#include <flmem/heap_profile.h>

#include "profiler/frame_names.h"
#include "profiler/profile_file.h"
#include "profiler/string_pool.h"

struct flmem_profile_reader {
	const struct flmem_profile_file *file; /* NULL: a dump of jemalloc */
	struct flmem_heap_profile *profile;
	struct flmem_heap_module *modules;
	size_t module_count;
	uint32_t *module_of; /* by frame */
	uint32_t *frame_map; /* index + 1; 0: there is none */
	uint32_t *node_map;
	uint32_t *depths; /* by record of a node */
	uint32_t *site_map;
	uint32_t *round_order; /* rounds of the profile by their numbers */
	size_t room;	       /* of the list that is being read */
	bool failed;	       /* memory is out */
};

/* Space for one more element of a list, or NULL; then the reader has failed. */
void *flmem_profile_reader_grow(struct flmem_profile_reader *reader, void *rows, size_t count,
				size_t size);

/* A map for the records of a section; NULL: memory is out. */
uint32_t *flmem_profile_reader_map(struct flmem_profile_reader *reader,
				   enum flmem_profile_section_index section);

/* A string as a kept text; NULL if there is none. */
const char *flmem_profile_reader_text(struct flmem_profile_reader *reader, uint32_t index);

/* Milliseconds of a record as microseconds; absurd values are limited. */
uint64_t flmem_profile_reader_us(uint64_t ms);

/* Modules, frames, and the tree of stacks. */
bool flmem_profile_reader_stacks(struct flmem_profile_reader *reader, bool symbols);

/*
 * Adds a frame whose code is in a module of the reader, or FLMEM_PROFILE_NONE. `reader->room` is
 * that of the frames.
 */
bool flmem_profile_reader_push_frame(struct flmem_profile_reader *reader,
				     const struct flmem_heap_frame *frame, uint32_t module);

/* Names the frames where `symbols` is set, and merges equal ones: those of `records` in the map. */
bool flmem_profile_reader_finish_frames(struct flmem_profile_reader *reader, uint32_t records,
					bool symbols);

/* `reader->room` is that of the nodes. */
bool flmem_profile_reader_push_node(struct flmem_profile_reader *reader, uint32_t parent,
				    uint32_t frame);

/* Rounds; to be read before what refers to them. */
bool flmem_profile_reader_rounds(struct flmem_profile_reader *reader);

/* The round with this number in the list of the profile, or FLMEM_HEAP_NO_ROUND. */
uint32_t flmem_profile_reader_round(const struct flmem_profile_reader *reader, uint32_t number);

/* Sites, their amounts by round, the survivors; the timeline of the process. */
bool flmem_profile_reader_amounts(struct flmem_profile_reader *reader);

void flmem_profile_reader_clear(struct flmem_profile_reader *reader);

/* What is the same for all kinds of files: frames of one kind, order, rounds, totals. */
int flmem_profile_reader_finish(const struct flmem_heap_request *request,
				struct flmem_heap_profile *profile, struct flmem_error *err);

/* Fills a profile from an open dump of jemalloc (jemalloc_dump.h). */
int flmem_profile_read_jemalloc(const struct flmem_heap_request *request, int fd,
				struct flmem_heap_profile *profile, struct flmem_error *err);

/* The first bytes of files that can be read. */
#define FLMEM_HEAP_MAGIC_BYTES 8

bool flmem_heap_profile_has_magic(const char magic[FLMEM_HEAP_MAGIC_BYTES]);

#endif
