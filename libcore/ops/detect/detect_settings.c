/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/detect/detect_settings.h"

#include <string.h>

#include "base/cleanup.h"
#include "base/text/text.h"
#include "settings/preload.h"

/* Variables that only one allocator reads, and the file names under which it is preloaded. */
struct reader_row {
	enum flmem_allocator_kind kind;
	const char *variables[5]; /* prefixes; end in NULL */
	const char *library;
	const char *unread, *unloaded;
};

#define NOTES(name)                                                            \
	.unread = "no " name " was found in the process, so nothing reads it", \
	.unloaded = "not loaded: no " name " was found in the process"

static const struct reader_row allocators_of_settings[] = {
	{FLMEM_ALLOCATOR_JEMALLOC,
	 {"MALLOC_CONF", "_RJEM_MALLOC_CONF", "JE_MALLOC_CONF"},
	 "libjemalloc",
	 NOTES("jemalloc")},
	{FLMEM_ALLOCATOR_TCMALLOC, {"TCMALLOC_"}, "libtcmalloc", NOTES("tcmalloc")},
	{FLMEM_ALLOCATOR_MIMALLOC, {"MIMALLOC_"}, "libmimalloc", NOTES("mimalloc")},
};

static const struct flmem_allocator_report *
find_setting_reader(const struct flmem_process_report *report, enum flmem_allocator_kind kind)
{
	for (size_t i = 0; i < report->allocator_count; i++)
		if (report->allocators[i].kind == kind)
			return &report->allocators[i];
	return NULL;
}

static bool is_read_by(const struct reader_row *row, const char *name)
{
	for (const char *const *prefix = row->variables; *prefix; prefix++)
		if (flmem_text_starts(name, *prefix))
			return true;
	return false;
}

static const char *missing_reader(const struct flmem_process_report *report,
				  const struct flmem_setting_report *setting)
{
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(allocators_of_settings); i++) {
		const struct reader_row *row = &allocators_of_settings[i];
		FLMEM_AUTO_FREE char *entry = NULL;

		if (find_setting_reader(report, row->kind))
			continue;
		if (is_read_by(row, setting->name))
			return row->unread;
		if (strcmp(setting->name, "LD_PRELOAD") == 0)
			entry = flmem_preload_entry(setting->value, row->library);
		if (entry)
			return row->unloaded;
	}
	return NULL;
}

void flmem_detect_note_settings(struct flmem_process_report *report)
{
	if (report->allocators_unknown || !report->allocator_count)
		return;
	for (size_t i = 0; i < report->setting_count; i++)
		if (!report->settings[i].note)
			report->settings[i].note = missing_reader(report, &report->settings[i]);
}
