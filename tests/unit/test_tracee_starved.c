/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests a thread that gets no processor and stops late. If it were left before, its call would end
 * with EINTR. That happened in a control group with little processor time, which only root can
 * make. Here the request to stop reaches the kernel late, and the clock goes fast.
 */
#include "borrowed.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <sys/epoll.h>
#include <time.h>

#include "proc/status.h"
#include "remote/interrupts.h"
#include "remote/tracee.h"

#define STEP_US	 100000U /* the time that each pause takes */
#define LIMIT_S	 60	 /* for the whole test, which hangs without a limit */
#define FOR_EVER UINT64_MAX

struct page {
	_Atomic uint64_t ready, interrupted;
};

static struct page *page;
static pid_t child;
static uint64_t now_us, starved_us, renewed;
static bool is_due; /* the request has been made */
static char state_shown;

long ptrace(enum __ptrace_request request, ...);

/* Acts as in the C library, except that a request to stop waits until there is a processor. */
long ptrace(enum __ptrace_request request, ...)
{
	va_list args;
	pid_t tid;
	void *address, *data;

	va_start(args, request);
	tid = va_arg(args, pid_t);
	address = va_arg(args, void *);
	data = va_arg(args, void *);
	va_end(args);
	if (request == PTRACE_INTERRUPT && now_us < starved_us) {
		is_due = true;
		return 0;
	}
	return syscall(SYS_ptrace, request, tid, address, data);
}

int timer_settime(timer_t timer, int flags, const struct itimerspec *value,
		  struct itimerspec *old_value)
{
	(void)timer, (void)flags, (void)old_value;
	renewed += value->it_value.tv_sec != 0;
	return 0;
}

int clock_gettime(clockid_t clock, struct timespec *ret_time)
{
	(void)clock;
	*ret_time = (struct timespec){(time_t)(now_us / 1000000), (long)(now_us % 1000000) * 1000};
	return 0;
}

int nanosleep(const struct timespec *time, struct timespec *ret_rest)
{
	const struct timespec real = {.tv_nsec = 100000};

	(void)time, (void)ret_rest;
	now_us += STEP_US;
	if (now_us > 2 * FLMEM_TRACEE_STARVED_US)
		starved_us = 0; /* the test fails */
	if (is_due && now_us >= starved_us) {
		is_due = false;
		syscall(SYS_ptrace, PTRACE_INTERRUPT, child, NULL, NULL);
	}
	return now_us < starved_us ? 0 : (int)syscall(SYS_nanosleep, &real, NULL);
}

int __real_flmem_status_read_number(pid_t number, struct flmem_status *ret_status);
int __wrap_flmem_status_read_number(pid_t number, struct flmem_status *ret_status);

int __wrap_flmem_status_read_number(pid_t number, struct flmem_status *ret_status)
{
	int rc = __real_flmem_status_read_number(number, ret_status);

	if (now_us < starved_us && number == child)
		ret_status->state = state_shown;
	return rc;
}

static void be_child(void)
{
	int instance = epoll_create1(EPOLL_CLOEXEC);

	atomic_store(&page->ready, 1);
	for (;;) {
		struct epoll_event event;

		if (epoll_wait(instance, &event, 1, -1) < 0 && errno == EINTR)
			atomic_fetch_add(&page->interrupted, 1);
	}
}

static char child_state(void)
{
	struct flmem_status status;

	return __real_flmem_status_read_number(child, &status) ? 'X' : status.state;
}

static int start_child(void **state)
{
	(void)state;
	now_us = starved_us = renewed = 0;
	is_due = false;
	page = child_share(sizeof(*page));
	child = page ? child_start(be_child) : 0;
	for (int i = 0; child && i < 20000 && (!page->ready || child_state() != 'S'); i++)
		usleep(1000);
	return !child;
}

static int end_child(void **state)
{
	(void)state;
	return child_close(child, page, sizeof(*page));
}

enum result {
	SKIPPED,
	FREE,
	LEFT,
};

/* Runs on its own thread, whose end releases a thread that was left. */
static void *stop_and_release(void *result)
{
	FLMEM_AUTO_INTERRUPTS struct flmem_interrupts interrupts = flmem_interrupts_defer();
	struct flmem_tracee tracee = {0};

	if (flmem_tracee_seize(&tracee, child, child) == 0) {
		flmem_tracee_stop(&tracee, 200000);
		flmem_tracee_release(&tracee);
		*(enum result *)result = flmem_tracee_is_stuck() ? LEFT : FREE;
	}
	return NULL;
}

static enum result stop_starved(uint64_t until_us, char shown)
{
	enum result result = SKIPPED;
	pthread_t thread;

	alarm(LIMIT_S);
	starved_us = until_us;
	state_shown = shown;
	flmem_interrupts_limit_hold(true);
	assert_int_equal(pthread_create(&thread, NULL, stop_and_release, &result), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	flmem_interrupts_limit_hold(false);
	if (result == SKIPPED)
		skip();
	return result;
}

static void it_is_awaited(void **state)
{
	(void)state;
	assert_int_equal(stop_starved(5 * FLMEM_TRACEE_RELEASE_US, 'R'), FREE);
	assert_true(now_us >= starved_us);
	await_true(child_state() == 'S');
	assert_int_equal(page->interrupted, 0);
	/*
	 * The timer of the hold is set at the beginning, and again before three seconds have
	 * passed.
	 */
	assert_true(renewed > 1);
}

static void it_is_not_awaited_for_ever(void **state)
{
	(void)state;
	assert_int_equal(stop_starved(FOR_EVER, 'R'), LEFT);
	assert_true(now_us >= FLMEM_TRACEE_STARVED_US);
}

/* The thread is in a call that nothing interrupts. */
static void one_that_cannot_stop_is_left(void **state)
{
	(void)state;
	assert_int_equal(stop_starved(FOR_EVER, 'D'), LEFT);
	assert_true(now_us < 5 * FLMEM_TRACEE_RELEASE_US);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(it_is_awaited, start_child, end_child),
		cmocka_unit_test_setup_teardown(it_is_not_awaited_for_ever, start_child, end_child),
		cmocka_unit_test_setup_teardown(one_that_cannot_stop_is_left, start_child,
						end_child),
	};

	return cmocka_run_group_tests_name("tracee_starved", tests, NULL, NULL);
}
