/* SPDX-License-Identifier: Apache-2.0 */
/* Tests parts of the sampler that need no other process: safe reads, tables of CPython. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "cpython_table_315.h"
#include "preload/sampler/python_frames.h"

#define CERTAIN (4 * SAMPLER_PAGE)

struct sampler_control sampler_control;
struct sampler_tables sampler_tables;
__thread struct sampler_thread sampler_thread;

/* Makes three pages: one with 'a', an absent one, one without access. */
static char *make_pages(void)
{
	char *pages = mmap(NULL, 3 * SAMPLER_PAGE, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_true(pages != MAP_FAILED);
	memset(pages, 'a', SAMPLER_PAGE);
	munmap(pages + SAMPLER_PAGE, SAMPLER_PAGE);
	mprotect(pages + 2 * (size_t)SAMPLER_PAGE, SAMPLER_PAGE, PROT_NONE);
	sampler_memory_refresh();
	sampler_thread.pid = (uint32_t)getpid();
	return pages;
}

static void expect_reads(bool (*read)(uintptr_t, void *, size_t))
{
	static char out[2 * SAMPLER_PAGE];
	char *pages = make_pages();

	assert_true(read((uintptr_t)pages, out, SAMPLER_PAGE));
	assert_int_equal(out[SAMPLER_PAGE - 1], 'a');
	assert_false(read((uintptr_t)pages, out, SAMPLER_PAGE + 1));
	assert_false(read((uintptr_t)pages + SAMPLER_PAGE - 4, out, 8));
	assert_false(read((uintptr_t)pages + 2 * (size_t)SAMPLER_PAGE, out, 1));
	assert_false(read(0, out, 1));
	assert_false(read(8, out, 8));
	assert_false(read(UINTPTR_MAX - 4, out, 8));
	assert_false(read(UINTPTR_MAX / 2 + 1, out, 8));
	munmap(pages, SAMPLER_PAGE);
}

static void test_memory_that_is_not_there(void **state)
{
	static struct sampler_copies lines;

	(void)state;
	expect_reads(sampler_read);
	expect_reads(sampler_read_often);
	sampler_copies_begin(&lines);
	expect_reads(sampler_read_often);
	sampler_copies_end();
}

/* Lines of the last sample are copied again, and are not used where they have vanished. */
static void test_lines_of_the_last_sample(void **state)
{
	static struct sampler_copies lines;
	char *pages = make_pages(), other[3 * SAMPLER_LINE] = "x", out = 0;

	(void)state;
	for (int i = 0; i < 2; i++) {
		sampler_copies_begin(&lines);
		assert_true(sampler_read_often((uintptr_t)pages, &out, 1) && out == 'a' + i);
		assert_true(sampler_read_often((uintptr_t)other, &out, 1) && out == 'x');
		sampler_copies_end();
		pages[0] = 'b';
	}
	munmap(pages, SAMPLER_PAGE);
	sampler_copies_begin(&lines);
	assert_false(sampler_read_often((uintptr_t)pages, &out, 1));
	assert_true(sampler_read_often((uintptr_t)other, &out, 1) && out == 'x');
	sampler_copies_end();
	assert_int_equal(make_pages()[0], 'a');
}

static void test_what_is_the_own_stack(void **state)
{
	static struct sampler_scratch scratch;
	char here, *pages = make_pages();

	(void)state;
	assert_true(sampler_stack_is_own((uintptr_t)&here, &scratch));
	assert_true(sampler_thread.stack_top > (uintptr_t)&here);
	assert_true(sampler_stack_is_own((uintptr_t)&here - SAMPLER_PAGE, &scratch));
	assert_false(sampler_stack_is_own((uintptr_t)pages, &scratch));
	assert_false(sampler_stack_is_own(sampler_thread.stack_top, &scratch));
}

/* Memory is certain up to its bounds. Beyond them the kernel is queried, and finds nothing. */
static void test_memory_that_is_certain(void **state)
{
	char out[8], *pages = mmap(NULL, CERTAIN + SAMPLER_PAGE, PROT_READ,
				   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uintptr_t start = (uintptr_t)pages, end = start + CERTAIN;

	(void)state;
	assert_true(pages != MAP_FAILED);
	assert_int_equal(mprotect(pages + CERTAIN, SAMPLER_PAGE, PROT_NONE), 0);
	for (int i = 0; i < 2; i++) {
		sampler_data_set(i ? start : 0, i ? end : 0);
		sampler_thread.chunk = i ? 0 : start;
		sampler_thread.chunk_end = i ? 0 : end;
		assert_true(sampler_read_often(end - 8, out, 8));
		assert_false(sampler_read_often(end - 4, out, 8));
		assert_false(sampler_read_often(end, out, 8));
		assert_false(sampler_read_often(end - 8, out, SIZE_MAX - 7));
	}
	sampler_data_set(0, 0);
	munmap(pages, CERTAIN + SAMPLER_PAGE);
}

/* The known stack grows by small steps: a coroutine's stack may be mapped below it. */
static void *note_stack(void *context)
{
	static struct sampler_scratch scratch;
	uintptr_t here = (uintptr_t)&context;

	sampler_stack_note(here, &scratch);
	assert_true(sampler_thread.stack_low <= here && sampler_thread.stack_top > here);
	sampler_stack_note(here - (2U << 20), &scratch);
	assert_true(here - sampler_thread.stack_low <= SAMPLER_PAGE);
	sampler_stack_note(here - 2 * (uintptr_t)SAMPLER_PAGE, &scratch);
	assert_true(here - sampler_thread.stack_low > SAMPLER_PAGE);
	return context;
}

static void test_the_own_stack_is_noted(void **state)
{
	pthread_attr_t attributes;
	pthread_t thread;

	(void)state;
	pthread_attr_init(&attributes);
	assert_int_equal(pthread_attr_setstacksize(&attributes, 8U << 20), 0);
	assert_int_equal(pthread_create(&thread, &attributes, note_stack, NULL), 0);
	pthread_join(thread, NULL);
	pthread_attr_destroy(&attributes);
}

static enum flmem_profile_python refusal(uint32_t version, const void *runtime)
{
	enum flmem_profile_python why = FLMEM_PROFILE_PYTHON_NONE;
	struct sampler_python layout;

	return sampler_python_layout(version, runtime, &layout, &why) ? FLMEM_PROFILE_PYTHON_READ
								      : why;
}

/* Fills the table at the start of _PyRuntime as in 3.13.0. */
static void fill_table(uint64_t words[96], uint64_t version)
{
	memset(words, 0, 96 * sizeof(*words));
	memcpy(words, "xdebugpy", 8);
	words[1] = version;
	words[24] = 152; /* offset of thread_id */
	words[41] = 96;	 /* offset of localsplusnames */
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
	fill_table(words, 0x031000f0);
	assert_int_equal(refusal(0x031000f0, words), FLMEM_PROFILE_PYTHON_UNKNOWN_VERSION);
	assert_int_equal(refusal(0x030d00f0, words), FLMEM_PROFILE_PYTHON_INCONSISTENT);
	fill_table(words, 0x030d00f0);
	words[24] = UINT64_C(1) << 30;
	assert_int_equal(refusal(0x030d00f0, words), FLMEM_PROFILE_PYTHON_INCONSISTENT);
	fill_table(words, 0x030d00f0);
	words[0] = 0;
	assert_int_equal(refusal(0x030d00f0, words), FLMEM_PROFILE_PYTHON_INCONSISTENT);
}

/* The numbers are from offsetof() in the headers of 3.10.13 and 3.11.7. */
static void test_what_a_call_in_c_has(void **state)
{
	static const uint32_t rows[][4] = {
		{8, SAMPLER_NO_OFFSET, SAMPLER_NO_OFFSET, SAMPLER_NO_OFFSET},
		{9, SAMPLER_NO_OFFSET, SAMPLER_NO_OFFSET, SAMPLER_NO_OFFSET},
		{10, 48, 8, SAMPLER_NO_OFFSET},
		{11, 56, 16, 68},
		{12, SAMPLER_NO_OFFSET, SAMPLER_NO_OFFSET, SAMPLER_NO_OFFSET},
	};
	enum flmem_profile_python why = FLMEM_PROFILE_PYTHON_NONE;
	struct sampler_python found;

	(void)state;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(rows); i++) {
		assert_true(
			sampler_python_layout(0x03000000U | rows[i][0] << 16, NULL, &found, &why));
		assert_int_equal(found.thread_call, rows[i][1]);
		assert_int_equal(found.call_previous, rows[i][2]);
		assert_int_equal(found.frame_entry, rows[i][3]);
	}
}

static bool is_used_in_315(size_t word)
{
	static const size_t used[] = {25, 26, 30, 32, 40, 41, 42, 44, 48, 50, 51, 52, 54, 56};

	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(used); i++)
		if (used[i] == word)
			return true;
	return false;
}

