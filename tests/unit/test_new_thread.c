/* SPDX-License-Identifier: Apache-2.0 */
/* Tests that a thread which flmem starts in a target is recognised, makes its calls and ends. */
#include "borrowed.h"

#include <fenv.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "patience.h"
#include "proc/task.h"
#include "remote/new_thread.h"

#define TIMEOUT_US  5000000U
#define REFUSED_US  20000U /* time by this program's slow clock */
#define NAP_US	    500000U
#define NOBODY	    65534
#define SMALL_STACK (UINT64_C(512) << 10)
#define USUAL_STACK (UINT64_C(8) << 20)
#define LARGE_STACK (UINT64_C(24) << 20)
#define ABOVE_STACK (UINT64_C(256) << 10) /* the C library's part at the end of a stack */
#define THIRD	    0x1.5555555555555p-2  /* 1/3 rounded to nearest */

/* The child's page, shared with the test. */
static struct shared {
	volatile int ready, limited;
	volatile pid_t apart; /* a thread with descriptors of its own; -1: it could not be made */
	volatile pid_t marked_by;
	uint64_t blocked; /* the signals blocked in the call */
	int floats;	  /* 1: the floating-point state is that of a new program; -1: it is not */
} * shared;

/* Writes to the page. The child calls it; its address is the same there. */
static void mark(struct shared *page)
{
	const volatile double one = 1, three = 3; /* computed here: on x86-64 by other units */

	page->marked_by = gettid();
	syscall(SYS_rt_sigprocmask, SIG_BLOCK, NULL, &page->blocked, sizeof(page->blocked));
	page->floats =
		!fegetexcept() && fegetround() == FE_TONEAREST && one / three == THIRD ? 1 : -1;
}

static void *wait_for_ever(void *unused)
{
	int ends[2];
	char byte;

	if (pipe(ends) == 0 && read(ends[0], &byte, 1) >= 0)
		return unused;
	return NULL;
}

/* Waits with descriptors of its own, which a thread that it starts would share. */
static void *wait_forked(void *unused)
{
	shared->apart = unshare(CLONE_FILES) ? -1 : gettid();
	for (;;)
		pause();
	return unused;
}

static void be_computing_beside_it(void)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, wait_forked, NULL))
		_exit(1);
	while (!shared->apart)
		usleep(1000);
	for (shared->ready = 1;;)
		continue;
}

/* Waits until the computing thread resumes it, as in a collector that stops its threads. */
static void wait_in_handler(int unused)
{
	sigset_t all;

	(void)unused;
	sigfillset(&all);
	shared->ready = 1;
	for (;;)
		sigsuspend(&all);
}

static void be_stopping_another(void)
{
	pthread_t thread;

	signal(SIGUSR1, wait_in_handler);
	if (pthread_create(&thread, NULL, wait_for_ever, NULL) || pthread_kill(thread, SIGUSR1))
		_exit(1);
	for (;;)
		continue;
}

/* Waits as glibc's setuid() does for all threads, with the lock that pthread_create() takes. */
static void be_waiting_for_own_stack(void)
{
	volatile uint32_t left = 1;

	for (shared->ready = 1; left;)
		syscall(SYS_futex, &left, FUTEX_WAIT_PRIVATE, 1, NULL, NULL, 0);
}

/* Replaces the check: the limit is reached just after it. */
int __wrap_flmem_headroom_check_tasks(const struct flmem_process *process, struct flmem_error *err);
int __wrap_flmem_headroom_check_tasks(const struct flmem_process *process, struct flmem_error *err)
{
	(void)process;
	(void)err;
	return 0;
}

static void be_child(void)
{
	const struct rlimit none = {0, 0};
	pthread_t thread;

	if (pthread_create(&thread, NULL, wait_for_ever, NULL))
		_exit(1);
	if (shared->limited &&
	    (setresuid(NOBODY, NOBODY, NOBODY) || setrlimit(RLIMIT_NPROC, &none)))
		_exit(1);
	prctl(PR_SET_PDEATHSIG, SIGKILL); /* the change of ids has cancelled it */
	shared->ready = 1;
	wait_for_ever(NULL);
}

