/* SPDX-License-Identifier: Apache-2.0 */
/* Tests inconsistent states of an interpreter, which this process simulates. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "elf/modules.h"
#include "ops/detect/detect_python.h"
#include "proc/process.h"
#include "proc/task.h"
#include "runtimes/cpython_state.h"

#define THREADS 3

struct fake_thread {
	uint64_t previous, next, interpreter, pointer;
};

struct fake_interpreter {
	uint64_t next, id, threads;
};

struct fake_runtime {
	uint64_t finalizing, head, main, main_thread;
	uint64_t gil[FLMEM_CPYTHON_GIL_SIZE / sizeof(uint64_t)];
	int32_t initialized;
};

static struct fake_runtime runtime;
static struct fake_interpreter interpreters[2]; /* the main one is the last of the list */
static struct fake_thread threads[2][THREADS];
static struct flmem_process process = FLMEM_PROCESS_INIT;

static const struct flmem_cpython_layout layout = {
	.initialized = offsetof(struct fake_runtime, initialized),
	.finalizing = offsetof(struct fake_runtime, finalizing),
	.interpreters_head = offsetof(struct fake_runtime, head),
	.interpreters_main = offsetof(struct fake_runtime, main),
	.main_thread = offsetof(struct fake_runtime, main_thread),
	.runtime_gil = offsetof(struct fake_runtime, gil),
	.interpreter_next = offsetof(struct fake_interpreter, next),
	.interpreter_id = offsetof(struct fake_interpreter, id),
	.threads_head = offsetof(struct fake_interpreter, threads),
	.drop_request = offsetof(struct fake_interpreter, id),
	.thread_prev = offsetof(struct fake_thread, previous),
	.thread_next = offsetof(struct fake_thread, next),
	.thread_interpreter = offsetof(struct fake_thread, interpreter),
	.thread_pointer = offsetof(struct fake_thread, pointer),
	.thread_native_id = FLMEM_CPYTHON_NONE,
	.thread_exception = FLMEM_CPYTHON_NONE,
	.eval_breaker = FLMEM_CPYTHON_NONE,
};

static uint64_t address_of(const void *object)
{
	return (uint64_t)(uintptr_t)object;
}

static void set_locked(int32_t locked, const void *holder)
{
	uint64_t address = address_of(holder);

	memcpy((char *)runtime.gil + FLMEM_CPYTHON_GIL_LOCKED, &locked, sizeof(locked));
	memcpy((char *)runtime.gil + FLMEM_CPYTHON_GIL_HOLDER, &address, sizeof(address));
}

static void link_threads(size_t index)
{
	interpreters[index].threads = address_of(&threads[index][0]);
	for (size_t i = 0; i < THREADS; i++) {
		threads[index][i] = (struct fake_thread){
			.previous = i ? address_of(&threads[index][i - 1]) : 0,
			.next = i + 1 < THREADS ? address_of(&threads[index][i + 1]) : 0,
			.interpreter = address_of(&interpreters[index]),
			.pointer = 0x1000 * (index * THREADS + i + 1),
		};
	}
}

/* Links two interpreters of three threads; the main thread is not the first of its list. */
static void link_all(void)
{
	interpreters[0] = (struct fake_interpreter){.next = address_of(&interpreters[1]), .id = 1};
	interpreters[1] = (struct fake_interpreter){.id = 0};
	link_threads(0);
	link_threads(1);
	runtime = (struct fake_runtime){
		.head = address_of(&interpreters[0]),
		.main = address_of(&interpreters[1]),
		.main_thread = threads[1][2].pointer,
		.initialized = 1,
	};
	set_locked(1, &threads[1][0]);
}

static int set_up(void **state)
{
	(void)state;
	link_all();
	return flmem_process_open(getpid(), &process, NULL);
}

static int tear_down(void **state)
{
	(void)state;
	flmem_process_close(&process);
	return 0;
}

static int read_state(struct flmem_cpython_state *state)
{
	const struct flmem_view view = {.process = &process};
	const struct flmem_cpython_place place = {layout, address_of(&runtime)};

	return flmem_cpython_state_read(&view, &place, state, NULL);
}

