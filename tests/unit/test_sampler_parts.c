/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of the sampler that need no other process: arithmetic, safe reads, tables of CPython. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "preload/sampler/python.h"

#define DRAWS 1000000

struct sampler_control sampler_control;
struct sampler_tables sampler_tables;

/* Seeded, so the same every time: 1e6 exponential draws have a mean within 0.1 % per sigma. */
static void test_gaps_are_exponential(void **state)
{
	uint64_t random = 42, above = 0;
	double sum = 0;

	(void)state;
	for (int i = 0; i < DRAWS; i++) {
		int64_t gap = sampler_draw_gap(&random, 1 << 19);

		assert_true(gap >= 0);
		sum += (double)gap;
		above += gap > 1 << 19;
	}
	assert_true(fabs(sum / DRAWS / (1 << 19) - 1) < 0.005);
	assert_true(fabs((double)above / DRAWS - exp(-1)) < 0.003);
}

static void test_weights_are_those_of_the_formula(void **state)
{
	(void)state;
	for (uint64_t size = 1; size < UINT64_C(1) << 40; size = size * 3 / 2 + 1) {
		double chance = -expm1(-(double)size / (1 << 19));
		uint64_t bytes, count;

		sampler_weigh(size, 1 << 19, &bytes, &count);
		assert_true(fabs((double)bytes - (double)size / chance) <=
			    1 + 1e-9 * (double)bytes);
		assert_true(fabs((double)count - FLMEM_PROFILE_COUNT_UNIT / chance) <=
			    1 + 1e-9 * (double)count);
	}
}

