/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include <flmem/report.h>

#include "report/json_build.h"

/* An object in `parent`, with a member "unknown" for the reasons of unknown fields. */
struct json_section {
	cJSON *fields;
	cJSON *unknown;
};

static struct json_section open_section(cJSON *parent, const char *name)
{
	struct json_section section;

	section.fields = cJSON_AddObjectToObject(parent, name);
	section.unknown = cJSON_CreateObject();
	return section;
}

static void close_section(const struct json_section *section)
{
	cJSON_AddItemToObject(section->fields, "unknown", section->unknown);
}

static void add_section_value(const struct json_section *section, const char *name,
			      struct flmem_u64 value)
{
	flmem_json_add_value(section->fields, section->unknown, name, value);
}

static void add_flag(const struct json_section *section, const char *name, struct flmem_u64 value)
{
	if (value.unknown)
		add_section_value(section, name, value);
	else
		cJSON_AddBoolToObject(section->fields, name, value.value != 0);
}

static void add_arena_list(const struct json_section *section,
			   const struct flmem_arena_list *arenas)
{
	cJSON *list;

	if (arenas->unknown) {
		cJSON_AddNullToObject(section->fields, "arena_list");
		cJSON_AddStringToObject(section->unknown, "arena_list", arenas->unknown);
		return;
	}
	list = cJSON_AddArrayToObject(section->fields, "arena_list");
	for (size_t i = 0; i < arenas->count; i++) {
		const struct flmem_arena_report *arena = &arenas->rows[i];
		cJSON *row = cJSON_CreateObject();

		flmem_json_add_u64(row, "number", arena->number);
		if (arena->threads.unknown)
			cJSON_AddNullToObject(row, "threads");
		else
			flmem_json_add_u64(row, "threads", arena->threads.value);
		flmem_json_add_u64(row, "resident_bytes", arena->resident_bytes);
		flmem_json_add_u64(row, "trimmable_bytes", arena->trimmable_bytes);
		cJSON_AddItemToArray(list, row);
	}
}

static void add_heap(cJSON *object, const struct flmem_heap_report *heap)
{
	struct json_section section = open_section(object, "heap");

	add_section_value(&section, "resident_bytes", heap->resident_bytes);
	add_section_value(&section, "in_use_bytes", heap->in_use_bytes);
	add_section_value(&section, "free_resident_bytes", heap->free_resident_bytes);
	add_section_value(&section, "trimmable_bytes", heap->trimmable_bytes);
	add_section_value(&section, "decaying_bytes", heap->decaying_bytes);
	add_section_value(&section, "pinned_bytes", heap->pinned_bytes);
	add_section_value(&section, "cached_bytes", heap->cached_bytes);
	add_section_value(&section, "metadata_bytes", heap->metadata_bytes);
	add_section_value(&section, "mmapped_bytes", heap->mmapped_bytes);
	add_section_value(&section, "free_bytes", heap->free_bytes);
	add_section_value(&section, "arenas", heap->arenas);
	add_section_value(&section, "error_bytes", heap->error_bytes);
	flmem_json_add_text(section.fields, "method", heap->method);
	add_section_value(&section, "trim_threshold_bytes", heap->trim_threshold_bytes);
	add_section_value(&section, "mmap_threshold_bytes", heap->mmap_threshold_bytes);
	add_section_value(&section, "arena_max", heap->arena_max);
	add_flag(&section, "threshold_raised", heap->threshold_raised);
	add_arena_list(&section, &heap->arena_list);
	close_section(&section);
}

static const char *linkage_name(enum flmem_linkage linkage)
{
	switch (linkage) {
	case FLMEM_LINKAGE_SHARED:
		return "shared";
	case FLMEM_LINKAGE_STATIC:
		return "static";
	}
	return NULL;
}

/* Adds the figures under the allocator's own names, one field each. */
static void add_own_figures(cJSON *object, const struct flmem_heap_report *heap)
{
	struct json_section section = open_section(object, "own");

	for (size_t i = 0; i < heap->own_count; i++) {
		char name[48];

		snprintf(name, sizeof(name), "%s_bytes", heap->own[i].name);
		add_section_value(&section, name, heap->own[i].bytes);
	}
	close_section(&section);
}

static void add_query(cJSON *object, const struct flmem_query_report *query)
{
	cJSON *fields;

	if (!query->tried) {
		cJSON_AddNullToObject(object, "query");
		return;
	}
	fields = cJSON_AddObjectToObject(object, "query");
	flmem_json_add_text(fields, "code", query->code ? flmem_code_name(query->code) : NULL);
	flmem_json_add_text(fields, "reason", query->code ? query->reason : NULL);
	if (query->thread)
		cJSON_AddNumberToObject(fields, "thread", query->thread);
	else
		cJSON_AddNullToObject(fields, "thread");
	cJSON_AddNumberToObject(fields, "stopped_us", (double)query->stopped_us);
}