/* The stacks suffice for the threads of the program, not for the first thread's work. */
static void be_with_small_stacks(void)
{
	pthread_attr_t small;

	pthread_attr_init(&small);
	if (pthread_attr_setstacksize(&small, SMALL_STACK) || pthread_setattr_default_np(&small))
		_exit(1);
	be_child();
}

/* Makes every thread round up, and end at an invalid operation. */
static void be_particular(void)
{
	pthread_t thread;

	(void)feenableexcept(FE_INVALID);
	fesetround(FE_UPWARD);
	if (pthread_create(&thread, NULL, wait_for_ever, NULL))
		_exit(1);
	shared->ready = 1;
	wait_for_ever(NULL);
}

struct fixture {
	pid_t child;
	struct target target;
	struct flmem_thread_functions functions;
	struct flmem_borrow_options options;
};

static void fixture_open(pid_t child, struct fixture *fixture)
{
	struct flmem_error err = {0};

	*fixture = (struct fixture){.child = child, .options = {.timeout_us = TIMEOUT_US}};
	target_open(child, &fixture->target);
	if (flmem_thread_functions_find(&fixture->target.view, &fixture->functions, &err))
		fail_msg("%s", err.message);
}

static void fixture_begin(struct fixture *fixture, void (*be)(void))
{
	pid_t child = child_start(be);

	assert_true(child > 0);
	await_true(shared->ready);
	fixture_open(child, fixture);
}

static void fixture_start(struct fixture *fixture, int limited)
{
	*shared = (struct shared){.limited = limited};
	fixture_begin(fixture, be_child);
}

static void fixture_end(struct fixture *fixture)
{
	target_close(&fixture->target);
	child_end(fixture->child);
}

static size_t count_threads(const struct fixture *fixture)
{
	FLMEM_AUTO_TASKS struct flmem_tasks tasks = {0};

	assert_int_equal(flmem_tasks_read(&fixture->target.process, &tasks), 0);
	return tasks.count;
}

static void start_thread(struct fixture *fixture, struct flmem_new_thread *ret_thread)
{
	struct flmem_error err = {0};
	int rc = flmem_new_thread_start(&fixture->target.view, &fixture->functions,
					&fixture->options, ret_thread, &err);

	expect_borrowed(rc, &err);
	assert_true(ret_thread->tid > 0 && ret_thread->tid != ret_thread->borrowed_tid);
}

static int run_mark(struct fixture *fixture, const struct flmem_new_thread *thread,
		    uint64_t function, struct flmem_borrow_result *run, struct flmem_error *err)
{
	struct flmem_chain chain = {0};

	flmem_chain_add(&chain, "mark", function)->args[0] = (uint64_t)(uintptr_t)shared;
	return flmem_new_thread_run(&fixture->target.view, thread, &chain, &fixture->options, run,
				    err);
}

static uint64_t blocked_signals(pid_t pid, pid_t tid)
{
	FLMEM_AUTO_FREE char *line = NULL;
	char path[64];
	size_t size = 0;
	uint64_t mask = 0;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/status", (int)pid, (int)tid);
	file = fopen(path, "re");
	assert_non_null(file);
	while (getline(&line, &size, file) > 0)
		if (strncmp(line, "SigBlk:", 7) == 0)
			mask = strtoull(line + 7, NULL, 16);
	fclose(file);
	return mask;
}

static void it_makes_the_calls_and_is_gone(void **state)
{
	struct flmem_new_thread thread, next;
	struct flmem_borrow_result run;
	struct flmem_error err = {0};
	struct fixture fixture;
	size_t before;

	(void)state;
	fixture_start(&fixture, 0);
	before = count_threads(&fixture);
	start_thread(&fixture, &thread);
	assert_int_equal(count_threads(&fixture), before + 1);
	assert_false(flmem_new_thread_await_end(&fixture.target.view, &thread, 1000));
	if (run_mark(&fixture, &thread, (uint64_t)(uintptr_t)mark, &run, &err))
		fail_msg("%s", err.message);
	assert_true(run.complete);
	assert_int_equal(shared->marked_by, thread.tid);
	assert_true(flmem_new_thread_await_end(&fixture.target.view, &thread, TIMEOUT_US));
	assert_int_equal(count_threads(&fixture), before);
	/* Its stack is free at once: the C library gives it to the next thread. */
	start_thread(&fixture, &next);
	assert_int_equal(next.pointer, thread.pointer);
	fixture_end(&fixture);
}