static void test_memory_that_is_not_there(void **state)
{
	char *pages = mmap(NULL, 3 * SAMPLER_PAGE, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint64_t value = 1;

	(void)state;
	assert_true(pages != MAP_FAILED);
	munmap(pages + SAMPLER_PAGE, SAMPLER_PAGE);
	mprotect(pages + 2 * (size_t)SAMPLER_PAGE, SAMPLER_PAGE, PROT_NONE);
	sampler_memory_refresh();
	assert_true(sampler_read((uintptr_t)pages, &value, sizeof(value)));
	assert_int_equal(value, 0);
	assert_true(sampler_is_readable((uintptr_t)pages, SAMPLER_PAGE));
	assert_false(sampler_is_readable((uintptr_t)pages, SAMPLER_PAGE + 1));
	assert_false(sampler_is_readable((uintptr_t)pages + SAMPLER_PAGE - 4, 8));
	assert_false(sampler_is_readable((uintptr_t)pages + 2 * (size_t)SAMPLER_PAGE, 1));
	assert_false(sampler_is_readable(0, 1));
	assert_false(sampler_is_readable(8, 8));
	assert_false(sampler_is_readable(UINTPTR_MAX - 4, 8));
	assert_false(sampler_is_readable(UINTPTR_MAX / 2 + 1, 8));
	/* What was readable is asked again after an unmapping that was seen. */
	munmap(pages, SAMPLER_PAGE);
	sampler_memory_refresh();
	assert_false(sampler_is_readable((uintptr_t)pages, 1));
}

static enum flmem_profile_python refusal(uint32_t version, const void *runtime)
{
	enum flmem_profile_python why = FLMEM_PROFILE_PYTHON_NONE;
	struct sampler_python layout;

	return sampler_python_layout(version, runtime, &layout, &why) ? FLMEM_PROFILE_PYTHON_READ
								      : why;
}

/* The table at the start of _PyRuntime in 3.13.0. */
static void fill_table(uint64_t words[96], uint64_t version)
{
	memset(words, 0, 96 * sizeof(*words));
	memcpy(words, "xdebugpy", 8);
	words[1] = version;
	words[5] = 632;
	words[8] = 7264;
	words[9] = 7344;
}

static void test_which_pythons_are_read(void **state)
{
	uint64_t words[96];

	(void)state;
	for (uint32_t minor = 8; minor <= 12; minor++)
		assert_int_equal(refusal(0x03000000U | minor << 16, NULL),
				 FLMEM_PROFILE_PYTHON_READ);
	assert_int_equal(refusal(0x03070000, NULL), FLMEM_PROFILE_PYTHON_UNKNOWN_VERSION);
	assert_int_equal(refusal(0x02070000, NULL), FLMEM_PROFILE_PYTHON_UNKNOWN_VERSION);
	fill_table(words, 0x030d00f0);
	assert_int_equal(refusal(0x030d00f0, words), FLMEM_PROFILE_PYTHON_READ);
	words[2] = 1;
	assert_int_equal(refusal(0x030d00f0, words), FLMEM_PROFILE_PYTHON_FREE_THREADED);
	fill_table(words, 0x030f00f0);
	assert_int_equal(refusal(0x030f00f0, words), FLMEM_PROFILE_PYTHON_UNKNOWN_VERSION);
	assert_int_equal(refusal(0x030d00f0, words), FLMEM_PROFILE_PYTHON_INCONSISTENT);
	fill_table(words, 0x030d00f0);
	words[9] = UINT64_C(1) << 30;
	assert_int_equal(refusal(0x030d00f0, words), FLMEM_PROFILE_PYTHON_INCONSISTENT);
	fill_table(words, 0x030d00f0);
	words[0] = 0;
	assert_int_equal(refusal(0x030d00f0, words), FLMEM_PROFILE_PYTHON_INCONSISTENT);
}

/* A bytes object with this content. */
struct bytes {
	uint64_t head[2], length, hash;
	unsigned char content[4096];
};

static uint32_t line_of(enum sampler_lines kind, const void *content, size_t length,
			uint64_t offset)
{
	static struct bytes object;
	const struct sampler_python python = {.lines_kind = kind};

	object.length = length;
	memcpy(object.content, content, length);
	sampler_memory_refresh();
	return sampler_python_line(&python, (uintptr_t)&object, offset, 100);
}

static void test_line_tables(void **state)
{
	static const unsigned char lnotab[] = {6, 1, 4, 200, 0, 0}; /* 200 is -56 */
	static const unsigned char pairs[] = {6, 1, 4, 128, 4, 255};
	/* Short form without a change, one line with +2, long form with -1, none. */
	static const unsigned char locations[] = {0x80, 0x00, 0xe1, 0, 0, 0xf0, 3, 0, 0, 0, 0xf8};

	(void)state;
	assert_int_equal(line_of(SAMPLER_LINES_LNOTAB, lnotab, sizeof(lnotab), 0), 100);
	assert_int_equal(line_of(SAMPLER_LINES_LNOTAB, lnotab, sizeof(lnotab), 6), 101);
	assert_int_equal(line_of(SAMPLER_LINES_LNOTAB, lnotab, sizeof(lnotab), 10), 45);
	assert_int_equal(line_of(SAMPLER_LINES_310, pairs, sizeof(pairs), 5), 101);
	assert_int_equal(line_of(SAMPLER_LINES_310, pairs, sizeof(pairs), 6), 0);
	assert_int_equal(line_of(SAMPLER_LINES_310, pairs, sizeof(pairs), 12), 100);
	assert_int_equal(line_of(SAMPLER_LINES_LOCATIONS, locations, sizeof(locations), 0), 100);
	assert_int_equal(line_of(SAMPLER_LINES_LOCATIONS, locations, sizeof(locations), 2), 102);
	assert_int_equal(line_of(SAMPLER_LINES_LOCATIONS, locations, sizeof(locations), 6), 101);
	assert_int_equal(line_of(SAMPLER_LINES_LOCATIONS, locations, sizeof(locations), 8), 0);
}

/* Whatever stands there is read within its length; the addresses are checked by the sanitizer. */
static void test_line_tables_of_anything(void **state)
{
	unsigned char content[64];
	uint64_t random = 7;

	(void)state;
	for (int i = 0; i < 20000; i++) {
		for (size_t j = 0; j < sizeof(content); j++)
			content[j] = (unsigned char)sampler_draw_gap(&random, 1000);
		for (int kind = SAMPLER_LINES_LNOTAB; kind <= SAMPLER_LINES_LOCATIONS; kind++)
			line_of((enum sampler_lines)kind, content, (size_t)i % sizeof(content),
				(uint64_t)i % 300);
	}
}

/* A str whose length exceeds what is mapped. */
static void test_texts_that_are_not_there(void **state)
{
	const struct sampler_python python = {.ascii_size = 40, .compact_size = 56};
	char *page = mmap(NULL, SAMPLER_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			  -1, 0);
	char *text = page + SAMPLER_PAGE - 48, out[FLMEM_PROFILE_STRING_MAX];
	uint64_t length = 8;
	uint32_t flags = (1 | 8 | 16) << 2;

	(void)state;
	assert_true(page != MAP_FAILED);
	memcpy(text + 16, &length, sizeof(length));
	memcpy(text + 32, &flags, sizeof(flags));
	memcpy(text + 40, "function", 8);
	sampler_memory_refresh();
	assert_int_equal(sampler_python_text(&python, (uintptr_t)text, out), 8);
	assert_memory_equal(out, "function", 8);
	length = 9;
	memcpy(text + 16, &length, sizeof(length));
	assert_int_equal(sampler_python_text(&python, (uintptr_t)text, out), -1);
	flags = 3 << 2;
	memcpy(text + 32, &flags, sizeof(flags));
	assert_int_equal(sampler_python_text(&python, (uintptr_t)text, out), -1);
	munmap(page, SAMPLER_PAGE);
	sampler_memory_refresh();
	assert_int_equal(sampler_python_text(&python, (uintptr_t)text, out), -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_gaps_are_exponential),
		cmocka_unit_test(test_weights_are_those_of_the_formula),
		cmocka_unit_test(test_memory_that_is_not_there),
		cmocka_unit_test(test_which_pythons_are_read),
		cmocka_unit_test(test_line_tables),
		cmocka_unit_test(test_line_tables_of_anything),
		cmocka_unit_test(test_texts_that_are_not_there),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
