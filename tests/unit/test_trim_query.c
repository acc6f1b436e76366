/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests a trim whose allocator is queried first, by calls that wait for a lock of the program.
 * While a thread still makes them, no other thread is borrowed.
 */
#include "borrowed.h"

#include <linux/futex.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/syscall.h>

#include "allocators/allocator.h"
#include "ops/target/inspection.h"
#include "ops/target/query.h"
#include "ops/trim/trim_parts.h"
#include "remote/chain.h"

#define TIMEOUT_US 100000U

struct page {
	_Atomic uint32_t is_open; /* the lock for which a query waits */
	_Atomic uint32_t waiting, queries, trims;
};

static struct page *page;
static pid_t child;

#ifdef __x86_64__
static void wait_in_query(void)
{
	atomic_fetch_add(&page->waiting, 1);
	while (!atomic_load(&page->is_open))
		syscall(SYS_futex, &page->is_open, FUTEX_WAIT, 0, NULL, NULL, 0);
	atomic_fetch_add(&page->queries, 1);
}

static void note_trim(void)
{
	atomic_fetch_add(&page->trims, 1);
}

static uint64_t plan_waiting_state(const struct flmem_view *view,
				   const struct flmem_allocator *found, const unsigned char *query,
				   struct flmem_chain *chain)
{
	(void)view, (void)found, (void)query;
	flmem_chain_add(chain, "wait", (uintptr_t)wait_in_query);
	return 0;
}

static void take_state(const struct flmem_allocator *found, const unsigned char *answers,
		       struct flmem_heap_report *ret_heap)
{
	(void)found, (void)answers;
	*ret_heap = FLMEM_HEAP_UNKNOWN("it reports no figures");
}

static int plan_noted_trim(const struct flmem_view *view, const struct flmem_allocator *found,
			   const unsigned char *answers, struct flmem_chain *chain,
			   struct flmem_error *err)
{
	(void)view, (void)found, (void)answers, (void)err;
	flmem_chain_add(chain, "trim", (uintptr_t)note_trim);
	return 0;
}

/* Guards nothing: this allocator is the program itself, whose threads are not inside of it. */
static void guard_nothing(const struct flmem_view *view, const struct flmem_allocator *found,
			  struct flmem_guard *guard)
{
	(void)view, (void)found, (void)guard;
}

static const struct flmem_allocator_ops waiting = {
	.guard = guard_nothing,
	.kind = FLMEM_ALLOCATOR_TCMALLOC,
	.plan_trim = plan_noted_trim,
	.plan_state = plan_waiting_state,
	.take_state = take_state,
};

static void *stay_idle(void *unused)
{
	int ends[2];
	char byte;

	if (pipe(ends) == 0)
		(void)!read(ends[0], &byte, 1);
	return unused;
}

static void be_child(void)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, stay_idle, NULL) == 0)
		stay_idle(NULL);
}

static struct flmem_target_inspection *inspect(pid_t pid)
{
	struct flmem_target_inspection *inspection = flmem_target_inspection_new(NULL);

	assert_non_null(inspection);
	assert_int_equal(flmem_process_open(pid, &inspection->process, NULL), 0);
	assert_int_equal(flmem_process_pin_memory(&inspection->process, NULL), 0);
	assert_int_equal(flmem_target_inspection_read(inspection, NULL), 0);
	inspection->allocators.count = 1;
	inspection->allocators.rows[0].ops = &waiting;
	inspection->allocators.rows[0].serves_malloc = true;
	return inspection;
}

static int trim_once(struct flmem_trim_result *result, struct flmem_error *err)
{
	FLMEM_AUTO_INSPECTION struct flmem_target_inspection *target = inspect(child);
	const struct flmem_trim_options options = {.predict = true};
	struct flmem_trim_job job = {
		.options = &options, .result = result, .target = target, .timeout_us = TIMEOUT_US};

	return flmem_trim_allocator(&job, err);
}

/* Trims after a query. If no thread is idle in time for the query, the trim is made without it. */
static int trim_after_query(struct flmem_trim_result *result, struct flmem_error *err)
{
	const uint32_t before = page->waiting;
	int rc = 0;

	for (int i = 0; i < 50 && !rc && page->waiting == before; i++) {
		page->trims = 0;
		rc = trim_once(result, err);
	}
	return rc;
}

static void open_lock(void)
{
	atomic_store(&page->is_open, 1);
	syscall(SYS_futex, &page->is_open, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

static void no_thread_is_borrowed_beside_a_query_that_waits(void **state)
{
	struct flmem_trim_result result = {0};
	struct flmem_error err = {0};
	int rc = trim_after_query(&result, &err);

	(void)state;
	if (rc != FLMEM_EFAILED)
		expect_borrowed(rc, &err);
	assert_int_equal(rc, FLMEM_EFAILED);
	assert_non_null(strstr(err.message, "the call has not ended after"));
	assert_int_equal(page->trims, 0);
	open_lock();
	await_true(page->queries == 1);
}

/* The queries are made as in watch --auto, and by conditions that query the allocator. */
static void no_thread_is_borrowed_beside_an_earlier_query_that_waits(void **state)
{
	struct flmem_trim_result result = {0};
	struct flmem_error err = {0};
	int rc = trim_after_query(&result, &err);

	(void)state;
	if (rc != FLMEM_EFAILED)
		expect_borrowed(rc, &err);
	assert_int_equal(trim_once(&result, &err), FLMEM_EUNSAFE);
	assert_non_null(strstr(err.message, "waits for a lock in calls of flmem"));
	assert_int_equal(page->waiting, 1);
	open_lock();
	await_true(page->queries == 1);
	await_true(trim_once(&result, &err) == 0);
}

static void a_query_that_ends_is_followed_by_the_trim(void **state)
{
	struct flmem_trim_result result = {0};
	struct flmem_error err = {0};

	(void)state;
	atomic_store(&page->is_open, 1);
	await_true(trim_once(&result, &err) == 0);
	assert_true(page->trims >= 1);
	assert_non_null(result.predicted_bytes.unknown);
}

static int start(void **state)
{
	(void)state;
	return child_open(be_child, sizeof(*page), &page, &child);
}

static int end(void **state)
{
	(void)state;
	return child_close(child, page, sizeof(*page));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(no_thread_is_borrowed_beside_a_query_that_waits,
						start, end),
		cmocka_unit_test_setup_teardown(
			no_thread_is_borrowed_beside_an_earlier_query_that_waits, start, end),
		cmocka_unit_test_setup_teardown(a_query_that_ends_is_followed_by_the_trim, start,
						end),
	};

	return cmocka_run_group_tests_name("trim_query", tests, NULL, NULL);
}
#else
int main(void)
{
	puts("SKIP: threads are not borrowed on this processor yet");
	return 77;
}
#endif