/* The numbers are from offsetof() in the headers of that release. */
static void test_positions_in_315(void **state)
{
	enum flmem_profile_python why = FLMEM_PROFILE_PYTHON_NONE;
	uint64_t words[1 + FLMEM_ARRAY_SIZE(cpython_table_315)];
	struct sampler_python found;

	(void)state;
	memcpy(words, "xdebugpy", 8);
	memcpy(words + 1, cpython_table_315, sizeof(cpython_table_315));
	assert_true(sampler_python_layout(0x030f02f0, words, &found, &why));
	assert_int_equal(found.thread_frame, 72);
	assert_int_equal(found.thread_id, 176);
	assert_int_equal(found.thread_chunk, 256);
	assert_int_equal(found.thread_interpreter, 16);
	assert_int_equal(found.code_version, 92);
	assert_int_equal(found.cframe_frame, SAMPLER_NO_OFFSET);
	assert_int_equal(found.frame_code, 0);
	assert_int_equal(found.frame_previous, 8);
	assert_int_equal(found.frame_instruction, 56);
	assert_int_equal(found.frame_owner, 74);
	assert_int_equal(found.code_file, 112);
	assert_int_equal(found.code_name, 128);
	assert_int_equal(found.code_lines, 136);
	assert_int_equal(found.code_first_line, 68);
	assert_int_equal(found.code_instructions, 208);
	assert_int_equal(found.frame_span, 82);
	assert_int_equal(found.frame_entry, SAMPLER_NO_OFFSET);
	assert_int_equal(found.thread_call, SAMPLER_NO_OFFSET);
	assert_int_equal(found.code_span, 144);
	assert_int_equal(found.ascii_size, words[92]);
	assert_int_equal(found.compact_size, words[93]);
	/* No structure reaches so far. Entries that are not used do not matter. */
	for (size_t i = 3; i < FLMEM_ARRAY_SIZE(words); i++) {
		words[i] = UINT64_MAX - 3;
		assert_int_equal(refusal(0x030f02f0, words),
				 is_used_in_315(i) ? FLMEM_PROFILE_PYTHON_INCONSISTENT
						   : FLMEM_PROFILE_PYTHON_READ);
		words[i] = cpython_table_315[i - 1];
	}
	assert_int_equal(refusal(0x030f00c2, words), FLMEM_PROFILE_PYTHON_UNKNOWN_VERSION);
	words[2] = 1;
	assert_int_equal(refusal(0x030f02f0, words), FLMEM_PROFILE_PYTHON_FREE_THREADED);
}

