/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests that every allocation may fail once: the result is an error, a problem in the result, or
 * complete, and nothing is lost or freed twice (which AddressSanitizer sees).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include <flmem/convert.h>
#include <flmem/recommend.h>
#include <flmem/settings.h>

#include "base/cleanup.h"
#include "base/text/buf.h"

static size_t countdown; /* allocations until one fails; 0: none fails */
static bool failed;

/* Reports whether this allocation is the one that fails. */
static bool fails(void)
{
	if (!countdown || --countdown)
		return false;
	failed = true;
	return true;
}

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *old, size_t size);
void *__real_reallocarray(void *old, size_t count, size_t size);
char *__real_strdup(const char *text);
char *__real_strndup(const char *text, size_t length);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *old, size_t size);
void *__wrap_reallocarray(void *old, size_t count, size_t size);
char *__wrap_strdup(const char *text);
char *__wrap_strndup(const char *text, size_t length);

void *__wrap_malloc(size_t size)
{
	return fails() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
	return fails() ? NULL : __real_calloc(count, size);
}

void *__wrap_realloc(void *old, size_t size)
{
	return fails() ? NULL : __real_realloc(old, size);
}

void *__wrap_reallocarray(void *old, size_t count, size_t size)
{
	return fails() ? NULL : __real_reallocarray(old, count, size);
}

char *__wrap_strdup(const char *text)
{
	return fails() ? NULL : __real_strdup(text);
}

char *__wrap_strndup(const char *text, size_t length)
{
	return fails() ? NULL : __real_strndup(text, length);
}

/* Writes the findings with all their parts, and the problems; or the error. */
static void recommend_to(const char *path, struct flmem_buf *out, bool *ret_reported)
{
	struct flmem_recommendations found = {0};
	struct flmem_error err = {0};
	int rc = flmem_recommend(&path, 1, NULL, &found, &err);

	countdown = 0;
	*ret_reported = rc != 0;
	if (rc)
		assert_int_equal(rc, FLMEM_EFAILED);
	for (size_t i = 0; i < found.finding_count; i++) {
		const struct flmem_finding *f = &found.findings[i];

		/* A finding has no correction if there was no memory for it. */
		flmem_buf_printf(out, "%s:%u %s %s %s %s\n", f->file, f->line, f->rule->id, f->path,
				 f->current ? f->current : "-", f->proposed ? f->proposed : "-");
	}
	for (size_t i = 0; i < found.problem_count; i++) {
		*ret_reported |= found.problems[i].code == FLMEM_EFAILED;
		flmem_buf_printf(out, "%s %s\n", found.problems[i].file, found.problems[i].message);
	}
	flmem_recommendations_clear(&found);
}

/* Returns the start of the first line in which the texts differ. */
static const char *first_difference(const char *text, const char *whole)
{
	const char *line = text;

	for (; *text && *text == *whole; text++, whole++)
		if (*text == '\n')
			line = text + 1;
	return line;
}

static void check_folder(const char *path)
{
	FLMEM_AUTO_BUF struct flmem_buf whole = FLMEM_BUF_INIT;
	bool reported;

	recommend_to(path, &whole, &reported);
	assert_false(reported);
	failed = true;
	for (size_t at = 1; failed; at++) {
		FLMEM_AUTO_BUF struct flmem_buf out = FLMEM_BUF_INIT;

		failed = false;
		countdown = at;
		recommend_to(path, &out, &reported);
		if (!reported && strcmp(out.data, whole.data) != 0)
			fail_msg("%s, allocation %zu: nothing reported, and not the same: %.80s",
				 path, at, first_difference(out.data, whole.data));
	}
}

static void recommendations_are_complete_or_refused(void **state)
{
	static const char *const names[] = {"job", "python", "launch", "appfl", "flower", "local"};

	(void)state;
	assert_int_equal(chdir(FIXTURES "/golden/inputs"), 0);
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(names); i++)
		check_folder(names[i]);
}

static void corrections_are_complete_or_refused(void **state)
{
	static const char *const path = "job";
	size_t whole = 0;

	(void)state;
	assert_int_equal(chdir(FIXTURES "/golden/inputs"), 0);
	failed = true;
	for (size_t at = 0; failed || !at; at++) {
		struct flmem_corrections made = {0};
		size_t changes = 0;
		int rc;

		failed = false;
		countdown = at;
		rc = flmem_recommend_correct(&path, 1, NULL, &made, NULL);
		countdown = 0;
		for (size_t i = 0; i < made.count; i++)
			changes += made.rows[i].changes;
		flmem_corrections_clear(&made);
		if (!at)
			whole = changes;
		if (rc)
			assert_int_equal(rc, FLMEM_EFAILED);
		else if (changes != whole)
			fail_msg("allocation %zu: %zu changes of %zu", at, changes, whole);
	}
}

