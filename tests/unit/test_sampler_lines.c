/* SPDX-License-Identifier: Apache-2.0 */
/* Tests copies of memory that may vanish: which have room, when they are made, and from whom. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "preload/sampler/sampler.h"

struct sampler_control sampler_control;
struct sampler_tables sampler_tables;
__thread struct sampler_thread sampler_thread;

#define MANY (SAMPLER_LINES / SAMPLER_LINE_WAYS * SAMPLER_LINE)

/*
 * Expects in each line its own number: whatever is displaced, no line has the content of another.
 */
static void expect_numbers(uintptr_t start, size_t step, size_t count, uint64_t first)
{
	for (int again = 0; again < 2; again++) {
		for (size_t i = 0; i < count; i++) {
			uint64_t number = 0;

			assert_true(sampler_read_often(start + i * step, &number, 8));
			assert_int_equal(number, first + i * step / SAMPLER_LINE);
		}
	}
}

static char *make_numbers(size_t size)
{
	char *bytes = mmap(NULL, size + SAMPLER_PAGE, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_true(bytes != MAP_FAILED);
	for (uint64_t i = 0; i < size / SAMPLER_LINE; i++)
		memcpy(bytes + i * SAMPLER_LINE, (uint64_t[]){i + 1}, 8);
	assert_int_equal(mprotect(bytes + size, SAMPLER_PAGE, PROT_NONE), 0);
	return bytes;
}

/* There are more lines than room, all in a row, or all where few have room. */
static void test_more_lines_than_room(void **state)
{
	static struct sampler_copies lines;
	size_t size = 8 * (size_t)MANY;
	uintptr_t start = (uintptr_t)make_numbers(size);

	(void)state;
	for (int sample = 0; sample < 3; sample++) {
		sampler_copies_begin(&lines);
		expect_numbers(start, SAMPLER_LINE, size / SAMPLER_LINE, 1);
		expect_numbers(start, MANY, 8, 1);
		for (int want = 0; want < 2; want++) {
			sampler_copies_want(start + (size_t)want * size / 2, size / 2);
			expect_numbers(start, SAMPLER_LINE * 3, size / SAMPLER_LINE / 3, 1);
			sampler_copies_fetch();
			expect_numbers(start, SAMPLER_LINE, size / SAMPLER_LINE, 1);
		}
		sampler_copies_end();
	}
	munmap((void *)start, size + SAMPLER_PAGE);
}

/*
 * Wanted lines have room, also where lines that could not be read have taken the place of others.
 */
static void test_room_for_wanted_lines(void **state)
{
	static struct {
		struct sampler_copies lines;
		char behind[SAMPLER_LINES * SAMPLER_LINE];
	} room;
	size_t size = 8 * (size_t)MANY;
	uintptr_t start = (uintptr_t)make_numbers(size), out;

	(void)state;
	sampler_copies_begin(&room.lines);
	sampler_copies_want(start, MANY);
	for (size_t way = 1; way < SAMPLER_LINE_WAYS; way++)
		expect_numbers(start + way * MANY, SAMPLER_LINE, MANY / SAMPLER_LINE,
			       1 + way * MANY / SAMPLER_LINE);
	for (size_t i = 0; i < SAMPLER_LINES; i++) {
		size_t line = i % (SAMPLER_PAGE / SAMPLER_LINE) * SAMPLER_LINE;

		assert_false(sampler_read_often(start + size + line, &out, 8));
		expect_numbers(start + 5 * (size_t)MANY + line, 0, 1,
			       1 + (5 * (size_t)MANY + line) / SAMPLER_LINE);
	}
	sampler_copies_fetch();
	expect_numbers(start, SAMPLER_LINE, MANY / SAMPLER_LINE, 1);
	sampler_copies_end();
	for (size_t i = 0; i < sizeof(room.behind); i++)
		assert_int_equal(room.behind[i], 0);
	munmap((void *)start, size + SAMPLER_PAGE);
}

/* Wanted lines are copied as they are at that time, up to an absent one; others are read singly. */
static void test_wanted_lines(void **state)
{
	static struct sampler_copies lines;
	size_t size = 2 * SAMPLER_PAGE;
	uintptr_t start = (uintptr_t)make_numbers(size), out;

	(void)state;
	sampler_copies_begin(&lines);
	sampler_copies_want(start, 8);
	sampler_copies_want(start + size, 8);
	sampler_copies_want(start + SAMPLER_PAGE - 4, 8);
	sampler_copies_want(8, 8);
	sampler_copies_want(UINTPTR_MAX - 4, 8);
	*(uint64_t *)start = 7;
	sampler_copies_fetch();
	*(uint64_t *)start = 8;
	assert_true(sampler_read_often(start, &out, 8) && out == 7);
	assert_false(sampler_read_often(start + size, &out, 8));
	assert_false(sampler_read_often(start + size - 4, &out, 8));
	assert_true(sampler_read_often(start + SAMPLER_PAGE, &out, 8));
	assert_int_equal(out, 1 + SAMPLER_PAGE / SAMPLER_LINE);
	sampler_copies_end();
	munmap((void *)start, size + SAMPLER_PAGE);
}

/* The next sample copies again the lines that this one has read singly, not those it has wanted. */
static void test_what_is_copied_again(void **state)
{
	static struct sampler_copies lines;
	uintptr_t start = (uintptr_t)make_numbers(SAMPLER_PAGE), out;

	(void)state;
	sampler_copies_begin(&lines);
	sampler_copies_want(start, 8);
	sampler_copies_fetch();
	assert_true(sampler_read_often(start, &out, 8));
	assert_true(sampler_read_often(start + SAMPLER_BLOCK, &out, 8));
	sampler_copies_end();
	sampler_copies_begin(&lines);
	*(uint64_t *)start = *(uint64_t *)(start + SAMPLER_BLOCK) = 9;
	assert_true(sampler_read_often(start, &out, 8) && out == 9);
	assert_true(sampler_read_often(start + SAMPLER_BLOCK, &out, 8) && out != 9);
	sampler_copies_end();
	munmap((void *)start, 2 * SAMPLER_PAGE);
}

/* A child without a handler for fork() has its parent's number; its copies stay with it. */
static void test_a_child_that_nobody_noticed(void **state)
{
	static char from[8] = "parent", to[8];
	int status = 0;
	pid_t child;

	(void)state;
	sampler_thread.pid = (uint32_t)getpid();
	child = fork();
	if (!child) {
		memcpy(from, "child!", sizeof("child!"));
		_exit(sampler_read((uintptr_t)from, to, sizeof(to)) && !strcmp(to, "child!") ? 0
											     : 1);
	}
	assert_true(child > 0 && waitpid(child, &status, 0) == child);
	assert_int_equal(status, 0);
	assert_string_equal(to, "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_more_lines_than_room),
		cmocka_unit_test(test_room_for_wanted_lines),
		cmocka_unit_test(test_wanted_lines),
		cmocka_unit_test(test_what_is_copied_again),
		cmocka_unit_test(test_a_child_that_nobody_noticed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
