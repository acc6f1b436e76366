/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests whether the thread that was started is recognised among those of its process, or refused.
 */
#include "own_child.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>

#include "elf/modules.h"
#include "patience.h"
#include "proc/task.h"
#include "remote/checks/candidates.h"
#include "remote/checks/fork_checks.h"
#include "remote/new_thread.h"

#define TIMEOUT_US 5000000U /* time by this program's slow clock */
#define SLEEPERS   2
#define SLEEP_S	   3600
#define LOOKS	   100

/* The signals that a chain blocks: all but those of the processor and that of glibc's setuid(). */
#define CHAIN_MASK (~(UINT64_C(0x4d8) | UINT64_C(1) << 32))

struct page {
	_Atomic bool ready;
	_Atomic pid_t sleepers[SLEEPERS], waiter;
};

static struct page *page;

/* Threads that the next list lacks, and whether it is longer than flmem reads. */
static struct {
	bool hides_sleepers, is_full;
	int looks; /* number of searches for the started thread until its time is over; 0: many */
} listed;

int __real_flmem_tasks_read(const struct flmem_process *process, struct flmem_tasks *ret_tasks);
int __wrap_flmem_tasks_read(const struct flmem_process *process, struct flmem_tasks *ret_tasks);

static bool is_sleeper(pid_t tid)
{
	return tid == atomic_load(&page->sleepers[0]) || tid == atomic_load(&page->sleepers[1]);
}

int __wrap_flmem_tasks_read(const struct flmem_process *process, struct flmem_tasks *ret_tasks)
{
	int rc = __real_flmem_tasks_read(process, ret_tasks);
	size_t kept = 0;

	if (rc)
		return rc;
	if (listed.looks && --listed.looks == 0)
		patience_slower = 1;
	if (listed.hides_sleepers) {
		for (size_t i = 0; i < ret_tasks->count; i++)
			if (!is_sleeper(ret_tasks->ids[i]))
				ret_tasks->ids[kept++] = ret_tasks->ids[i];
		ret_tasks->count = kept;
	}
	if (listed.is_full) {
		pid_t *ids = calloc(FLMEM_TASKS_MAX, sizeof(*ids));

		assert_non_null(ids);
		for (size_t i = 0; i < FLMEM_TASKS_MAX; i++)
			ids[i] = ret_tasks->ids[0];
		flmem_tasks_clear(ret_tasks);
		*ret_tasks = (struct flmem_tasks){ids, FLMEM_TASKS_MAX};
	}
	listed.hides_sleepers = listed.is_full = false;
	return 0;
}

/* The process as flmem sees it, and how its calls there end. */
static struct {
	bool is_sanitized, has_no_fork, loses_thread, hides_thread;
} seems;

const struct flmem_module *__real_flmem_modules_lookup(const struct flmem_modules *modules,
						       const char *name, uint64_t *ret_address);
const struct flmem_module *__wrap_flmem_modules_lookup(const struct flmem_modules *modules,
						       const char *name, uint64_t *ret_address);
const struct flmem_module *__wrap_flmem_modules_lookup(const struct flmem_modules *modules,
						       const char *name, uint64_t *ret_address)
{
	return seems.is_sanitized && strcmp(name, "__tsan_init") == 0
		       ? flmem_modules_main(modules)
		       : __real_flmem_modules_lookup(modules, name, ret_address);
}

bool __real_flmem_forks_function(const struct flmem_view *view, struct flmem_range *ret_fork);
bool __wrap_flmem_forks_function(const struct flmem_view *view, struct flmem_range *ret_fork);
bool __wrap_flmem_forks_function(const struct flmem_view *view, struct flmem_range *ret_fork)
{
	return !seems.has_no_fork && __real_flmem_forks_function(view, ret_fork);
}

int __real_flmem_borrow_run(const struct flmem_view *view, const struct flmem_chain *chain,
			    const struct flmem_borrow_options *options,
			    struct flmem_borrow_result *ret_result, struct flmem_error *err);
int __wrap_flmem_borrow_run(const struct flmem_view *view, const struct flmem_chain *chain,
			    const struct flmem_borrow_options *options,
			    struct flmem_borrow_result *ret_result, struct flmem_error *err);
int __wrap_flmem_borrow_run(const struct flmem_view *view, const struct flmem_chain *chain,
			    const struct flmem_borrow_options *options,
			    struct flmem_borrow_result *ret_result, struct flmem_error *err)
{
	int rc;