/* Finalisers of Python compute with NaN. */
static void floating_point_exceptions_are_not_inherited(void **state)
{
	struct flmem_new_thread thread;
	struct flmem_borrow_result run;
	struct flmem_error err = {0};
	struct fixture fixture;

	(void)state;
	*shared = (struct shared){0};
	fixture_begin(&fixture, be_particular);
	start_thread(&fixture, &thread);
	if (run_mark(&fixture, &thread, (uint64_t)(uintptr_t)mark, &run, &err))
		fail_msg("%s", err.message);
	assert_int_equal(shared->floats, 1);
	fixture_end(&fixture);
}

/* With that signal blocked, setuid() in another thread would wait for this one without limit. */
static void all_signals_are_blocked_but_those_of_setuid(void **state)
{
	const uint64_t setxid = UINT64_C(1) << 32, ordinary = UINT64_C(1) << (SIGINT - 1) |
							      UINT64_C(1) << (SIGTERM - 1) |
							      UINT64_C(1) << (SIGCHLD - 1);
	struct flmem_new_thread thread;
	struct fixture fixture;
	uint64_t mask;

	(void)state;
	fixture_start(&fixture, 0);
	start_thread(&fixture, &thread);
	mask = blocked_signals(fixture.child, thread.tid);
	assert_true((mask & ordinary) == ordinary);
	assert_false(mask & setxid);
	fixture_end(&fixture);
}

/* musl's SIGSYNCCALL is an ordinary signal for glibc, which blocks it with all others. */
static void with_musl_its_own_signal_is_not_blocked_either(void **state)
{
	const uint64_t synccall = UINT64_C(1) << 33;
	struct flmem_borrow_result run;
	struct flmem_new_thread thread;
	struct flmem_error err = {0};
	struct fixture fixture;

	(void)state;
	fixture_start(&fixture, 0);
	start_thread(&fixture, &thread);
	assert_true(blocked_signals(fixture.child, thread.tid) & synccall);
	fixture.functions.is_glibc = false;
	start_thread(&fixture, &thread);
	assert_false(blocked_signals(fixture.child, thread.tid) & synccall);
	/* The calls may wait for a lock that the caller of setuid() holds. */
	expect_borrowed(run_mark(&fixture, &thread, (uint64_t)(uintptr_t)mark, &run, &err), &err);
	assert_int_equal(shared->marked_by, thread.tid);
	assert_false(shared->blocked & synccall);
	fixture_end(&fixture);
}

static uint64_t stack_below(const struct fixture *fixture, uint64_t pointer)
{
	FLMEM_AUTO_MAPS struct flmem_maps maps = {0};
	const struct flmem_map *stack;

	assert_int_equal(flmem_maps_read(&fixture->target.process, &maps, NULL), 0);
	stack = flmem_maps_find(&maps, pointer);
	assert_non_null(stack);
	return pointer - stack->start;
}

/* The program would run the code in its first thread, for which `limit` is in force by then. */
static void has_the_stack_of_the_first_thread(rlim_t limit, uint64_t expected)
{
	struct flmem_new_thread thread;
	struct rlimit stack;
	struct fixture fixture;

	*shared = (struct shared){0};
	fixture_begin(&fixture, be_with_small_stacks);
	assert_int_equal(prlimit(fixture.child, RLIMIT_STACK, NULL, &stack), 0);
	stack.rlim_cur = limit;
	assert_int_equal(prlimit(fixture.child, RLIMIT_STACK, &stack, NULL), 0);
	start_thread(&fixture, &thread);
	assert_in_range(stack_below(&fixture, thread.pointer), expected - ABOVE_STACK, expected);
	fixture_end(&fixture);
}

static void it_has_as_large_a_stack_as_the_first_thread(void **state)
{
	struct rlimit stack;

	(void)state;
	assert_int_equal(getrlimit(RLIMIT_STACK, &stack), 0);
	has_the_stack_of_the_first_thread(SMALL_STACK, USUAL_STACK);
	if (stack.rlim_max >= LARGE_STACK)
		has_the_stack_of_the_first_thread(LARGE_STACK, LARGE_STACK);
	if (stack.rlim_max == RLIM_INFINITY)
		has_the_stack_of_the_first_thread(RLIM_INFINITY, USUAL_STACK);
}

