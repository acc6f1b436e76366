/* SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "remote/checks/locks.h"

static uint32_t words[3];

static int check(size_t count)
{
	FLMEM_AUTO_PROCESS struct flmem_process self = FLMEM_PROCESS_INIT;
	struct flmem_guard guard = {0};

	assert_int_equal(flmem_process_open(getpid(), &self, NULL), 0);
	for (size_t i = 0; i < count; i++)
		flmem_guard_add_word(&guard, (uint64_t)(uintptr_t)&words[i]);
	return flmem_locks_check(&self, &guard, NULL);
}

static void test_all_free(void **state)
{
	(void)state;
	words[0] = words[1] = words[2] = 0;
	assert_int_equal(check(0), 0);
	assert_int_equal(check(3), 0);
}

static void test_held_all_the_time(void **state)
{
	(void)state;
	words[0] = words[1] = 0;
	words[2] = 2; /* glibc: the lock is held, and others wait */
	assert_int_equal(check(2), 0);
	assert_int_equal(check(3), FLMEM_EUNSAFE);
}

static _Atomic int tired;

static void *hand_around(void *data)
{
	_Atomic uint32_t *word = data;

	while (!atomic_load(&tired))
		atomic_store(word, !atomic_load(word));
	return NULL;
}

/* On a busy machine the other thread may not run at all during one check. */
static void test_passes_on(void **state)
{
	pthread_t thread;
	int rc = FLMEM_EUNSAFE;

	(void)state;
	words[0] = 0;
	words[1] = 1;
	assert_int_equal(pthread_create(&thread, NULL, hand_around, &words[1]), 0);
	for (int i = 0; rc && i < 1000; i++)
		rc = check(2);
	atomic_store(&tired, 1);
	pthread_join(thread, NULL);
	assert_int_equal(rc, 0);
}

static void test_unreadable(void **state)
{
	FLMEM_AUTO_PROCESS struct flmem_process self = FLMEM_PROCESS_INIT;
	struct flmem_guard guard = {0};
	struct flmem_error err = {0};

	(void)state;
	assert_int_equal(flmem_process_open(getpid(), &self, NULL), 0);
	flmem_guard_add_word(&guard, 8);
	assert_int_equal(flmem_locks_check(&self, &guard, &err), FLMEM_EUNSAFE);
	assert_non_null(strstr(err.message, "its memory cannot be read"));
	guard = (struct flmem_guard){.unread = "nobody knows them"};
	assert_int_equal(flmem_locks_check(&self, &guard, &err), FLMEM_EUNSAFE);
	assert_non_null(strstr(err.message, guard.unread));
}

static void test_too_many(void **state)
{
	FLMEM_AUTO_PROCESS struct flmem_process self = FLMEM_PROCESS_INIT;
	struct flmem_guard guard = {0};

	(void)state;
	words[0] = 0;
	assert_int_equal(flmem_process_open(getpid(), &self, NULL), 0);
	for (size_t i = 0; i < FLMEM_GUARD_WORDS; i++)
		flmem_guard_add_word(&guard, (uint64_t)(uintptr_t)&words[0]);
	assert_int_equal(flmem_locks_check(&self, &guard, NULL), 0);
	flmem_guard_add_word(&guard, (uint64_t)(uintptr_t)&words[0]);
	assert_int_equal(guard.word_count, FLMEM_GUARD_WORDS);
	assert_int_equal(flmem_locks_check(&self, &guard, NULL), FLMEM_EUNSAFE);
}

static void test_too_many_ranges(void **state)
{
	FLMEM_AUTO_PROCESS struct flmem_process self = FLMEM_PROCESS_INIT;
	struct flmem_guard guard = {0};
	struct flmem_error err = {0};
	uint64_t at = 4096;

	(void)state;
	assert_int_equal(flmem_process_open(getpid(), &self, NULL), 0);
	flmem_guard_add_code(&guard, at, at);
	assert_int_equal(guard.code_count, 0);
	/* Neighbouring ranges become one. */
	for (size_t i = 0; i < 2 * FLMEM_GUARD_RANGES; i++, at += 4096)
		flmem_guard_add_code(&guard, at, at + 4096);
	assert_int_equal(guard.code_count, 1);
	assert_int_equal(guard.code[0].end, at);
	for (size_t i = 0; i < FLMEM_GUARD_RANGES; i++, at += 8192)
		flmem_guard_add_locks(&guard, at, at + 4096);
	assert_int_equal(flmem_locks_check(&self, &guard, NULL), 0);
	flmem_guard_add_locks(&guard, at, at + 4096);
	assert_int_equal(guard.lock_count, FLMEM_GUARD_RANGES);
	assert_int_equal(flmem_locks_check(&self, &guard, &err), FLMEM_EUNSAFE);
	assert_non_null(strstr(err.message, "in more than 32 mappings"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_all_free),  cmocka_unit_test(test_held_all_the_time),
		cmocka_unit_test(test_passes_on), cmocka_unit_test(test_unreadable),
		cmocka_unit_test(test_too_many),  cmocka_unit_test(test_too_many_ranges),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
