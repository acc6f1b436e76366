/* SPDX-License-Identifier: Apache-2.0 */
#include "report/heap_json.h"

#include <inttypes.h>
#include <stdio.h>

static void add_rounds(cJSON *row, const struct flmem_heap_profile *p)
{
	cJSON *list = cJSON_AddArrayToObject(row, "rounds");

	for (size_t i = 0; i < p->round_count; i++) {
		const struct flmem_heap_round *from = &p->rounds[i];
		cJSON *round = cJSON_CreateObject();

		cJSON_AddItemToArray(list, round);
		if (from->number.unknown)
			cJSON_AddNullToObject(round, "number"); /* memory before the first round */
		else
			flmem_json_add_u64(round, "number", from->number.value);
		flmem_json_add_real(round, "started_s", (double)from->started_us / 1e6);
		flmem_json_add_u64(round, "allocated_bytes", from->allocated_bytes);
		flmem_json_add_u64(round, "freed_bytes", from->freed_bytes);
		flmem_json_add_u64(round, "peak_bytes", from->peak_bytes);
	}
}

static void add_lacking_parts(cJSON *row, const struct flmem_heap_profile *p)
{
	cJSON *list = cJSON_AddArrayToObject(row, "missing");

	for (enum flmem_heap_part part = 0; part < FLMEM_HEAP_PART_COUNT; part++)
		if (p->lacks >> part & 1U)
			cJSON_AddItemToArray(list, cJSON_CreateString(flmem_heap_part_name(part)));
}

static void add_selected_rounds(cJSON *row, const struct flmem_heap_profile *p)
{
	cJSON *selected;

	if (!p->by_round) {
		cJSON_AddNullToObject(row, "selected_rounds");
		return;
	}
	selected = cJSON_AddObjectToObject(row, "selected_rounds");
	flmem_json_add_u64(selected, "first", p->first_round);
	flmem_json_add_u64(selected, "last", p->last_round);
}

static struct flmem_u64 recorded_number(const struct flmem_heap_profile *p, uint64_t value)
{
	return (struct flmem_u64){.value = value, .unknown = p->unrecorded};
}

static void add_recorded_s(cJSON *row, cJSON *unknown, const char *name,
			   const struct flmem_heap_profile *p, uint64_t us)
{
	if (!p->unrecorded) {
		flmem_json_add_real(row, name, (double)us / 1e6);
		return;
	}
	cJSON_AddNullToObject(row, name);
	cJSON_AddStringToObject(unknown, name, p->unrecorded);
}

/* Adds the fields that an allocator's dump does not have. */
static void add_recorded(cJSON *row, const struct flmem_heap_profile *p)
{
	cJSON *unknown = cJSON_CreateObject();

	flmem_json_add_value(row, unknown, "pid", recorded_number(p, p->pid));
	add_recorded_s(row, unknown, "started_s", p, p->started_us);
	add_recorded_s(row, unknown, "duration_s", p, p->duration_us);
	cJSON_AddBoolToObject(row, "began_late", p->began_late);
	cJSON_AddBoolToObject(row, "restricted", p->restricted);
	flmem_json_add_value(row, unknown, "samples", recorded_number(p, p->samples));
	flmem_json_add_value(row, unknown, "peak_bytes", recorded_number(p, p->peak_bytes));
	add_recorded_s(row, unknown, "peak_at_s", p, p->peak_at_us);
	cJSON_AddItemToObject(row, "unknown", unknown);
}

void flmem_json_add_heap_profile(cJSON *object, const char *name,
				 const struct flmem_heap_profile *profile)
{
	const struct flmem_heap_profile *p = profile;
	cJSON *row = cJSON_AddObjectToObject(object, name);

	flmem_json_add_text(row, "path", p->path);
	flmem_json_add_text(row, "program", p->program);
	flmem_json_add_text(row, "command", p->command);
	flmem_json_add_text(row, "allocator", p->allocator);
	add_recorded(row, p);
	cJSON_AddStringToObject(row, "state", flmem_heap_ending_name(p->ending));
	flmem_json_add_u64(row, "interval_bytes", p->interval_bytes);
	flmem_json_add_u64(row, "interval_now_bytes", p->interval_now_bytes);
	flmem_json_add_u64(row, "interval_full_bytes", p->interval_full_bytes);
	cJSON_AddStringToObject(row, "stacks", flmem_heap_stacks_name(p->stacks));
	cJSON_AddBoolToObject(row, "has_python", p->has_python);
	cJSON_AddBoolToObject(row, "has_native", p->has_native);
	flmem_json_add_text(row, "no_python", p->no_python);
	cJSON_AddBoolToObject(row, "changing", p->changing);
	cJSON_AddBoolToObject(row, "truncated", p->cut);
	add_lacking_parts(row, p);
	flmem_json_add_u64(row, "skipped_records", p->skipped);
	flmem_json_add_u64(row, "lost_samples", p->lost_samples);
	flmem_json_add_u64(row, "failed_samples", p->untaken_samples);
	flmem_json_add_u64(row, "lost_bytes", p->lost_bytes);
	flmem_json_add_u64(row, "cut_stacks", p->cut_stacks);
	flmem_json_add_u64(row, "full_stacks", p->full_stacks);
	flmem_json_add_u64(row, "lost_rounds", p->lost_rounds);
	flmem_json_add_u64(row, "restarted_rounds", p->restarted_rounds);
	flmem_json_add_u64(row, "unread_frames", p->unread_frames);
	flmem_json_add_u64(row, "lost_names", p->lost_names);
	flmem_json_add_u64(row, "lost_modules", p->lost_modules);
	flmem_json_add_u64(row, "lost_threads", p->lost_threads);
	flmem_json_add_u64(row, "unseen_calls", p->unseen_calls);
	flmem_json_add_u64(row, "unmixed_stacks", p->unmixed_stacks);
	flmem_json_add_u64(row, "unrecorded_children", p->lost_children);
	flmem_json_add_text(row, "unrecorded_children_reason", p->lost_children_reason);
	add_selected_rounds(row, p);
	add_rounds(row, p);
}