/* Makes and prints the settings; NULL when one of the two steps failed. */
static char *print_settings(void)
{
	char *const environment[] = {(char[]){"LD_PRELOAD=/x.so"}, (char[]){"MALLOC_CONF=a:b"},
				     NULL};
	const struct flmem_settings_request request = {.role = FLMEM_ROLE_CLIENT,
						       .gpu = true,
						       .allocator =
							       FLMEM_SETTINGS_ALLOCATOR_JEMALLOC,
						       .jemalloc_library = "/l/libjemalloc.so.2",
						       .elsewhere = true,
						       .environment = environment};
	struct flmem_settings settings = {0};
	char *text = NULL;

	if (flmem_settings_make(&request, &settings, NULL) == 0 &&
	    flmem_settings_print(&settings, FLMEM_SETTINGS_FORMAT_SYSTEMD, true, &text, NULL))
		text = NULL;
	countdown = 0;
	flmem_settings_clear(&settings);
	return text;
}

static void settings_are_complete_or_refused(void **state)
{
	FLMEM_AUTO_FREE char *whole = print_settings();

	(void)state;
	assert_non_null(whole);
	failed = true;
	for (size_t at = 1; failed; at++) {
		FLMEM_AUTO_FREE char *text = NULL;

		failed = false;
		countdown = at;
		text = print_settings();
		if (text && strcmp(text, whole) != 0)
			fail_msg("allocation %zu: %s", at, text);
	}
}

/* Makes a header of safetensors and headers of arrays, and reads the directory of an archive. */
static int convert_both_ways(const char *folder, uint32_t *ret_crc32c)
{
	char arrays[80], tensors[80];
	struct flmem_convert_request request = {.input = arrays, .output = tensors};
	struct flmem_conversion made = {0};
	struct flmem_error err = {0};
	int rc;

	snprintf(arrays, sizeof(arrays), "%s/a.npz", folder);
	snprintf(tensors, sizeof(tensors), "%s/a.safetensors", folder);
	rc = flmem_convert(&request, &made, &err);
	if (!rc) {
		request = (struct flmem_convert_request){.input = tensors, .output = arrays};
		rc = flmem_convert(&request, &made, &err);
	}
	countdown = 0;
	if (rc && rc != FLMEM_EFAILED)
		fail_msg("status %d: %s", rc, err.message);
	*ret_crc32c = made.crc32c;
	return rc;
}

static void conversions_are_complete_or_refused(void **state)
{
	static const char header[] =
		"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}";
	char folder[] = "/tmp/flmem-nomem-XXXXXX", path[80], to[80];
	struct flmem_convert_request request = {.input = path, .output = to};
	struct flmem_conversion made;
	uint32_t whole, crc32c;
	FILE *file;

	(void)state;
	assert_non_null(mkdtemp(folder));
	snprintf(path, sizeof(path), "%s/a.safetensors", folder);
	snprintf(to, sizeof(to), "%s/a.npz", folder);
	file = fopen(path, "we");
	assert_non_null(file);
	fprintf(file, "%c%c%c%c%c%c%c%c%s01234567", (int)strlen(header), 0, 0, 0, 0, 0, 0, 0,
		header);
	assert_int_equal(fclose(file), 0);
	assert_int_equal(flmem_convert(&request, &made, NULL), 0);
	assert_int_equal(convert_both_ways(folder, &whole), 0);
	failed = true;
	for (size_t at = 1; failed; at++) {
		failed = false;
		countdown = at;
		if (convert_both_ways(folder, &crc32c) == 0 && crc32c != whole)
			fail_msg("allocation %zu: other bytes", at);
	}
	assert_int_equal(unlink(path) | unlink(to) | rmdir(folder), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(recommendations_are_complete_or_refused),
		cmocka_unit_test(corrections_are_complete_or_refused),
		cmocka_unit_test(settings_are_complete_or_refused),
		cmocka_unit_test(conversions_are_complete_or_refused),
	};

	return cmocka_run_group_tests_name("nomem", tests, NULL, NULL);
}