static cJSON *allocator_object(const struct flmem_allocator_report *allocator)
{
	cJSON *object = cJSON_CreateObject();

	flmem_json_add_text(object, "name", flmem_allocator_name(allocator->kind));
	flmem_json_add_text(object, "version", allocator->version);
	flmem_json_add_text(object, "linkage", linkage_name(allocator->linkage));
	flmem_json_add_text(object, "path", allocator->path);
	flmem_json_add_text(object, "prefix", allocator->prefix);
	cJSON_AddBoolToObject(object, "serves_malloc", allocator->serves_malloc);
	flmem_json_add_text(object, "evidence", allocator->evidence);
	add_heap(object, &allocator->heap);
	add_own_figures(object, &allocator->heap);
	return object;
}

static void add_allocators(cJSON *object, cJSON *unknown, const struct flmem_process_report *report)
{
	cJSON *list;

	if (report->allocators_unknown) {
		cJSON_AddNullToObject(object, "allocators");
		cJSON_AddStringToObject(unknown, "allocators", report->allocators_unknown);
		return;
	}
	list = cJSON_AddArrayToObject(object, "allocators");
	for (size_t i = 0; i < report->allocator_count; i++)
		cJSON_AddItemToArray(list, allocator_object(&report->allocators[i]));
}

static void add_memory(cJSON *object, const struct flmem_memory_report *memory)
{
	struct json_section section = open_section(object, "memory");

	add_section_value(&section, "rss_bytes", memory->rss_bytes);
	add_section_value(&section, "anon_bytes", memory->anon_bytes);
	add_section_value(&section, "file_bytes", memory->file_bytes);
	add_section_value(&section, "shmem_bytes", memory->shmem_bytes);
	add_section_value(&section, "swap_bytes", memory->swap_bytes);
	add_section_value(&section, "hugetlb_bytes", memory->hugetlb_bytes);
	add_section_value(&section, "thp_bytes", memory->thp_bytes);
	add_section_value(&section, "madv_free_bytes", memory->madv_free_bytes);
	add_section_value(&section, "drift_bytes", memory->drift_bytes);
	close_section(&section);
}

static void add_python_fields(const struct json_section *section,
			      const struct flmem_python_report *python)
{
	add_section_value(section, "arenas", python->arenas);
	add_section_value(section, "arenas_bytes", python->arenas_bytes);
	add_section_value(section, "used_bytes", python->used_bytes);
	add_section_value(section, "free_bytes", python->free_bytes);
	add_section_value(section, "error_bytes", python->error_bytes);
	add_section_value(section, "threads", python->threads);
	add_flag(section, "gil_held", python->gil_held);
	if (python->gil_holder)
		cJSON_AddNumberToObject(section->fields, "gil_holder", python->gil_holder);
	else
		cJSON_AddNullToObject(section->fields, "gil_holder");
	add_flag(section, "finalizing", python->finalizing);
}

/* Adds null without CPython, and the reason if that could not be determined. */
static void add_python(cJSON *object, cJSON *unknown, const struct flmem_python_report *python)
{
	struct json_section section;

	if (!python->version) {
		cJSON_AddNullToObject(object, "python");
		if (python->unknown)
			cJSON_AddStringToObject(unknown, "python", python->unknown);
		return;
	}
	section = open_section(object, "python");
	if (python->version[0]) {
		flmem_json_add_text(section.fields, "version", python->version);
	} else {
		cJSON_AddNullToObject(section.fields, "version");
		cJSON_AddStringToObject(section.unknown, "version", "not in its program file");
	}
	add_python_fields(&section, python);
	close_section(&section);
}

static void add_files(cJSON *object, cJSON *unknown, const struct flmem_process_report *report)
{
	cJSON *list;

	if (report->backings_unknown) {
		cJSON_AddNullToObject(object, "files");
		cJSON_AddStringToObject(unknown, "files", report->backings_unknown);
		return;
	}
	list = cJSON_AddArrayToObject(object, "files");
	for (size_t i = 0; i < report->backing_count; i++) {
		const struct flmem_backing_report *backing = &report->backings[i];
		cJSON *row = cJSON_CreateObject();

		flmem_json_add_text(row, "kind", flmem_backing_name(backing->kind));
		flmem_json_add_text(row, "name", backing->name);
		flmem_json_add_u64(row, "mapped_bytes", backing->mapped_bytes);
		flmem_json_add_u64(row, "resident_bytes", backing->resident_bytes);
		cJSON_AddItemToArray(list, row);
	}
}

static void add_cuda(cJSON *object, const struct flmem_cuda_report *cuda)
{
	struct json_section section = open_section(object, "cuda");

	add_section_value(&section, "used_bytes", cuda->used_bytes);
#define CUDA_VALUE(field) add_section_value(&section, #field, cuda->field);
	FLMEM_CUDA_QUERIED(CUDA_VALUE)
#undef CUDA_VALUE
	close_section(&section);
}