	if (!seems.loses_thread) {
		rc = __real_flmem_borrow_run(view, chain, options, ret_result, err);
		listed.looks = seems.hides_thread ? LOOKS : 0;
		return rc;
	}
	patience_slower = 1; /* flmem waits for the process to end, which it does not */
	return flmem_error_set(err, FLMEM_ENOPROC, 0, "it ended during the call");
}

#ifdef __x86_64__
static void *sleep_long(void *slot)
{
	atomic_store((_Atomic pid_t *)slot, gettid());
	for (;;)
		sleep(SLEEP_S);
	return NULL;
}

static void be_sleeping(void)
{
	pthread_t thread;

	for (int i = 0; i < SLEEPERS; i++)
		if (pthread_create(&thread, NULL, sleep_long, &page->sleepers[i]))
			_exit(2);
	atomic_store(&page->ready, true);
	for (;;)
		pause();
}

static void *wait_for_ever(void *unused)
{
	atomic_store(&page->waiter, gettid());
	for (;;)
		pause();
	return unused;
}

static void be_alone(void)
{
	atomic_store(&page->ready, true);
	for (;;)
		pause();
}

/* Blocks the signals, as if a killed flmem had left its chain on the main thread. */
static void be_masked(void)
{
	uint64_t mask = CHAIN_MASK;
	pthread_t thread;

	if (pthread_create(&thread, NULL, wait_for_ever, NULL) ||
	    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &mask, NULL, sizeof(mask)))
		_exit(2);
	atomic_store(&page->ready, true);
	for (;;)
		pause();
}

static int share(void **state)
{
	(void)state;
	return share_page(&page, sizeof(*page));
}

static int end_sleepers(void **state)
{
	(void)end_child(state);
	patience_slower = PATIENCE_SLOWER;
	memset(&listed, 0, sizeof(listed));
	memset(&seems, 0, sizeof(seems));
	memset(page, 0, sizeof(*page));
	return 0;
}

static bool is_main(void *context, const struct flmem_candidate *candidate, uint64_t pointer,
		    const char **ret_reason)
{
	(void)context;
	(void)pointer;
	*ret_reason = "is not the main thread";
	return candidate->leader;
}

static bool is_not_main(void *context, const struct flmem_candidate *candidate, uint64_t pointer,
			const char **ret_reason)
{
	(void)context;
	(void)pointer;
	*ret_reason = "is the main thread";
	return !candidate->leader;
}

typedef bool accepting(void *, const struct flmem_candidate *, uint64_t, const char **);

/* Starts a thread from one that `accepts` allows, and returns the result. */
static int start_from(accepting *accepts, bool is_musl, struct flmem_new_thread *ret_thread,
		      struct flmem_error *err)
{
	const struct flmem_candidate_filter filter = {.accepts = accepts};
	const struct flmem_borrow_options options = {
		.timeout_us = TIMEOUT_US, .filter = &filter, .single_pass = seems.has_no_fork};
	struct flmem_thread_functions functions;
	struct target target;
	int rc;

	target_open(child, &target);
	rc = flmem_thread_functions_find(&target.view, &functions, err);
	expect_borrowed(rc, err);
	functions.is_glibc = functions.is_glibc && !is_musl;
	listed.hides_sleepers = seems.hides_thread = is_musl;
	rc = flmem_new_thread_start(&target.view, &functions, &options, ret_thread, err);
	target_close(&target);
	return rc;
}

/*
 * Expects a refusal as unsafe. A machine that cannot borrow at all is skipped: its refusal is
 * another one.
 */
static void expect_unsafe(accepting *accepts, bool is_musl, struct flmem_new_thread *ret_thread,
			  struct flmem_error *err)
{
	int rc = start_from(accepts, is_musl, ret_thread, err);

	if (rc != FLMEM_EUNSAFE)
		expect_borrowed(rc, err);
	assert_int_equal(rc, FLMEM_EUNSAFE);
}

static void start(void (*be_child)(void))
{
	start_child(be_child);
	await_true(atomic_load(&page->ready) && is_blocked_in(child, SYS_pause));
}

