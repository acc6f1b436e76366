/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "profiler/frames.h"
#include "profiler/index_set.h"
#include "profiler/module_files.h"
#include "profiler/read_private.h"

static bool add_profile_module(void *context, uint32_t index, const void *record)
{
	struct flmem_profile_reader *reader = context;
	const struct flmem_profile_module *from = record;
	struct flmem_heap_module *to = &reader->modules[index];

	to->start = from->start;
	to->end = from->end;
	to->bias = from->bias;
	to->path = flmem_profile_reader_text(reader, from->path);
	if (from->build_id_size <= sizeof(to->build_id)) {
		to->build_id_size = from->build_id_size;
		memcpy(to->build_id, from->build_id, from->build_id_size);
	}
	return !reader->failed;
}

static bool read_modules(struct flmem_profile_reader *reader)
{
	reader->module_count =
		flmem_profile_file_count(reader->file, FLMEM_PROFILE_SECTION_MODULES);
	reader->modules = calloc(reader->module_count + 1, sizeof(*reader->modules));
	if (!reader->modules)
		return false;
	return flmem_profile_file_visit(reader->file, FLMEM_PROFILE_SECTION_MODULES,
					add_profile_module, reader);
}

static bool fill_native(struct flmem_profile_reader *reader, const struct flmem_profile_frame *from,
			struct flmem_heap_frame *to, uint32_t *ret_module)
{
	const struct flmem_heap_module *module;

	*to = (struct flmem_heap_frame){.offset = from->address - 1};
	*ret_module = FLMEM_PROFILE_NONE;
	if (from->module == FLMEM_PROFILE_NONE) {
		to->unresolved = "the code was not in a file";
		return true;
	}
	if (from->module >= reader->module_count) {
		to->unresolved = "the profile was truncated before its modules";
		return FLMEM_HEAP_LACKS(reader->profile, MODULES);
	}
	/* A return address is after the call, perhaps after the end of the function. */
	module = &reader->modules[from->module];
	*ret_module = from->module;
	to->offset = from->address - 1 - module->bias;
	to->module = module->path;
	return true;
}

static bool fill_python(struct flmem_profile_reader *reader, const struct flmem_profile_frame *from,
			struct flmem_heap_frame *to, uint32_t *ret_module)
{
	*ret_module = FLMEM_PROFILE_NONE;
	*to = (struct flmem_heap_frame){
		.function = flmem_profile_reader_text(reader, from->function),
		.file = flmem_profile_reader_text(reader, from->file),
		.line = from->line,
		.python = true,
	};
	return to->function || to->file;
}

bool flmem_profile_reader_push_frame(struct flmem_profile_reader *reader,
				     const struct flmem_heap_frame *frame, uint32_t module)
{
	struct flmem_heap_profile *p = reader->profile;
	size_t room = reader->room;
	struct flmem_heap_frame *frames =
		flmem_profile_reader_grow(reader, p->frames, p->frame_count, sizeof(*frames));

	if (!frames)
		return false;
	p->frames = frames;
	if (room != reader->room) {
		uint32_t *of = reallocarray(reader->module_of, reader->room, sizeof(*of));

		reader->failed = !of;
		if (!of)
			return false;
		reader->module_of = of;
	}
	reader->module_of[p->frame_count] = module;
	p->frames[p->frame_count++] = *frame;
	return true;
}

static bool add_frame(void *context, uint32_t index, const void *record)
{
	struct flmem_profile_reader *reader = context;
	const struct flmem_profile_frame *from = record;
	struct flmem_heap_frame frame;
	uint32_t module;
	bool whole = false;

	if (from->kind == FLMEM_PROFILE_FRAME_PYTHON)
		whole = fill_python(reader, from, &frame, &module);
	else if (from->kind == FLMEM_PROFILE_FRAME_NATIVE)
		whole = fill_native(reader, from, &frame, &module);
	if (reader->failed)
		return false;
	if (!whole) {
		reader->profile->skipped++;
		return true;
	}
	if (!flmem_profile_reader_push_frame(reader, &frame, module))
		return false;
	reader->frame_map[index] = (uint32_t)reader->profile->frame_count;
	return true;
}