static void what_is_whole_is_read(void **state)
{
	FLMEM_AUTO_CPYTHON_STATE struct flmem_cpython_state found = {0};
	const struct flmem_cpython_thread *main_thread;

	(void)state;
	assert_int_equal(read_state(&found), 0);
	assert_int_equal(found.interpreters, 2);
	assert_int_equal(found.thread_count, 2 * THREADS);
	assert_false(found.finalizing);
	assert_true(found.gil.locked);
	assert_int_equal(found.gil.holder, address_of(&threads[1][0]));
	main_thread = flmem_cpython_state_main(&found);
	assert_non_null(main_thread);
	assert_int_equal(main_thread->state, address_of(&threads[1][2]));
	for (size_t i = 0; i < found.thread_count; i++)
		assert_int_equal(found.threads[i].main_interpreter, i >= THREADS);
}

static void expect_nonsense(void)
{
	FLMEM_AUTO_CPYTHON_STATE struct flmem_cpython_state found = {0};

	assert_int_equal(read_state(&found), FLMEM_EUNSUPPORTED);
}

static void lists_that_do_not_fit_together_are_refused(void **state)
{
	(void)state;
	threads[1][1].previous = address_of(&threads[1][2]);
	expect_nonsense();
	link_all();
	threads[1][1].interpreter = address_of(&interpreters[0]);
	expect_nonsense();
	link_all();
	threads[1][2].next = address_of(&threads[1][0]); /* endless */
	expect_nonsense();
	link_all();
	interpreters[0].id = 0; /* two main ones */
	expect_nonsense();
	link_all();
	threads[1][2].next = 0x1234; /* not an address of a thread state */
	expect_nonsense();
}

static void a_lock_that_cannot_be_is_refused(void **state)
{
	(void)state;
	set_locked(-1, NULL); /* never initialised */
	expect_nonsense();
	set_locked(2, &threads[1][0]);
	expect_nonsense();
}

/* The thread was just created, or is about to end: that is over soon. */
static void a_holder_in_no_list_is_temporary(void **state)
{
	FLMEM_AUTO_CPYTHON_STATE struct flmem_cpython_state found = {0};
	const struct fake_thread unknown = {0};

	(void)state;
	set_locked(1, &unknown);
	assert_int_equal(read_state(&found), FLMEM_EUNSAFE);
}

static bool changed;

static void *change_lists(void *context)
{
	while (!__atomic_load_n(&changed, __ATOMIC_RELAXED))
		for (size_t i = 0; i < THREADS; i++)
			__atomic_store_n(&interpreters[1].threads, address_of(&threads[0][i]),
					 __ATOMIC_RELAXED);
	return context;
}

/* The lists are inconsistent in one way now and in another one later. */
static void lists_that_change_are_temporary(void **state)
{
	FLMEM_AUTO_CPYTHON_STATE struct flmem_cpython_state found = {0};
	pthread_t thread;
	int rc = 0;

	(void)state;
	interpreters[1].threads = address_of(&threads[0][0]);
	expect_nonsense();
	assert_int_equal(pthread_create(&thread, NULL, change_lists, NULL), 0);
	for (int i = 0; i < 100000 && rc != FLMEM_EUNSAFE; i++)
		rc = read_state(&found);
	__atomic_store_n(&changed, true, __ATOMIC_RELAXED);
	pthread_join(thread, NULL);
	assert_int_equal(rc, FLMEM_EUNSAFE);
}

static void an_end_that_has_begun_is_seen(void **state)
{
	FLMEM_AUTO_CPYTHON_STATE struct flmem_cpython_state found = {0};
	const struct flmem_view view = {.process = &process};
	const struct flmem_cpython_place place = {layout, address_of(&runtime)};
	bool finalizing = true;

	(void)state;
	assert_int_equal(flmem_cpython_finalizing_read(&view, &place, &finalizing, NULL), 0);
	assert_false(finalizing);
	runtime.finalizing = address_of(&threads[1][0]);
	assert_int_equal(flmem_cpython_finalizing_read(&view, &place, &finalizing, NULL), 0);
	assert_true(finalizing);
	assert_int_equal(read_state(&found), 0);
	assert_true(found.finalizing);
}