/* For musl only the list of threads is known: a thread of the program may sleep just as well. */
static void of_several_sleeping_threads_none_is_taken(void **state)
{
	struct flmem_new_thread thread;
	struct flmem_error err = {0};

	(void)state;
	start(be_sleeping);
	await_true(is_blocked_in(atomic_load(&page->sleepers[0]), SYS_clock_nanosleep) &&
		   is_blocked_in(atomic_load(&page->sleepers[1]), SYS_clock_nanosleep));
	expect_unsafe(is_main, true, &thread, &err);
	assert_int_equal(thread.tid, 0);
	/* The thread was started, which flmem cannot know. */
	assert_non_null(strstr(err.message, "could not start a thread"));
	assert_non_null(strstr(err.message, "or the thread did not run within 200 ms"));
}

/* The new thread might be beyond the end of the list, or an old one might be taken for new. */
static void more_threads_than_flmem_lists_are_refused(void **state)
{
	struct flmem_new_thread thread;
	struct flmem_error err = {0};

	(void)state;
	start(be_sleeping);
	listed.is_full = true;
	expect_unsafe(is_main, false, &thread, &err);
	assert_non_null(strstr(err.message, "could not be identified"));
	assert_int_equal(thread.borrowed_tid, 0);
}

/* Code that inherited the mask would start processes and threads that no signal reaches. */
static void the_mask_of_a_chain_is_not_that_of_the_program(void **state)
{
	struct flmem_new_thread thread;
	struct flmem_error err = {0};

	(void)state;
	start(be_masked);
	await_true(is_blocked_in(atomic_load(&page->waiter), SYS_pause));
	expect_unsafe(is_not_main, false, &thread, &err);
	assert_non_null(strstr(err.message, "the signal mask"));
	assert_int_equal(thread.borrowed_tid, atomic_load(&page->waiter));
}

/* The sanitizer's functions fail in a thread that they have not registered. */
static void under_thread_sanitizer_none_is_started(void **state)
{
	struct flmem_thread_functions functions;
	struct flmem_error err = {0};
	struct target target;
	int rc;

	(void)state;
	start(be_alone);
	target_open(child, &target);
	seems.is_sanitized = true;
	rc = flmem_thread_functions_find(&target.view, &functions, &err);
	target_close(&target);
	assert_int_equal(rc, FLMEM_EUNSUPPORTED);
	assert_non_null(strstr(err.message, "ThreadSanitizer"));
}

/* The program's only thread may be inside fork(), and then takes no locks. */
static void without_fork_a_program_without_threads_starts_none(void **state)
{
	struct flmem_new_thread thread;
	struct flmem_error err = {0};

	(void)state;
	start(be_alone);
	seems.has_no_fork = true;
	expect_unsafe(is_main, false, &thread, &err);
	assert_non_null(strstr(err.message, "or fork() is not found"));
}

/* The code may have run: the words that it has written decide. */
static void the_end_of_the_thread_is_not_that_of_the_process(void **state)
{
	const struct flmem_borrow_options options = {.timeout_us = TIMEOUT_US};
	const struct flmem_new_thread thread = {0};
	const struct flmem_chain chain = {0};
	struct flmem_borrow_result result;
	struct flmem_error err = {0};
	struct target target;
	int rc;

	(void)state;
	start(be_alone);
	target_open(child, &target);
	seems.loses_thread = true;
	rc = flmem_new_thread_run(&target.view, &thread, &chain, &options, &result, &err);
	target_close(&target);
	assert_int_equal(rc, FLMEM_EFAILED);
	assert_true(result.self_restored);
	assert_non_null(strstr(err.message, "ended before flmem read their results"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(under_thread_sanitizer_none_is_started, end_sleepers),
		cmocka_unit_test_teardown(without_fork_a_program_without_threads_starts_none,
					  end_sleepers),
		cmocka_unit_test_teardown(the_end_of_the_thread_is_not_that_of_the_process,
					  end_sleepers),
		cmocka_unit_test_teardown(of_several_sleeping_threads_none_is_taken, end_sleepers),
		cmocka_unit_test_teardown(more_threads_than_flmem_lists_are_refused, end_sleepers),
		cmocka_unit_test_teardown(the_mask_of_a_chain_is_not_that_of_the_program,
					  end_sleepers),
	};

	return cmocka_run_group_tests_name("new_thread_found", tests, share, NULL);
}
#else
int main(void)
{
	puts("SKIP: threads are not borrowed on this processor yet");
	return 77;
}
#endif
