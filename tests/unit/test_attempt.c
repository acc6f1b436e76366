/* SPDX-License-Identifier: Apache-2.0 */
/* Work that is given up when one read is not answered, and is not when it only takes long. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/attempt.h"

#define PATIENCE_MS 400U
#define CODE	    FLMEM_EUNSUPPORTED

struct work {
	int ends[2]; /* a pipe, the file that does not answer */
	size_t reads;
	unsigned pause_ms;
	sigset_t blocked;
	pthread_t thread;
	_Atomic bool lost, released;
};

static int work_open(void **state)
{
	struct work *work = calloc(1, sizeof(*work));

	*state = work;
	return !work || pipe(work->ends);
}

static int work_close(void **state)
{
	struct work *work = *state;

	close(work->ends[0]);
	close(work->ends[1]);
	free(work);
	return 0;
}

static void release(void *context)
{
	struct work *work = context;

	atomic_store(&work->released, true);
}

static int attempt(struct work *work, int (*run)(void *context, struct flmem_error *err),
		   bool *ret_lost, struct flmem_error *err)
{
	const struct flmem_attempt how = {
		.run = run, .release = release, .patience_ms = PATIENCE_MS};

	return flmem_attempt_run(&how, work, ret_lost, err);
}

/* Gives the reader what it waits for. */
static void answer(struct work *work)
{
	assert_int_equal(write(work->ends[1], "x", 1), 1);
}

static void await_release(struct work *work)
{
	for (int i = 0; i < 20000 && !atomic_load(&work->released); i++)
		usleep(1000);
	assert_true(work->released);
}

static int read_once(void *context, struct flmem_error *err)
{
	struct work *work = context;
	char byte;

	while (read(work->ends[0], &byte, 1) != 1)
		continue;
	atomic_store(&work->lost, flmem_attempt_is_lost());
	return flmem_error_set(err, CODE, 0, "read");
}

static void a_read_without_an_answer_is_given_up(void **state)
{
	struct work *work = *state;
	struct flmem_error err = {0};
	bool lost = false;

	assert_int_equal(attempt(work, read_once, &lost, &err), FLMEM_EUNSAFE);
	assert_true(lost);
	assert_non_null(strstr(err.message, "did not answer within 400 ms"));
	assert_false(work->released);
	answer(work);
	await_release(work);
	assert_true(work->lost);
	assert_false(flmem_attempt_is_lost());
}

static void what_is_answered_is_the_caller_s(void **state)
{
	struct work *work = *state;
	struct flmem_error err = {0};
	bool lost = false;

	answer(work);
	assert_int_equal(attempt(work, read_once, &lost, &err), CODE);
	assert_string_equal(err.message, "read");
	assert_false(lost || work->lost || work->released);
}

/* A server that answers each read in good time. */
static void *serve(void *context)
{
	struct work *work = context;

	for (size_t i = 0; i < work->reads; i++) {
		usleep(work->pause_ms * 1000);
		if (write(work->ends[1], "x", 1) != 1)
			break;
	}
	return NULL;
}

/* Each into another place, as the parts of a target's memory go into. */
static int read_many(void *context, struct flmem_error *err)
{
	struct work *work = context;
	char bytes[256];

	(void)err;
	for (size_t i = 0; i < work->reads; i++)
		if (read(work->ends[0], bytes + i % sizeof(bytes), 1) != 1)
			return FLMEM_EFAILED;
	return 0;
}

static void start_server(struct work *work, size_t reads, unsigned pause_ms)
{
	work->reads = reads;
	work->pause_ms = pause_ms;
	assert_int_equal(pthread_create(&work->thread, NULL, serve, work), 0);
}

/* Too long for one read, and half of what many may take. */
static void reads_that_are_answered_are_awaited(void **state)
{
	struct work *work = *state;
	bool lost = false;

	start_server(work, 12, 120);
	assert_int_equal(attempt(work, read_many, &lost, NULL), 0);
	assert_false(lost);
	pthread_join(work->thread, NULL);
}

/* As long as many reads may take, one may not. */
static void an_answer_that_comes_too_late_is_not_awaited(void **state)
{
	struct work *work = *state;
	bool lost = false;

	start_server(work, 1, 3 * PATIENCE_MS);
	assert_int_equal(attempt(work, read_many, &lost, NULL), FLMEM_EUNSAFE);
	assert_true(lost);
	pthread_join(work->thread, NULL);
	await_release(work);
}

static void reads_without_end_are_given_up(void **state)
{
	struct work *work = *state;
	bool lost = false;

	start_server(work, 80, 50);
	assert_int_equal(attempt(work, read_many, &lost, NULL), FLMEM_EUNSAFE);
	assert_true(lost);
	pthread_join(work->thread, NULL);
	await_release(work);
}

static int wait_long(void *context, struct flmem_error *err)
{
	(void)context;
	(void)err;
	usleep(4U * PATIENCE_MS * 1000U);
	return 0;
}

/* It ends by itself, whatever a target does. */
static void a_long_sleep_is_no_missing_answer(void **state)
{
	struct work *work = *state;
	bool lost = false;

	assert_int_equal(attempt(work, wait_long, &lost, NULL), 0);
	assert_false(lost || work->released);
}

static int note_thread(void *context, struct flmem_error *err)
{
	struct work *work = context;

	(void)err;
	work->thread = pthread_self();
	pthread_sigmask(SIG_SETMASK, NULL, &work->blocked);
	return 0;
}

static int nest(void *context, struct flmem_error *err)
{
	struct work *work = context;
	bool lost = false;
	int rc = attempt(work, note_thread, &lost, err);

	return rc || lost || !pthread_equal(work->thread, pthread_self());
}

static void one_within_another_uses_its_thread(void **state)
{
	struct work *work = *state;
	bool lost = false;

	assert_int_equal(attempt(work, nest, &lost, NULL), 0);
	assert_int_equal(attempt(work, note_thread, &lost, NULL), 0);
	assert_false(pthread_equal(work->thread, pthread_self()));
}

static bool takes(const sigset_t *blocked, int number)
{
	return sigismember(blocked, number) == 0;
}

/* The thread that may hold a thread of a target knows when it must not be stopped. */
static void stops_of_terminals_go_to_the_thread_that_works(void **state)
{
	struct work *work = *state;
	sigset_t own, before, now;
	bool lost = false;

	sigemptyset(&own);
	sigaddset(&own, SIGTTIN);
	pthread_sigmask(SIG_BLOCK, &own, &before);
	assert_int_equal(attempt(work, note_thread, &lost, NULL), 0);
	pthread_sigmask(SIG_SETMASK, &before, &now);
	assert_true(takes(&work->blocked, SIGTSTP) && takes(&work->blocked, SIGTTOU));
	assert_false(takes(&work->blocked, SIGTTIN)); /* the caller's own wish */
	assert_false(takes(&work->blocked, SIGTERM));
	assert_true(takes(&now, SIGTSTP) && takes(&now, SIGTTOU) && !takes(&now, SIGTTIN));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, work_open, work_close)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_read_without_an_answer_is_given_up),
		TEST(what_is_answered_is_the_caller_s),
		TEST(reads_that_are_answered_are_awaited),
		TEST(an_answer_that_comes_too_late_is_not_awaited),
		TEST(reads_without_end_are_given_up),
		TEST(a_long_sleep_is_no_missing_answer),
		TEST(one_within_another_uses_its_thread),
		TEST(stops_of_terminals_go_to_the_thread_that_works),
	};

	return cmocka_run_group_tests_name("attempt", tests, NULL, NULL);
}