static void add_settings_section(cJSON *object, cJSON *unknown,
				 const struct flmem_process_report *report)
{
	cJSON *settings;

	if (report->settings_unknown) {
		cJSON_AddNullToObject(object, "settings");
		cJSON_AddStringToObject(unknown, "settings", report->settings_unknown);
		return;
	}
	settings = cJSON_AddObjectToObject(object, "settings");
	for (size_t i = 0; i < report->setting_count; i++) {
		const struct flmem_setting_report *setting = &report->settings[i];
		cJSON *row = cJSON_CreateObject();

		flmem_json_add_text(row, "value", setting->value);
		flmem_json_add_text(row, "source", setting->source);
		if (setting->note)
			flmem_json_add_text(row, "note", setting->note);
		flmem_json_add_keyed(settings, setting->name, row);
	}
}

static void add_report_limit(cJSON *object, const struct flmem_limit_report *limit)
{
	struct json_section section = open_section(object, "limit");

	add_section_value(&section, "cgroup_max_bytes", limit->cgroup_max_bytes);
	add_section_value(&section, "headroom_bytes", limit->headroom_bytes);
	add_section_value(&section, "address_space_max_bytes", limit->address_space_max_bytes);
	add_section_value(&section, "address_space_left_bytes", limit->address_space_left_bytes);
	add_section_value(&section, "data_max_bytes", limit->data_max_bytes);
	add_section_value(&section, "data_left_bytes", limit->data_left_bytes);
	close_section(&section);
}

/* Adds the fields live_bytes, ... that add up to RSS; all null if unknown. */
static void add_classes(cJSON *object, const struct flmem_memory_classes *classes)
{
	struct json_section section = open_section(object, "bytes");
	char name[32];

	for (size_t i = 0; i < FLMEM_MEMORY_CLASS_COUNT; i++) {
		struct flmem_u64 bytes = {classes->bytes[i], classes->unknown};

		snprintf(name, sizeof(name), "%s_bytes",
			 flmem_memory_class_name((enum flmem_memory_class)i));
		add_section_value(&section, name, bytes);
	}
	add_section_value(&section, "error_bytes",
			  (struct flmem_u64){classes->error_bytes, classes->unknown});
	close_section(&section);
}

static void add_verdict_section(cJSON *object, const struct flmem_verdict *verdict)
{
	struct json_section section = open_section(object, "verdict");
	cJSON *list;

	flmem_json_add_text(section.fields, "class", flmem_verdict_name(verdict->kind));
	if (verdict->kind) {
		cJSON_AddNumberToObject(section.fields, "confidence",
					(double)verdict->confidence_percent / 100);
		flmem_json_add_text(section.fields, "confidence_word",
				    flmem_confidence_word(verdict->confidence_percent));
	} else {
		cJSON_AddNullToObject(section.fields, "confidence");
		cJSON_AddNullToObject(section.fields, "confidence_word");
		flmem_json_add_text(section.unknown, "class", verdict->unknown);
	}
	add_classes(section.fields, &verdict->classes);
	list = cJSON_AddArrayToObject(section.fields, "reasons");
	for (size_t i = 0; i < verdict->reason_count; i++)
		flmem_json_append_text(list, verdict->reasons[i]);
	list = cJSON_AddArrayToObject(section.fields, "next");
	for (size_t i = 0; i < verdict->next_count; i++)
		flmem_json_append_text(list, verdict->next[i].command);
	close_section(&section);
}

static cJSON *process_object(const struct flmem_process_report *report)
{
	cJSON *object = cJSON_CreateObject(), *unknown = cJSON_CreateObject();

	cJSON_AddNumberToObject(object, "pid", report->pid);
	flmem_json_add_u64(object, "start_time_ticks", report->start_time);
	flmem_json_add_text(object, "command", report->command);
	flmem_json_add_text(object, "framework", flmem_framework_name(report->framework));
	flmem_json_add_text(object, "role", flmem_role_name(report->role));
	flmem_json_add_text(object, "part", report->part);
	flmem_json_add_text(object, "site", report->site);
	add_allocators(object, unknown, report);
	add_memory(object, &report->memory);
	add_heap(object, &report->heap);
	add_query(object, &report->query);
	add_python(object, unknown, &report->python);
	add_files(object, unknown, report);
	add_cuda(object, &report->cuda);
	add_settings_section(object, unknown, report);
	add_report_limit(object, &report->limit);
	add_verdict_section(object, &report->verdict);
	cJSON_AddItemToObject(object, "unknown", unknown);
	return object;
}

char *flmem_report_detect_json(const struct flmem_detect_report *report)
{
	cJSON *root = flmem_json_report("detect"), *list;

	list = cJSON_AddArrayToObject(root, "processes");
	for (size_t i = 0; i < report->process_count; i++)
		cJSON_AddItemToArray(list, process_object(&report->processes[i]));
	list = cJSON_AddArrayToObject(root, "skipped");
	for (size_t i = 0; i < report->skipped_count; i++) {
		const struct flmem_skipped *skipped = &report->skipped[i];
		cJSON *row = cJSON_CreateObject();

		cJSON_AddNumberToObject(row, "pid", skipped->pid);
		flmem_json_add_text(row, "code", flmem_code_name(skipped->code));
		flmem_json_add_text(row, "message", skipped->message);
		cJSON_AddItemToArray(list, row);
	}
	return flmem_json_take(root);
}
