/* SPDX-License-Identifier: Apache-2.0 */
/* Tests the parts of a trim: none follows one whose calls a thread still makes. */
#include "borrowed.h"

#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>

#include <flmem/trim.h>

#define PYTHON "/usr/bin/python3"

static pid_t child;
static const char *allocator; /* preloaded in the child; NULL: none */
static unsigned borrowed;
static bool cancels; /* the last calls may be taken back */

/* Replaces flmem's borrow: the calls do not end in time. */
int __wrap_flmem_borrow_run(const struct flmem_view *view, const struct flmem_chain *chain,
			    const struct flmem_borrow_options *options,
			    struct flmem_borrow_result *ret_result, struct flmem_error *err);
int __wrap_flmem_borrow_run(const struct flmem_view *view, const struct flmem_chain *chain,
			    const struct flmem_borrow_options *options,
			    struct flmem_borrow_result *ret_result, struct flmem_error *err)
{
	(void)view, (void)chain;
	borrowed++;
	cancels = options->cancels;
	*ret_result = (struct flmem_borrow_result){.tid = child, .started = true};
	return flmem_error_set(err, FLMEM_EFAILED, 0, "the call has not ended");
}

static void be_python(void)
{
	if (allocator)
		setenv("LD_PRELOAD", allocator, 1);
	execl(PYTHON, PYTHON, "-c", "import time\ntime.sleep(1000)", NULL);
}

static int start_python(void **state)
{
	allocator = *state;
	borrowed = 0;
	child = child_start(be_python);
	return !child;
}

static int end_python(void **state)
{
	(void)state;
	child_end(child);
	return 0;
}

static bool has_mapped(const char *library)
{
	char path[32], line[512];
	bool found = false;
	FILE *maps;

	snprintf(path, sizeof(path), "/proc/%d/maps", (int)child);
	maps = fopen(path, "re");
	while (maps && !found && fgets(line, sizeof(line), maps))
		found = strstr(line, library) != NULL;
	if (maps)
		fclose(maps);
	return found;
}

static void assert_first_part_alone(const struct flmem_trim_options *options)
{
	struct flmem_trim_result result;
	struct flmem_error err = {0};
	int rc;

	if (access(PYTHON, X_OK)) {
		print_message("SKIP: there is no " PYTHON "\n");
		skip();
	}
	await_true(is_blocked_in(child, SYS_clock_nanosleep) || is_blocked_in(child, SYS_select));
	if (allocator && !has_mapped(allocator)) {
		print_message("SKIP: there is no %s\n", allocator);
		skip();
	}
	rc = flmem_trim_process(child, options, &result, &err);
	if (!borrowed)
		expect_borrowed(rc, &err);
	assert_int_equal(rc, FLMEM_EFAILED);
	assert_int_equal(borrowed, 1);
}

static void none_follows_a_thread_for_code_that_is_not_started_yet(void **state)
{
	(void)state;
	assert_first_part_alone(&(struct flmem_trim_options){.collect = true, .cuda = true});
}

static void none_follows_an_allocator_that_has_not_ended(void **state)
{
	(void)state;
	assert_first_part_alone(&(struct flmem_trim_options){.cuda = true});
}

/* The trim first queries jemalloc's hooks, by separate calls. */
static void none_follows_a_query_that_has_not_ended(void **state)
{
	(void)state;
	assert_first_part_alone(&(struct flmem_trim_options){.cuda = true});
	borrowed = 0;
	assert_first_part_alone(&(struct flmem_trim_options){.collect = true, .cuda = true});
}

/* Only malloc_trim() of glibc holds no lock of its own while it waits for one. */
static void only_calls_of_glibc_are_taken_back(void **state)
{
	assert_first_part_alone(&(struct flmem_trim_options){0});
	assert_int_equal(cancels, !*state);
}

#define PARTS_ROW(function, preloaded)                                   \
	{                                                                \
#function, function, start_python, end_python, preloaded \
	}

int main(void)
{
	static char jemalloc[] = "libjemalloc.so.2", mimalloc[] = "libmimalloc.so.2";
	const struct CMUnitTest tests[] = {
		PARTS_ROW(none_follows_a_query_that_has_not_ended, jemalloc),
		PARTS_ROW(only_calls_of_glibc_are_taken_back, NULL),
		PARTS_ROW(only_calls_of_glibc_are_taken_back, mimalloc),
		cmocka_unit_test_setup_teardown(
			none_follows_a_thread_for_code_that_is_not_started_yet, start_python,
			end_python),
		cmocka_unit_test_setup_teardown(none_follows_an_allocator_that_has_not_ended,
						start_python, end_python),
	};

	return cmocka_run_group_tests_name("trim_parts", tests, NULL, NULL);
}
