/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/detect/detect_python.h"

#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/text/text.h"
#include "elf/modules.h"
#include "proc/peek.h"
#include "runtimes/cpython.h"
#include "runtimes/cpython_state.h"
#include "runtimes/pymalloc.h"

static const char skipped[] = "heap not read (--no-heap)";
static const char no_pages[] = "access to its page map is denied";
static const char no_table[] = "no arenas found: this build may have none";
static const char free_threaded[] = "a free-threaded CPython uses mimalloc in place of arenas";
static const char too_new[] = "flmem knows the arenas of CPython up to 3.15";
static const char pre_release[] =
	"flmem knows the arenas of released versions of CPython 3.15 only";
static const char detect_python_no_state[] =
	"flmem does not know the data layout of this CPython build";
static const char detect_python_out_of_memory[] = "flmem is out of memory";

static void set_arenas_unknown(const char *why, struct flmem_python_report *report)
{
	report->arenas = FLMEM_UNKNOWN(why);
	report->arenas_bytes = FLMEM_UNKNOWN(why);
	report->used_bytes = FLMEM_UNKNOWN(why);
	report->free_bytes = FLMEM_UNKNOWN(why);
	report->error_bytes = FLMEM_UNKNOWN(why);
}

static void set_state_unknown(const char *why, struct flmem_python_report *report)
{
	report->threads = FLMEM_UNKNOWN(why);
	report->gil_held = FLMEM_UNKNOWN(why);
	report->finalizing = FLMEM_UNKNOWN(why);
}

void flmem_python_report_init(const char *why, struct flmem_python_report *ret_python)
{
	*ret_python = (struct flmem_python_report){0};
	set_arenas_unknown(why, ret_python);
	set_state_unknown(why, ret_python);
}

/*
 * Returns true if the interpreter has no arenas: with PYTHONMALLOC=malloc or malloc_debug, small
 * objects come from malloc, too.
 */
static bool has_no_arenas(const struct flmem_setting_report *settings, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (strcmp(settings[i].name, "PYTHONMALLOC") == 0)
			return flmem_text_starts(settings[i].value, "malloc");
	return false;
}

static bool is_named_free_threaded(const struct flmem_module *module)
{
	const char *series = strstr(flmem_text_basename(module->path), "python3.");

	if (!series)
		return false;
	series += strlen("python3.");
	series += strspn(series, "0123456789");
	return *series == 't';
}

/* Finds the data of the interpreter: from its first writable mapping to the end of its .bss. */
static void find_data_segment(const struct flmem_module *module, const struct flmem_maps *maps,
			      uint64_t *ret_start, uint64_t *ret_end)
{
	uint64_t start = 0, end = 0;

	for (size_t i = 0; i < maps->count; i++) {
		const struct flmem_map *map = &maps->rows[i];
		bool own = map->inode && map->inode == module->inode &&
			   map->device == module->device && map->start >= module->start &&
			   map->start < module->end;

		if (!(map->flags & FLMEM_MAP_WRITE))
			continue;
		if (own && !start)
			start = map->start;
		if (own || (start && map->start == end && !map->inode && !map->name[0]))
			end = map->end;
	}
	*ret_start = start;
	*ret_end = end;
}

/* Finds the entry of the interpreter's file; a new entry replaces the oldest one. */
static uint64_t *find_table_entry(struct flmem_python_places *places,
				  const struct flmem_module *module)
{
	size_t next;

	for (size_t i = 0; i < places->count && i < FLMEM_PYTHON_PLACES; i++)
		if (places->rows[i].device == module->device &&
		    places->rows[i].inode == module->inode)
			return &places->rows[i].table;
	next = places->count++ % FLMEM_PYTHON_PLACES;
	places->rows[next].device = module->device;
	places->rows[next].inode = module->inode;
	places->rows[next].table = 0;
	return &places->rows[next].table;
}