/*
 * Sorts frames by files: ends[i] is where the frames of file i end. Those without a module are left
 * out.
 */
static void sort_by_files(struct flmem_profile_reader *reader, const uint32_t *files,
			  const size_t *counts, size_t *ends, struct flmem_heap_frame **sorted)
{
	struct flmem_heap_profile *p = reader->profile;

	for (size_t i = 0; i < reader->module_count; i++)
		ends[files[i] + 1] += counts[i];
	for (size_t i = 0; i < reader->module_count; i++)
		ends[i + 1] += ends[i];
	/* ends[i] is where the frames of file i begin, and after the loop where they end. */
	for (size_t i = 0; i < p->frame_count; i++)
		if (reader->module_of[i] != FLMEM_PROFILE_NONE)
			sorted[ends[files[reader->module_of[i]]]++] = &p->frames[i];
}

/* Counts the frames of each module. NULL if memory is out. */
static size_t *count_module_frames(const struct flmem_profile_reader *reader)
{
	size_t *counts = calloc(reader->module_count + 1, sizeof(*counts));

	for (size_t i = 0; counts && i < reader->profile->frame_count; i++)
		if (reader->module_of[i] != FLMEM_PROFILE_NONE)
			counts[reader->module_of[i]]++;
	return counts;
}

static bool resolve_all(struct flmem_profile_reader *reader)
{
	struct flmem_heap_profile *p = reader->profile;
	FLMEM_AUTO_FREE size_t *counts = count_module_frames(reader);
	FLMEM_AUTO_FREE uint32_t *files =
		counts ? flmem_heap_module_files(reader->modules, counts, reader->module_count)
		       : NULL;
	FLMEM_AUTO_FREE size_t *ends = calloc(reader->module_count + 1, sizeof(*ends));
	FLMEM_AUTO_FREE struct flmem_heap_frame **sorted =
		calloc(p->frame_count + 1, sizeof(struct flmem_heap_frame *));
	bool whole = files && ends && sorted, debug_silent = false;

	if (whole)
		sort_by_files(reader, files, counts, ends, sorted);
	for (size_t i = 0, first = 0; whole && i < reader->module_count; first = ends[i++])
		if (ends[i] > first)
			whole = flmem_heap_symbols_resolve(&reader->modules[i], sorted + first,
							   ends[i] - first, p->texts,
							   &debug_silent);
	return whole;
}

struct frame_wanted {
	const struct flmem_heap_frame *frames, *frame;
};

static bool is_frame_wanted(const void *context, uint32_t index)
{
	const struct frame_wanted *wanted = context;

	return flmem_heap_frame_equal(&wanted->frames[index], wanted->frame, FLMEM_FRAME_LINE);
}

/* Merges equal frames, and changes the map accordingly. */
static bool merge_frames(struct flmem_profile_reader *reader, uint32_t records)
{
	struct flmem_heap_profile *p = reader->profile;
	FLMEM_AUTO_INDEX_SET struct flmem_index_set set;
	uint32_t count = 0;

	flmem_index_set_init(&set);
	for (uint32_t i = 0; i < records; i++) {
		struct frame_wanted wanted = {.frames = p->frames};
		struct flmem_index_key key = {.same = is_frame_wanted, .context = &wanted};
		uint32_t merged;

		if (!reader->frame_map[i])
			continue;
		wanted.frame = &p->frames[reader->frame_map[i] - 1];
		key.hash = flmem_heap_frame_hash(set.seed, wanted.frame, FLMEM_FRAME_LINE);
		merged = flmem_index_set_take(&set, &key, count);
		if (merged == FLMEM_INDEX_NONE)
			return false;
		if (merged == count)
			p->frames[count++] = *wanted.frame;
		reader->frame_map[i] = merged + 1;
	}
	p->frame_count = count;
	for (size_t i = 0; i < count; i++) {
		p->has_python |= p->frames[i].python;
		p->has_native |= !p->frames[i].python;
	}
	return true;
}