/* The entry is as gcc writes it: a return address at CFA - 8, then `push rbp`, `sub rsp, 16`. */
static const uint8_t cie_bytes[] = {1, 'z', 'R', 0, 1, 0x78, 16, 1, 0x1b, 0x0c, 7, 8, 0x90, 1};

static struct sampler_rule rule_at(const uint8_t *code, size_t size, unsigned offset)
{
	/* The function has 64 bytes and is 256 bytes after its entry. */
	uint8_t bytes[64] = {0, 1, 0, 0, 64, 0, 0, 0, 0};
	const struct sampler_cfi cie = {cie_bytes, sizeof(cie_bytes), 0x1000};
	const struct sampler_cfi fde = {bytes, 9 + size, 0x2000};
	struct sampler_rule rule = {0};

	memcpy(bytes + 9, code, size);
	if (!sampler_cfi_run(&cie, &fde, 0x2100 + offset, &rule))
		rule = (struct sampler_rule){0};
	return rule;
}

static void test_the_range_of_a_function(void **state)
{
	const uint8_t bytes[] = {0, 1, 0, 0, 64, 0, 0, 0, 0};
	const struct sampler_cfi cie = {cie_bytes, sizeof(cie_bytes), 0x1000};
	struct sampler_cfi fde = {bytes, sizeof(bytes), 0x2000};
	struct sampler_code_range range = {0};

	(void)state;
	assert_true(sampler_cfi_range(&cie, &fde, 0x213f, &range));
	assert_int_equal(range.start, 0x2100);
	assert_int_equal(range.size, 64);
	assert_false(sampler_cfi_range(&cie, &fde, 0x2140, &range));
	assert_false(sampler_cfi_range(&cie, &fde, 0x20ff, &range));
	fde.size = 7;
	assert_false(sampler_cfi_range(&cie, &fde, 0x2100, &range));
}