/* Replaces the child's sleep of three seconds: long enough for the thread to be found. */
static void sleep_less(void)
{
	usleep(NAP_US);
}

static void one_that_nobody_comes_for_ends(void **state)
{
	struct flmem_new_thread thread;
	struct fixture fixture;
	size_t before;

	(void)state;
	fixture_start(&fixture, 0);
	before = count_threads(&fixture);
	fixture.functions.sleep = (uint64_t)(uintptr_t)&sleep_less;
	start_thread(&fixture, &thread);
	assert_true(flmem_new_thread_await_end(&fixture.target.view, &thread, 30000000U));
	assert_int_equal(count_threads(&fixture), before);
	assert_int_equal(shared->marked_by, 0);
	fixture_end(&fixture);
}

/* The thread's number may mean another thread by then; the thread pointer does not. */
static void another_thread_is_not_taken_for_it(void **state)
{
	struct flmem_borrow_result run;
	struct flmem_new_thread thread;
	struct flmem_error err = {0};
	struct fixture fixture;

	(void)state;
	fixture_start(&fixture, 0);
	start_thread(&fixture, &thread);
	thread.tid = thread.borrowed_tid;
	assert_int_equal(run_mark(&fixture, &thread, (uint64_t)(uintptr_t)mark, &run, &err),
			 FLMEM_EUNSAFE);
	assert_false(run.started);
	assert_int_equal(shared->marked_by, 0);
	fixture_end(&fixture);
}

static void a_thread_with_descriptors_of_its_own_starts_none(void **state)
{
	struct flmem_new_thread thread;
	struct flmem_error err = {0};
	struct fixture fixture;
	int rc;

	(void)state;
	*shared = (struct shared){0};
	fixture_begin(&fixture, be_computing_beside_it);
	fixture.options.timeout_us = REFUSED_US;
	assert_true(shared->apart > 0);
	await_true(is_blocked_in(shared->apart, SYS_pause));
	rc = flmem_new_thread_start(&fixture.target.view, &fixture.functions, &fixture.options,
				    &thread, &err);
	if (rc != FLMEM_EUNSAFE)
		expect_borrowed(rc, &err);
	assert_int_equal(rc, FLMEM_EUNSAFE);
	if (!strstr(err.message, "has a separate descriptor table or working directory"))
		fail_msg("%s", err.message);
	assert_int_equal(count_threads(&fixture), 2);
	fixture_end(&fixture);
}

static void a_thread_that_waits_for_its_own_stack_starts_none(void **state)
{
	struct flmem_new_thread thread;
	struct flmem_error err = {0};
	struct fixture fixture;

	(void)state;
	*shared = (struct shared){0};
	fixture_begin(&fixture, be_waiting_for_own_stack);
	await_true(is_blocked_in(fixture.child, SYS_futex));
	fixture.options.timeout_us = REFUSED_US;
	assert_int_equal(flmem_new_thread_start(&fixture.target.view, &fixture.functions,
						&fixture.options, &thread, &err),
			 FLMEM_EUNSAFE);
	if (!strstr(err.message, "waits for a word on its own stack"))
		fail_msg("%s", err.message);
	assert_int_equal(count_threads(&fixture), 1);
	fixture_end(&fixture);
}

/* The stopped thread may hold a lock of the allocator, which pthread_create() needs. */
static void a_computing_thread_that_stopped_others_starts_none(void **state)
{
	struct flmem_new_thread thread;
	struct flmem_error err = {0};
	struct fixture fixture;

	(void)state;
	*shared = (struct shared){0};
	fixture_begin(&fixture, be_stopping_another);
	fixture.options.computing = fixture.child;
	fixture.options.single_pass = true;
	assert_int_equal(flmem_new_thread_start(&fixture.target.view, &fixture.functions,
						&fixture.options, &thread, &err),
			 FLMEM_EUNSAFE);
	if (!strstr(err.message, "inside a signal handler"))
		fail_msg("%s", err.message);
	assert_int_equal(count_threads(&fixture), 2);
	fixture_end(&fixture);
}