static void read_arenas(const struct flmem_view *view, const struct flmem_python_reading *reading,
			struct flmem_python_report *report)
{
	const struct flmem_cpython *python = reading->python;
	FLMEM_AUTO_PEEK struct flmem_peek *peek = NULL;
	struct flmem_pymalloc_search search = {
		.maps = view->maps,
		.large = python->major == 3 && python->minor >= 10,
		.budget_us = reading->budget_us,
		.place = find_table_entry(reading->places, python->module),
	};
	struct flmem_pymalloc arenas;
	int rc;

	find_data_segment(python->module, view->maps, &search.data_start, &search.data_end);
	if (flmem_peek_open(view->process, &peek, NULL)) {
		set_arenas_unknown(no_pages, report);
		return;
	}
	search.peek = peek;
	rc = flmem_pymalloc_read(&search, &arenas);
	if (rc) {
		set_arenas_unknown(rc == -ENOMEM ? detect_python_out_of_memory : no_table, report);
		return;
	}
	report->arenas = FLMEM_KNOWN(arenas.arenas);
	report->arenas_bytes = FLMEM_KNOWN(arenas.resident_bytes);
	report->used_bytes = FLMEM_KNOWN(arenas.used_bytes);
	report->free_bytes = FLMEM_KNOWN(arenas.free_bytes);
	report->error_bytes = FLMEM_KNOWN(arenas.error_bytes);
}

static void read_state(const struct flmem_view *view, const struct flmem_cpython *python,
		       struct flmem_python_report *report)
{
	FLMEM_AUTO_CPYTHON_STATE struct flmem_cpython_state state = {0};
	const struct flmem_cpython_thread *holder;
	struct flmem_cpython_place place;

	if (flmem_cpython_locate(view, python, &place, NULL) ||
	    flmem_cpython_state_read(view, &place, &state, NULL)) {
		set_state_unknown(detect_python_no_state, report);
		return;
	}
	holder = flmem_cpython_state_find(&state, state.gil.holder);
	report->threads = FLMEM_KNOWN(state.thread_count);
	report->gil_held = FLMEM_KNOWN(state.gil.locked);
	report->gil_holder = holder ? holder->tid : 0;
	report->finalizing = FLMEM_KNOWN(state.finalizing);
}

/* Returns why the interpreter's arenas must not be searched for, or NULL. */
static const char *why_no_arenas(const struct flmem_view *view, const struct flmem_cpython *python)
{
	if (is_named_free_threaded(python->module) || flmem_cpython_is_free_threaded(view, python))
		return free_threaded;
	if (python->major == 3 && python->minor > 15)
		return too_new;
	return python->major == 3 && python->minor == 15 && python->pre_release ? pre_release
										: NULL;
}

int flmem_python_report_read(const struct flmem_view *view,
			     const struct flmem_python_reading *reading,
			     struct flmem_process_report *report)
{
	const struct flmem_cpython *python = reading->python;
	struct flmem_python_report *own = &report->python;
	const char *why;

	if (!python)
		return 0;
	own->version = strdup(python->version);
	if (!own->version)
		return -ENOMEM;
	read_state(view, python, own);
	if (!reading->budget_us)
		set_arenas_unknown(skipped, own);
	else if ((why = why_no_arenas(view, python)))
		set_arenas_unknown(why, own);
	else
		read_arenas(view, reading, own);
	if (reading->budget_us && own->arenas.unknown &&
	    has_no_arenas(report->settings, report->setting_count)) {
		own->arenas = own->arenas_bytes = own->used_bytes = FLMEM_KNOWN(0);
		own->free_bytes = own->error_bytes = FLMEM_KNOWN(0);
	}
	return 0;
}

void flmem_python_settle_mimalloc(const struct flmem_cpython *python,
				  struct flmem_process_report *report)
{
	if (!python || report->python.arenas.unknown || !report->python.arenas.value)
		return;
	for (size_t i = 0; i < report->allocator_count; i++) {
		struct flmem_allocator_report *found = &report->allocators[i];

		if (found->kind != FLMEM_ALLOCATOR_MIMALLOC || found->serves_malloc ||
		    found->heap.method || strcmp(found->path, python->module->path) != 0)
			continue;
		found->heap = (struct flmem_heap_report){.method = "unused"};
	}
}
