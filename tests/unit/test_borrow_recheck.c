/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Conditions that a caller has checked long before are checked again, once for all tries that
 * follow soon.
 */
#include "borrowed.h"
#include "own_restrictions.h"

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "base/clock.h"
#include "remote/borrow_state.h"

static int count_checks(void *context, struct flmem_error *err)
{
	(void)err;
	++*(unsigned *)context;
	return 0;
}

static void be_child(void)
{
	for (;;)
		pause();
}

static void the_time_of_a_check_is_the_callers(void **state)
{
	struct flmem_borrow_state *borrow = calloc(1, sizeof(*borrow));
	unsigned count = 0;
	uint64_t checked_us = 0, now_us = flmem_clock_us();
	const struct flmem_borrow_options options = {
		.recheck = count_checks, .rechecker = &count, .checked_us = &checked_us};
	const pid_t child = child_start(be_child);
	struct target target;

	(void)state;
	assert_non_null(borrow);
	assert_true(child > 0);
	target_open(child, &target);
	borrow->view = &target.view;
	borrow->options = &options;
	assert_int_equal(flmem_borrow_check_again(borrow), 0);
	assert_int_equal(count, 1);
	assert_true(checked_us >= now_us);
	target_close(&target);
	child_end(child);
	free(borrow);
}

/* Conditions of the whole process are checked again, too, before the caller's. */
static void what_the_process_has_opened_since_is_seen(void **state)
{
	struct flmem_borrow_state *borrow = calloc(1, sizeof(*borrow));
	unsigned count = 0;
	uint64_t checked_us = 0;
	const struct flmem_borrow_options options = {
		.recheck = count_checks, .rechecker = &count, .checked_us = &checked_us};
	struct flmem_error err = {0};
	const int faults = userfaults_open();
	struct target target;
	pid_t child;

	(void)state;
	if (faults < 0) {
		free(borrow);
		print_message("SKIP: no userfaultfd may be opened here\n");
		skip();
	}
	child = child_start(be_child); /* the child has it, too */
	close(faults);
	assert_non_null(borrow);
	assert_true(child > 0);
	target_open(child, &target);
	borrow->view = &target.view;
	borrow->options = &options;
	borrow->err = &err;
	assert_int_equal(flmem_borrow_check_again(borrow), FLMEM_EUNSAFE);
	assert_non_null(strstr(err.message, "userfaultfd"));
	assert_int_equal(count, 0);
	target_close(&target);
	child_end(child);
	free(borrow);
}

/*
 * The thread is back in its program, which uses the stack: data there are not results, even if they
 * look like those of a call that still runs.
 */
static void what_has_another_cookie_is_lost(void **state)
{
	struct flmem_borrow_state *borrow = calloc(1, sizeof(*borrow));
	uint64_t stack[6] = {0, 0, 0, 0, 1};
	struct flmem_process self = FLMEM_PROCESS_INIT;
	const struct flmem_view view = {.process = &self};

	(void)state;
	assert_non_null(borrow);
	assert_int_equal(flmem_process_open(getpid(), &self, NULL), 0);
	assert_int_equal(flmem_process_pin_memory(&self, NULL), 0);
	borrow->view = &view;
	borrow->spans = 1;
	borrow->cookie = 1;
	borrow->cookie_end = 4 * sizeof(*stack);
	borrow->scratch.data = (uint64_t)(uintptr_t)stack;
	borrow->chain.data_length = sizeof(stack);
	assert_int_equal(flmem_borrow_read_results(borrow), FLMEM_BORROW_RUNNING);
	stack[2] = 1;
	assert_int_equal(flmem_borrow_read_results(borrow), FLMEM_BORROW_FINISHED);
	stack[4] = 2;
	assert_int_equal(flmem_borrow_read_results(borrow), FLMEM_BORROW_LOST);
	flmem_process_close(&self);
	free(borrow);
}

#if defined(__x86_64__) || defined(__aarch64__)
#define PAGE 4096U

struct page {
	_Atomic uint64_t stack; /* a place on the thread's stack, near its pointer */
	_Atomic int tid;
	_Atomic bool cuts, cut, ends;
};

static struct page *page;
static int bell[2];

static void *wait_for_bell(void *argument)
{
	char byte;

	atomic_store(&page->stack, (uint64_t)(uintptr_t)&byte);
	atomic_store(&page->tid, (int)syscall(SYS_gettid));
	while (read(bell[0], &byte, 1) == 1 && !atomic_load(&page->ends))
		continue;
	return argument;
}

