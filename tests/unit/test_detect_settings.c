/* SPDX-License-Identifier: Apache-2.0 */
/* Tests settings of allocators that are not in the process. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "ops/detect/detect_settings.h"

#define UNREAD	 "nothing reads it"
#define UNLOADED "not loaded"

struct note_row {
	const char *name, *value;
	enum flmem_allocator_kind kind;
	const char *says; /* text of the note; NULL: no note */
};

static const struct note_row note_rows[] = {
	{"LD_PRELOAD", "/none/libjemalloc.so.2", FLMEM_ALLOCATOR_GLIBC, UNLOADED},
	{"LD_PRELOAD", "/lib/libfoo.so:libtcmalloc_minimal.so.4", FLMEM_ALLOCATOR_GLIBC, UNLOADED},
	{"LD_PRELOAD", "libmimalloc.so", FLMEM_ALLOCATOR_JEMALLOC, UNLOADED},
	{"LD_PRELOAD", "/none/libjemalloc.so.2", FLMEM_ALLOCATOR_JEMALLOC, NULL},
	{"LD_PRELOAD", "/lib/libfoo.so", FLMEM_ALLOCATOR_GLIBC, NULL},
	{"MALLOC_CONF", "dirty_decay_ms:0", FLMEM_ALLOCATOR_GLIBC, UNREAD},
	{"_RJEM_MALLOC_CONF", "narenas:1", FLMEM_ALLOCATOR_GLIBC, UNREAD},
	{"MALLOC_CONF", "dirty_decay_ms:0", FLMEM_ALLOCATOR_JEMALLOC, NULL},
	{"TCMALLOC_RELEASE_RATE", "10", FLMEM_ALLOCATOR_GLIBC, UNREAD},
	{"MIMALLOC_PURGE_DELAY", "0", FLMEM_ALLOCATOR_MIMALLOC, NULL},
	{"MALLOC_ARENA_MAX", "2", FLMEM_ALLOCATOR_GLIBC, NULL},
};

/* Returns the note for the value, with one allocator, or none known, in the process. */
static const char *note_for(const struct note_row *row, const char *unknown, size_t count)
{
	struct flmem_allocator_report allocator = {.kind = row->kind};
	struct flmem_setting_report setting = {.name = (char *)(uintptr_t)row->name,
					       .value = (char *)(uintptr_t)row->value};
	struct flmem_process_report report = {.allocators = &allocator,
					      .allocator_count = count,
					      .allocators_unknown = unknown,
					      .settings = &setting,
					      .setting_count = 1};

	flmem_detect_note_settings(&report);
	return setting.note;
}

static void settings_that_nothing_reads_are_noted(void **state)
{
	(void)state;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(note_rows); i++) {
		const char *note = note_for(&note_rows[i], NULL, 1);

		if (!note != !note_rows[i].says || (note && !strstr(note, note_rows[i].says)))
			fail_msg("%s=%s: %s", note_rows[i].name, note_rows[i].value,
				 note ? note : "no note");
	}
}

static void unknown_allocators_have_no_notes(void **state)
{
	(void)state;
	assert_null(note_for(&note_rows[0], "denied", 1));
	assert_null(note_for(&note_rows[0], NULL, 0));
}

static void the_note_of_a_bad_value_is_kept(void **state)
{
	struct flmem_allocator_report allocator = {.kind = FLMEM_ALLOCATOR_GLIBC};
	struct flmem_setting_report setting = {
		.name = (char[]){"MALLOC_CONF"}, .value = (char[]){"x"}, .note = "bad"};
	struct flmem_process_report report = {.allocators = &allocator,
					      .allocator_count = 1,
					      .settings = &setting,
					      .setting_count = 1};

	(void)state;
	flmem_detect_note_settings(&report);
	assert_string_equal(setting.note, "bad");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(settings_that_nothing_reads_are_noted),
		cmocka_unit_test(unknown_allocators_have_no_notes),
		cmocka_unit_test(the_note_of_a_bad_value_is_kept),
	};

	return cmocka_run_group_tests_name("detect_settings", tests, NULL, NULL);
}