static void a_limit_on_threads_is_a_refusal(void **state)
{
	struct flmem_new_thread thread;
	struct flmem_error err = {0};
	struct fixture fixture;
	size_t before;
	int rc;

	(void)state;
	if (geteuid()) {
		print_message("SKIP: needs root, to be a user with a limit\n");
		skip();
	}
	fixture_start(&fixture, 1);
	before = count_threads(&fixture);
	patience_slower = 1; /* no thread will be there to be found */
	rc = flmem_new_thread_start(&fixture.target.view, &fixture.functions, &fixture.options,
				    &thread, &err);
	patience_slower = PATIENCE_SLOWER;
	assert_int_equal(rc, FLMEM_EUNSAFE);
	assert_non_null(strstr(err.message, "could not start a thread"));
	assert_int_equal(count_threads(&fixture), before);
	fixture_end(&fixture);
}

/* Starts a program of another build, which waits in two threads; skips where it is absent. */
static pid_t start_program(const char *name)
{
	char path[512];
	pid_t child;

	snprintf(path, sizeof(path), "%s/%s", VICTIMS, name);
	if (access(path, X_OK)) {
		print_message("SKIP: '%s' was not built\n", name);
		skip();
	}
	child = fork();
	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (freopen("/dev/null", "w", stdout))
			execl(path, path, "-c", "1", "-i", "2", (char *)NULL);
		_exit(127);
	}
	assert_true(child > 0);
	return child;
}

/* Waits for its threads: then the program has been started, and its libraries are mapped. */
static void await_threads(pid_t child)
{
	struct stat tasks;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/task", (int)child);
	await_true(stat(path, &tasks) == 0 && tasks.st_nlink >= 2 + 4);
}

static void a_program_with_musl(void **state)
{
	pid_t child = start_program("safe_threads_musl");
	struct flmem_borrow_result run;
	struct flmem_new_thread thread;
	struct flmem_error err = {0};
	struct flmem_chain chain = {0};
	struct fixture fixture;

	(void)state;
	await_threads(child);
	fixture_open(child, &fixture);
	assert_false(fixture.functions.is_glibc);
	start_thread(&fixture, &thread);
	flmem_chain_add(&chain, "sleep", fixture.functions.sleep);
	if (flmem_new_thread_run(&fixture.target.view, &thread, &chain, &fixture.options, &run,
				 &err))
		fail_msg("%s", err.message);
	assert_true(flmem_new_thread_await_end(&fixture.target.view, &thread, TIMEOUT_US));
	assert_true(flmem_process_alive(&fixture.target.process));
	fixture_end(&fixture);
}

/* A static program has only the functions that it uses itself. */
static void a_static_program_without_the_functions_is_refused(void **state)
{
	pid_t child = start_program("safe_threads_static");
	struct flmem_thread_functions functions;
	struct flmem_error err = {0};
	struct target target;

	(void)state;
	await_threads(child);
	target_open(child, &target);
	assert_int_equal(flmem_thread_functions_find(&target.view, &functions, &err),
			 FLMEM_EUNSUPPORTED);
	target_close(&target);
	child_end(child);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(it_makes_the_calls_and_is_gone),
		cmocka_unit_test(floating_point_exceptions_are_not_inherited),
		cmocka_unit_test(all_signals_are_blocked_but_those_of_setuid),
		cmocka_unit_test(with_musl_its_own_signal_is_not_blocked_either),
		cmocka_unit_test(it_has_as_large_a_stack_as_the_first_thread),
		cmocka_unit_test(a_thread_with_descriptors_of_its_own_starts_none),
		cmocka_unit_test(one_that_nobody_comes_for_ends),
		cmocka_unit_test(another_thread_is_not_taken_for_it),
		cmocka_unit_test(a_thread_that_waits_for_its_own_stack_starts_none),
		cmocka_unit_test(a_computing_thread_that_stopped_others_starts_none),
		cmocka_unit_test(a_limit_on_threads_is_a_refusal),
		cmocka_unit_test(a_program_with_musl),
		cmocka_unit_test(a_static_program_without_the_functions_is_refused),
	};

	shared = child_share(sizeof(*shared));
	if (!shared)
		return 1;
	return cmocka_run_group_tests_name("new_thread", tests, NULL, NULL);
}