static void expect_rule(struct sampler_rule rule, enum sampler_unwind how, int cfa, int bp)
{
	assert_int_equal(rule.how, how);
	assert_int_equal(rule.cfa_offset, cfa);
	assert_int_equal(rule.bp_offset, bp);
}

static void test_rules_of_functions(void **state)
{
	static const uint8_t pushes[] = {0x41, 0x0e, 16,   0x86, 2, 0x44, 0x0e, 32,
					 0x50, 0x0a, 0xc6, 0x0e, 8, 0x41, 0x0b};
	static const uint8_t frame[] = {0x41, 0x0e, 16, 0x86, 2, 0x43, 0x0d, 6};
	static const uint8_t end[] = {0x07, 16};
	static const uint8_t expression[] = {0x0f, 3, 0x77, 8, 0x06};
	static const uint8_t moved[] = {0x05, 16, 2};

	(void)state;
	expect_rule(rule_at(pushes, sizeof(pushes), 0), SAMPLER_UNWIND_SP, 8, 0);
	expect_rule(rule_at(pushes, sizeof(pushes), 1), SAMPLER_UNWIND_SP, 16, -16);
	expect_rule(rule_at(pushes, sizeof(pushes), 5), SAMPLER_UNWIND_SP, 32, -16);
	expect_rule(rule_at(pushes, sizeof(pushes), 21), SAMPLER_UNWIND_SP, 8, 0);
	expect_rule(rule_at(pushes, sizeof(pushes), 22), SAMPLER_UNWIND_SP, 32, -16);
	expect_rule(rule_at(frame, sizeof(frame), 4), SAMPLER_UNWIND_BP, 16, -16);
	assert_int_equal(rule_at(end, sizeof(end), 0).how, SAMPLER_UNWIND_END);
	assert_int_equal(rule_at(expression, sizeof(expression), 0).how, SAMPLER_UNWIND_UNKNOWN);
	assert_int_equal(rule_at(moved, sizeof(moved), 0).how, SAMPLER_UNWIND_UNKNOWN);
	assert_int_equal(rule_at(pushes, sizeof(pushes) - 10, 64).how, SAMPLER_UNWIND_UNKNOWN);
	assert_int_equal(rule_at(pushes, 2, 1).how, SAMPLER_UNWIND_UNKNOWN);
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
	/*
	 * The entries are: short form without a change, one line with +2, long form with -1, none.
	 */
	static const unsigned char locations[] = {0x80, 0x00, 0xe1, 0, 0, 0xf0, 3, 0, 0, 0, 0xf8};
	/* The entries are: none, one line with +1, none. */
	static const unsigned char cells[] = {0xf9, 0xd8, 0, 0, 0xf8};

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
	/* Cells are made before the first instruction with a line. */
	assert_int_equal(line_of(SAMPLER_LINES_LOCATIONS, cells, sizeof(cells), 0), 100);
	assert_int_equal(line_of(SAMPLER_LINES_LOCATIONS, cells, sizeof(cells), 4), 101);
	assert_int_equal(line_of(SAMPLER_LINES_LOCATIONS, cells, sizeof(cells), 6), 0);
}

/* A table with any content is read within its length; the sanitizer checks the addresses. */
static void test_line_tables_of_anything(void **state)
{
	unsigned char content[64];
	uint64_t random = 7;

	(void)state;
	for (int i = 0; i < 20000; i++) {
		for (size_t j = 0; j < sizeof(content); j++)
			content[j] =
				(unsigned char)((random = random * 6364136223846793005 + 1) >> 56);
		for (int kind = SAMPLER_LINES_LNOTAB; kind <= SAMPLER_LINES_LOCATIONS; kind++)
			line_of((enum sampler_lines)kind, content, (size_t)i % sizeof(content),
				(uint64_t)i % 300);
	}
}

