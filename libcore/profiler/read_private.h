/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_PROFILER_READ_PRIVATE_H
#define FLMEM_PROFILER_READ_PRIVATE_H

/* Shared by the files that read a profile. Maps lead from records to elements of the profile. */

#include <flmem/heap_profile.h>

#include "profiler/frame_names.h"
#include "profiler/profile_file.h"
#include "profiler/string_pool.h"

struct flmem_profile_reader {
	const struct flmem_profile_file *file; /* NULL: the profile is a dump of jemalloc */
	struct flmem_heap_profile *profile;
	struct flmem_heap_module *modules;
	size_t module_count;
	uint32_t *module_of; /* for each frame: index of its module */
	uint32_t *frame_map; /* for each record: index of the frame + 1; 0: there is none */
	uint32_t *node_map;
	uint32_t *depths; /* for each record of a node: its depth */
	uint32_t *site_map;
	uint32_t *round_order; /* rounds of the profile, sorted by their numbers */
	size_t room;	       /* capacity of the list that is being read */
	bool failed;	       /* memory is out */
};

/* Returns the list with space for one more element, or NULL; then the reader has failed. */
void *flmem_profile_reader_grow(struct flmem_profile_reader *reader, void *rows, size_t count,
				size_t size);

/* Allocates a map for the records of a section; NULL if memory is out. */
uint32_t *flmem_profile_reader_map(struct flmem_profile_reader *reader,
				   enum flmem_profile_section_index section);

/* Returns a string as a kept text; NULL if there is none. */
const char *flmem_profile_reader_text(struct flmem_profile_reader *reader, uint32_t index);

/* Converts milliseconds of a record to microseconds; absurd values are limited. */
uint64_t flmem_profile_reader_us(uint64_t ms);

/* Reads the modules, the frames and the tree of stacks. */
bool flmem_profile_reader_stacks(struct flmem_profile_reader *reader, bool symbols);

/*
 * Adds a frame whose code is in a module of the reader, or in none: FLMEM_PROFILE_NONE.
 * `reader->room` is the capacity of the list of frames.
 */
bool flmem_profile_reader_push_frame(struct flmem_profile_reader *reader,
				     const struct flmem_heap_frame *frame, uint32_t module);

/* Names the frames where `symbols` is set, and merges equal ones: those of `records` in the map. */
bool flmem_profile_reader_finish_frames(struct flmem_profile_reader *reader, uint32_t records,
					bool symbols);

/* Adds a node. `reader->room` is the capacity of the list of nodes. */
bool flmem_profile_reader_push_node(struct flmem_profile_reader *reader, uint32_t parent,
				    uint32_t frame);

/* Reads the rounds; call it before anything that refers to them is read. */
bool flmem_profile_reader_rounds(struct flmem_profile_reader *reader);

/* Returns the index of the round with this number in the profile, or FLMEM_HEAP_NO_ROUND. */
uint32_t flmem_profile_reader_round(const struct flmem_profile_reader *reader, uint32_t number);

/* Reads the sites, their amounts by round, the survivors, and the timeline of the process. */
bool flmem_profile_reader_amounts(struct flmem_profile_reader *reader);

void flmem_profile_reader_clear(struct flmem_profile_reader *reader);

/* Does what is the same for all kinds of files: frames of one kind, order, rounds, totals. */
int flmem_profile_reader_finish(const struct flmem_heap_request *request,
				struct flmem_heap_profile *profile, struct flmem_error *err);

/* Fills a profile from an open dump of jemalloc (jemalloc_dump.h). */
int flmem_profile_read_jemalloc(const struct flmem_heap_request *request, int fd,
				struct flmem_heap_profile *profile, struct flmem_error *err);

/* Number of first bytes by which files that can be read are recognised. */
#define FLMEM_HEAP_MAGIC_BYTES 8

bool flmem_heap_profile_has_magic(const char magic[FLMEM_HEAP_MAGIC_BYTES]);

#endif