void flmem_json_add_heap_amounts(cJSON *object, const char *name,
				 const struct flmem_heap_profile *profile,
				 const struct flmem_heap_amounts *amounts)
{
	cJSON *row = cJSON_AddObjectToObject(object, name), *unknown = cJSON_CreateObject();

	for (enum flmem_heap_measure m = 0; m < FLMEM_HEAP_MEASURE_COUNT; m++) {
		char member[32];

		snprintf(member, sizeof(member), "%s_bytes", flmem_heap_measure_name(m));
		flmem_json_add_value(row, unknown, member, flmem_heap_bytes(profile, amounts, m));
		if (m == FLMEM_HEAP_PEAK) /* the profile has no counts at the peak */
			continue;
		snprintf(member, sizeof(member), "%s_count", flmem_heap_measure_name(m));
		flmem_json_add_value(row, unknown, member, flmem_heap_count(profile, amounts, m));
	}
	cJSON_AddItemToObject(row, "unknown", unknown);
}

static void fill_frame_json(cJSON *row, const struct flmem_heap_frame *frame)
{
	cJSON_AddStringToObject(row, "kind", frame->python ? "python" : "native");
	flmem_json_add_text(row, "function", frame->function);
	flmem_json_add_text(row, "file", frame->file);
	if (frame->line)
		flmem_json_add_u64(row, "line", frame->line);
	else
		cJSON_AddNullToObject(row, "line");
	flmem_json_add_text(row, "module", frame->module);
	if (frame->python)
		cJSON_AddNullToObject(row, "offset");
	else
		flmem_json_add_u64(row, "offset", frame->offset);
	flmem_json_add_text(row, "no_function",
			    frame->python || frame->function ? NULL : frame->unresolved);
}

void flmem_json_add_heap_frame(cJSON *object, const char *name,
			       const struct flmem_heap_frame *frame)
{
	if (frame)
		fill_frame_json(cJSON_AddObjectToObject(object, name), frame);
	else
		cJSON_AddNullToObject(object, name);
}

const struct flmem_heap_frame *flmem_json_heap_frame(const struct flmem_heap_profile *profile,
						     uint32_t frame)
{
	return frame == FLMEM_HEAP_NO_FRAME ? NULL : &profile->frames[frame];
}

void flmem_json_add_heap_own_frame(cJSON *object, cJSON *unknown,
				   const struct flmem_heap_frame *frame)
{
	flmem_json_add_heap_frame(object, "own_frame", frame);
	if (!frame)
		cJSON_AddStringToObject(unknown, "own_frame",
					"no frame of the stack is known to be the program's own");
}

cJSON *flmem_json_heap_difference(const struct flmem_heap_profile *const profiles[2],
				  enum flmem_heap_measure measure,
				  const struct flmem_heap_difference *difference)
{
	const struct flmem_heap_difference *d = difference;
	cJSON *object = cJSON_CreateObject(), *unknown = cJSON_CreateObject();

	flmem_json_add_heap_frame(object, "frame", d->no_frame ? NULL : &d->frame);
	flmem_json_add_heap_own_frame(object, unknown, d->has_own_frame ? &d->own_frame : NULL);
	cJSON_AddBoolToObject(object, "beyond_error", flmem_heap_is_change(profiles, d, measure));
	flmem_json_add_value(object, unknown, "change_error_bytes",
			     flmem_heap_change_error(profiles, d, measure));
	flmem_json_add_heap_amounts(object, "first", profiles[0], &d->own[0]);
	flmem_json_add_heap_amounts(object, "second", profiles[1], &d->own[1]);
	flmem_json_add_u64(object, "first_arena_bytes", d->arena_bytes[0]);
	flmem_json_add_u64(object, "second_arena_bytes", d->arena_bytes[1]);
	cJSON_AddItemToObject(object, "unknown", unknown);
	return object;
}

cJSON *flmem_json_heap_frame_object(const struct flmem_heap_profile *profile, uint32_t frame)
{
	cJSON *row = cJSON_CreateObject();

	fill_frame_json(row, &profile->frames[frame]);
	return row;
}

void flmem_json_add_heap_stack(cJSON *object, const struct flmem_heap_profile *profile,
			       uint32_t node)
{
	cJSON *list = cJSON_AddArrayToObject(object, "stack");

	for (; node; node = profile->nodes[node].parent)
		cJSON_AddItemToArray(
			list, flmem_json_heap_frame_object(profile, profile->nodes[node].frame));
}