/* One thread initialises the interpreter until then. */
static void an_interpreter_that_is_being_made_is_not_entered(void **state)
{
	FLMEM_AUTO_CPYTHON_STATE struct flmem_cpython_state found = {0};
	const struct flmem_view view = {.process = &process};
	const struct flmem_cpython_place place = {layout, address_of(&runtime)};
	bool finalizing = false;

	(void)state;
	runtime.initialized = 0;
	assert_int_equal(flmem_cpython_finalizing_read(&view, &place, &finalizing, NULL), 0);
	assert_true(finalizing);
	assert_int_equal(read_state(&found), FLMEM_EUNSAFE);
	/* The end of an interpreter frees it as well, and is reported as such. */
	runtime.finalizing = address_of(&threads[1][0]);
	assert_int_equal(read_state(&found), 0);
	assert_true(found.finalizing);
}

/* The beginning of the table of a 3.13, found by its name in the program of this test. */
uint64_t runtime_table[FLMEM_CPYTHON_TABLE_MAX / sizeof(uint64_t)] __asm__("_PyRuntime") = {
	0,  0x30d05f0, 0, 283376, 608,	632, 194976, 7272, 7264, 7344, 7400, 7656, 7640, 7648,
	16, 7752,      0, 7768,	  7760, 304, 0,	     8,	   16,	 72,   152,  160,  232,
};

static int locate_in(int minor, uint64_t free_threaded, struct flmem_error *err)
{
	FLMEM_AUTO_IMAGE_CACHE struct flmem_image_cache *cache = flmem_image_cache_new();
	FLMEM_AUTO_MAPS struct flmem_maps maps = {0};
	FLMEM_AUTO_MODULES struct flmem_modules modules = {0};
	const struct flmem_view view = {&process, &maps, &modules};
	struct flmem_cpython python = {.major = 3, .minor = minor};
	struct flmem_cpython_place place;

	memcpy(runtime_table, "xdebugpy", sizeof(runtime_table[0]));
	runtime_table[2] = free_threaded;
	assert_int_equal(flmem_maps_read(&process, &maps, NULL), 0);
	assert_int_equal(flmem_modules_load(&process, &maps, cache, &modules, NULL), 0);
	python.module = flmem_modules_main(&modules);
	return flmem_cpython_locate(&view, &python, &place, err);
}

static int locate(uint64_t free_threaded, struct flmem_error *err)
{
	return locate_in(13, free_threaded, err);
}

static void a_table_of_another_version_than_the_file_is_refused(void **state)
{
	struct flmem_error err = {0};

	(void)state;
	for (int minor = 14; minor < 16; minor++) {
		assert_int_equal(locate_in(minor, 0, &err), FLMEM_EUNSUPPORTED);
		assert_non_null(strstr(err.message, "offset table and its file have different"));
	}
	if (locate_in(13, 0, &err))
		fail_msg("%s", err.message);
}

static void an_interpreter_without_the_lock_is_refused(void **state)
{
	struct flmem_error err = {0};

	(void)state;
	if (locate(0, &err))
		fail_msg("%s", err.message);
	assert_int_equal(locate(1, &err), FLMEM_EUNSUPPORTED);
	assert_non_null(strstr(err.message, "free-threaded"));
}

/* File names do not show the build in every distribution; the table does. */
static void builds_of_unknown_layout_are_refused_by_name(void **state)
{
	struct flmem_error err = {0};
	uint64_t version = runtime_table[1];

	(void)state;
	runtime_table[1] = 0x31000f0;
	assert_int_equal(locate(0, &err), FLMEM_EUNSUPPORTED);
	assert_non_null(strstr(err.message, "newer than CPython 3.15"));
	assert_int_equal(locate(1, &err), FLMEM_EUNSUPPORTED);
	assert_non_null(strstr(err.message, "free-threaded"));
	runtime_table[1] = 0x30c00f0;
	assert_int_equal(locate(0, &err), FLMEM_EUNSUPPORTED);
	assert_non_null(strstr(err.message, "version that flmem does not know"));
	runtime_table[1] = version;
}