bool flmem_profile_reader_finish_frames(struct flmem_profile_reader *reader, uint32_t records,
					bool symbols)
{
	return (!symbols || resolve_all(reader)) && merge_frames(reader, records);
}

static bool read_frames(struct flmem_profile_reader *reader, bool symbols)
{
	reader->frame_map = flmem_profile_reader_map(reader, FLMEM_PROFILE_SECTION_FRAMES);
	if (!reader->frame_map ||
	    !flmem_profile_file_visit(reader->file, FLMEM_PROFILE_SECTION_FRAMES, add_frame,
				      reader))
		return false;
	return flmem_profile_reader_finish_frames(
		reader, flmem_profile_file_count(reader->file, FLMEM_PROFILE_SECTION_FRAMES),
		symbols);
}

bool flmem_profile_reader_push_node(struct flmem_profile_reader *reader, uint32_t parent,
				    uint32_t frame)
{
	struct flmem_heap_profile *p = reader->profile;
	struct flmem_heap_node *nodes =
		flmem_profile_reader_grow(reader, p->nodes, p->node_count, sizeof(*nodes));

	if (!nodes)
		return false;
	p->nodes = nodes;
	p->nodes[p->node_count++] = (struct flmem_heap_node){parent, frame};
	return true;
}

/*
 * True for operator new, which allocates for its caller as malloc() does; that has no frame,
 * either.
 */
static bool is_operator_new(const struct flmem_heap_frame *frame)
{
	return !frame->python && frame->function &&
	       (strcmp(frame->function, "operator new") == 0 ||
		strcmp(frame->function, "operator new[]") == 0);
}

/*
 * Adds a node. Parents come before their children, which also excludes cycles. A node without one
 * belongs to the root; one without a frame stands for its parent.
 */
static bool add_profile_node(void *context, uint32_t index, const void *record)
{
	struct flmem_profile_reader *reader = context;
	const struct flmem_profile_node *from = record;
	uint32_t frames = flmem_profile_file_count(reader->file, FLMEM_PROFILE_SECTION_FRAMES);
	uint32_t frame = from->frame < frames ? reader->frame_map[from->frame] : 0;
	uint32_t above = from->parent, *depth = reader->depths;

	if (index == FLMEM_PROFILE_ROOT)
		return true;
	if (above >= index || !reader->node_map[above]) {
		reader->profile->skipped++;
		above = FLMEM_PROFILE_ROOT;
	}
	depth[index] = depth[above];
	reader->node_map[index] = reader->node_map[above];
	if (frame && above != FLMEM_PROFILE_ROOT &&
	    is_operator_new(&reader->profile->frames[frame - 1]))
		return true;
	if (!frame || depth[above] >= FLMEM_PROFILE_DEPTH) {
		reader->profile->skipped++;
		return true;
	}
	if (!flmem_profile_reader_push_node(reader, reader->node_map[above] - 1, frame - 1))
		return false;
	depth[index]++;
	reader->node_map[index] = (uint32_t)reader->profile->node_count;
	return true;
}

bool flmem_profile_reader_stacks(struct flmem_profile_reader *reader, bool symbols)
{
	if (!read_modules(reader))
		return false;
	reader->room = 0;
	if (!read_frames(reader, symbols))
		return false;
	reader->room = 0;
	reader->node_map = flmem_profile_reader_map(reader, FLMEM_PROFILE_SECTION_NODES);
	reader->depths = flmem_profile_reader_map(reader, FLMEM_PROFILE_SECTION_NODES);
	if (!reader->node_map || !reader->depths ||
	    !flmem_profile_reader_push_node(reader, 0, FLMEM_HEAP_NO_FRAME))
		return false;
	reader->node_map[FLMEM_PROFILE_ROOT] = 1;
	return flmem_profile_file_visit(reader->file, FLMEM_PROFILE_SECTION_NODES, add_profile_node,
					reader);
}