/* Unmaps the memory below the stack pointer of the child's other thread. */
static void cut_stack(void)
{
	const uint64_t near = atomic_load(&page->stack) / PAGE * PAGE;

	atomic_store(&page->cut, mprotect((void *)(uintptr_t)(near - 6 * (uint64_t)PAGE), PAGE,
					  PROT_NONE) == 0);
}

static void be_cutting(void)
{
	pthread_t thread;

	if (pipe(bell) || pthread_create(&thread, NULL, wait_for_bell, NULL))
		return;
	while (!atomic_load(&page->cuts) && !atomic_load(&page->ends))
		flmem_clock_sleep_us(1000);
	if (atomic_load(&page->cuts))
		cut_stack();
	else if (write(bell[1], "x", 1) != 1)
		return;
	for (;;)
		pause();
}

static int have_it_cut(void *context, struct flmem_error *err)
{
	(void)context, (void)err;
	atomic_store(&page->cuts, true);
	await_true(atomic_load(&page->cut));
	return 0;
}

__attribute__((noinline, no_sanitize("address", "undefined"))) static void be_called(void)
{
}

/* Runs a chain on the waiting thread of such a child, and expects this refusal. */
static void expect_refusal(struct flmem_borrow_options *options, const char *why)
{
	struct flmem_borrow_result result;
	struct flmem_chain chain = {0};
	struct flmem_error err = {0};
	struct target target;
	pid_t child;
	int rc;

	page = child_share(sizeof(*page));
	assert_non_null(page);
	child = child_start(be_cutting);
	assert_true(child > 0);
	await_true(page->tid && is_blocked_in(page->tid, SYS_read));
	options->only = page->tid;
	target_open(child, &target);
	flmem_chain_add(&chain, "call", (uint64_t)(uintptr_t)be_called);
	rc = flmem_borrow_run(&target.view, &chain, options, &result, &err);
	target_close(&target);
	child_end(child);
	munmap(page, sizeof(*page));
	assert_int_equal(rc, FLMEM_EUNSAFE);
	assert_non_null(strstr(err.message, why));
}

/* The stack was cut after the thread was chosen; the check right before its stop finds it. */
static void a_stack_that_has_lost_its_space_is_refused(void **state)
{
	uint64_t checked_us = 0;
	struct flmem_borrow_options options = {
		.recheck = have_it_cut, .checked_us = &checked_us, .single_pass = true};

	(void)state;
	expect_refusal(&options, "too little space left on its stack");
}

static int have_it_end(void *context, struct flmem_error *err)
{
	char path[32];

	(void)context, (void)err;
	snprintf(path, sizeof(path), "/proc/%d/status", (int)page->tid);
	atomic_store(&page->ends, true);
	await_true(access(path, F_OK) != 0);
	return 0;
}

/* The process has not ended with the thread. */
static void a_thread_that_has_ended_since_is_passed_over(void **state)
{
	uint64_t checked_us = 0;
	struct flmem_borrow_options options = {
		.recheck = have_it_end, .checked_us = &checked_us, .single_pass = true};

	(void)state;
	expect_refusal(&options, "can be borrowed now");
}

static struct flmem_guard guard;

static int find_it_in_the_allocator(void *context, struct flmem_error *err)
{
	(void)context, (void)err;
	flmem_guard_add_code(&guard, PAGE, INT64_MAX);
	return 0;
}

static void a_thread_that_is_inside_the_allocator_is_refused_when_it_is_stopped(void **state)
{
	uint64_t checked_us = 0;
	struct flmem_borrow_options options = {.guard = &guard,
					       .recheck = find_it_in_the_allocator,
					       .checked_us = &checked_us,
					       .single_pass = true};

	(void)state;
	expect_refusal(&options, "is inside the allocator");
}
#endif

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_time_of_a_check_is_the_callers),
		cmocka_unit_test(what_the_process_has_opened_since_is_seen),
		cmocka_unit_test(what_has_another_cookie_is_lost),
#if defined(__x86_64__) || defined(__aarch64__)
		cmocka_unit_test(a_stack_that_has_lost_its_space_is_refused),
		cmocka_unit_test(a_thread_that_has_ended_since_is_passed_over),
		cmocka_unit_test(
			a_thread_that_is_inside_the_allocator_is_refused_when_it_is_stopped),
#endif
	};

	return cmocka_run_group_tests_name("borrow_recheck", tests, NULL, NULL);
}