/*
 * Checks why detect does not read the arenas of this program, taken for a CPython of this release.
 */
static void assert_arenas_unknown(int minor, uint64_t mark, const char *why)
{
	FLMEM_AUTO_IMAGE_CACHE struct flmem_image_cache *cache = flmem_image_cache_new();
	FLMEM_AUTO_MAPS struct flmem_maps maps = {0};
	FLMEM_AUTO_MODULES struct flmem_modules modules = {0};
	const struct flmem_view view = {&process, &maps, &modules};
	struct flmem_cpython python = {.major = 3, .minor = minor, .version = "3.x"};
	struct flmem_python_places places = {0};
	const struct flmem_python_reading reading = {
		.python = &python, .places = &places, .budget_us = 1};
	struct flmem_process_report report = {0};

	memcpy(runtime_table, "xdebugpy", sizeof(runtime_table[0]));
	runtime_table[2] = mark;
	assert_int_equal(flmem_maps_read(&process, &maps, NULL), 0);
	assert_int_equal(flmem_modules_load(&process, &maps, cache, &modules, NULL), 0);
	python.module = flmem_modules_main(&modules);
	assert_int_equal(flmem_python_report_read(&view, &reading, &report), 0);
	assert_non_null(report.python.arenas.unknown);
	if (!strstr(report.python.arenas.unknown, why))
		fail_msg("%s", report.python.arenas.unknown);
	free(report.python.version);
}

static void arenas_of_unknown_builds_are_not_read(void **state)
{
	(void)state;
	assert_arenas_unknown(16, 0, "up to 3.15");
	assert_arenas_unknown(16, 1, "free-threaded");
	assert_arenas_unknown(15, 1, "free-threaded");
	assert_arenas_unknown(14, 1, "free-threaded");
	assert_arenas_unknown(13, 1, "free-threaded");
}

static void whoever_waits_for_the_lock_is_known_by_its_futex(void **state)
{
	const struct flmem_cpython_gil gil = {.start = 0x5000, .end = 0x5000 + 208};
	struct flmem_task_wait at = {.number = SYS_futex, .args = {0x5000}};

	(void)state;
	assert_true(flmem_cpython_gil_is_waited_for(&gil, &at));
	at.args[0] = 0x5000 + 207;
	assert_true(flmem_cpython_gil_is_waited_for(&gil, &at));
	at.args[0] = 0x5000 + 208;
	assert_false(flmem_cpython_gil_is_waited_for(&gil, &at));
	at.args[0] = 0x4fff;
	assert_false(flmem_cpython_gil_is_waited_for(&gil, &at));
	at = (struct flmem_task_wait){.number = SYS_read, .args = {0x5000}};
	assert_false(flmem_cpython_gil_is_waited_for(&gil, &at));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(what_is_whole_is_read, set_up, tear_down),
		cmocka_unit_test_setup_teardown(lists_that_do_not_fit_together_are_refused, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(a_lock_that_cannot_be_is_refused, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(a_holder_in_no_list_is_temporary, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(lists_that_change_are_temporary, set_up, tear_down),
		cmocka_unit_test_setup_teardown(an_end_that_has_begun_is_seen, set_up, tear_down),
		cmocka_unit_test_setup_teardown(an_interpreter_that_is_being_made_is_not_entered,
						set_up, tear_down),
		cmocka_unit_test_setup_teardown(an_interpreter_without_the_lock_is_refused, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(a_table_of_another_version_than_the_file_is_refused,
						set_up, tear_down),
		cmocka_unit_test_setup_teardown(builds_of_unknown_layout_are_refused_by_name,
						set_up, tear_down),
		cmocka_unit_test_setup_teardown(arenas_of_unknown_builds_are_not_read, set_up,
						tear_down),
		cmocka_unit_test(whoever_waits_for_the_lock_is_known_by_its_futex),
	};

	return cmocka_run_group_tests_name("cpython_image", tests, NULL, NULL);
}