/* A str has a length that exceeds the mapped memory. */
static void test_texts_that_are_not_there(void **state)
{
	const struct sampler_python python = {.ascii_size = 40, .compact_size = 56};
	/* The second page is never readable, whatever the kernel maps next to them. */
	char *page = mmap(NULL, 2 * SAMPLER_PAGE, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char *text = page + SAMPLER_PAGE - 48, out[FLMEM_PROFILE_STRING_MAX];
	uint64_t length = 8;
	uint32_t flags = (1 | 8 | 16) << 2;

	(void)state;
	assert_true(page != MAP_FAILED);
	assert_int_equal(mprotect(page + SAMPLER_PAGE, SAMPLER_PAGE, PROT_NONE), 0);
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
	munmap(page, 2 * SAMPLER_PAGE);
	sampler_memory_refresh();
	assert_int_equal(sampler_python_text(&python, (uintptr_t)text, out), -1);
}

/* Objects of CPython, with the bytes that a sample depends on. */
struct str {
	uint64_t head[2], length;
	int64_t hash;
	uint64_t state;
	char content[64];
};

static void make_str(struct str *text, const char *content)
{
	memset(text, 0, sizeof(*text));
	text->length = strlen(content);
	text->hash = -1;
	text->state = (1 | 8 | 16) << 2;
	memcpy(text->content, content, text->length);
}

static uint64_t content_of(const struct str *name, const struct str *file,
			   const struct bytes *lines)
{
	const struct sampler_python python = {.ascii_size = 40, .compact_size = 56};
	const struct sampler_code code = {
		.name = (uintptr_t)name, .file = (uintptr_t)file, .lines = (uintptr_t)lines};
	struct sampler_file known = {0};

	sampler_memory_refresh();
	return sampler_python_content(&python, &code, &known);
}

/* Each byte counts, and code that cannot be read has no content. */
static void test_content_of_code(void **state)
{
	static struct str name, file;
	static struct bytes lines = {.length = 300, .hash = UINT64_MAX};
	uint64_t first, other;

	(void)state;
	make_str(&name, "name_with_13b");
	make_str(&file, "file");
	first = content_of(&name, &file, &lines);
	assert_int_equal(content_of(&name, &file, &lines), first);
	for (size_t i = 0; i < name.length; i++) {
		name.content[i] ^= 1;
		assert_int_not_equal(content_of(&name, &file, &lines), first);
		name.content[i] ^= 1;
	}
	file.content[3] ^= 1;
	assert_int_not_equal(content_of(&name, &file, &lines), first);
	file.content[3] ^= 1;
	lines.content[299] ^= 1;
	assert_int_not_equal(content_of(&name, &file, &lines), first);
	lines.content[299] ^= 1;
	lines.content[300] ^= 1; /* a byte after the end */
	assert_int_equal(content_of(&name, &file, &lines), first);
	name.hash = 5;
	other = content_of(&name, &file, &lines);
	name.hash = 6;
	assert_int_not_equal(content_of(&name, &file, &lines), other);
	lines.length = UINT64_MAX;
	assert_int_equal(content_of(&name, &file, &lines), 0);
	lines.length = 300;
	assert_int_equal(content_of(NULL, &file, &lines), 0);
	assert_int_equal(content_of(&name, NULL, &lines), 0);
	assert_int_equal(content_of(&name, &file, NULL), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_memory_that_is_not_there),
		cmocka_unit_test(test_lines_of_the_last_sample),
		cmocka_unit_test(test_what_is_the_own_stack),
		cmocka_unit_test(test_memory_that_is_certain),
		cmocka_unit_test(test_the_own_stack_is_noted),
		cmocka_unit_test(test_which_pythons_are_read),
		cmocka_unit_test(test_what_a_call_in_c_has),
		cmocka_unit_test(test_positions_in_315),
		cmocka_unit_test(test_the_range_of_a_function),
		cmocka_unit_test(test_rules_of_functions),
		cmocka_unit_test(test_line_tables),
		cmocka_unit_test(test_line_tables_of_anything),
		cmocka_unit_test(test_texts_that_are_not_there),
		cmocka_unit_test(test_content_of_code),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
