/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The control group of flmem has a quota of processor time. flmem waits for a new period before it
 * holds a thread, and not while it does. Its checks come after that, so that they are not older.
 */
#include "borrowed.h"

#if defined(__x86_64__) || defined(__aarch64__)
#include <time.h>

#include "proc/limits/cpu_quota.h"
#include "proc/status.h"
#include "remote/own_quota.h"

#define PERIOD_US 12345U
#define LONG_US	  5000000U /* longer than the kernel allows */
#define CALL_US	  20000U
#define SHORT_NS  50000L /* the pauses of a wait without a quota; no other wait has them */

static pid_t child;
static int bell[2];
static uint64_t period_us = PERIOD_US, least_us = 50000;
static unsigned periods, periods_of_hold, periods_after_check;
static long longest_s;
static unsigned short_pauses;
static _Atomic unsigned *calls; /* of the child */
static bool is_held, is_checked, was_checked, is_check_old;

struct flmem_cpu_quota __wrap_flmem_cpu_quota_read_own(void);
struct flmem_cpu_quota __wrap_flmem_cpu_quota_read_own(void)
{
	return (struct flmem_cpu_quota){.least_us = least_us, .longest_period_us = period_us};
}

int __real_nanosleep(const struct timespec *time, struct timespec *ret_rest);
int __wrap_nanosleep(const struct timespec *time, struct timespec *ret_rest);
int __wrap_nanosleep(const struct timespec *time, struct timespec *ret_rest)
{
	struct flmem_status status;

	short_pauses += time->tv_nsec == SHORT_NS;
	if (time->tv_sec) {
		longest_s = time->tv_sec > longest_s ? time->tv_sec : longest_s;
		return 0;
	}
	if (time->tv_nsec == PERIOD_US * 1000L) {
		periods++;
		periods_after_check += is_checked;
		is_check_old |= is_checked;
		is_held |=
			flmem_status_read_number(child, &status) || flmem_u64_or(status.tracer, 1);
	}
	return __real_nanosleep(time, ret_rest);
}

int __real_flmem_tracee_seize(struct flmem_tracee *tracee, pid_t tid, pid_t leader);
int __wrap_flmem_tracee_seize(struct flmem_tracee *tracee, pid_t tid, pid_t leader);
int __wrap_flmem_tracee_seize(struct flmem_tracee *tracee, pid_t tid, pid_t leader)
{
	periods_of_hold += periods > 0;
	periods = 0;
	is_checked = false;
	return __real_flmem_tracee_seize(tracee, tid, leader);
}

static int note_check(void *context, struct flmem_error *err)
{
	(void)context;
	(void)err;
	is_checked = was_checked = true;
	return 0;
}

static void be_child(void)
{
	char byte;

	for (;;)
		(void)!read(bell[0], &byte, 1);
}

static void run_dry(void)
{
	uint64_t checked_us = 0;
	struct flmem_borrow_options options = {
		.timeout_us = 20000000, .recheck = note_check, .checked_us = &checked_us};
	struct flmem_borrow_result result;
	struct flmem_error err = {0};
	struct target target;

	periods = periods_of_hold = periods_after_check = 0;
	is_held = is_checked = was_checked = is_check_old = false;
	assert_int_equal(pipe(bell), 0);
	child = child_start(be_child);
	await_true(is_blocked_in(child, SYS_read));
	target_open(child, &target);
	expect_borrowed(flmem_borrow_dry_run(&target.view, &options, &result, &err), &err);
	assert_int_equal(result.tid, child);
	assert_true(periods_of_hold > 0);
	assert_false(is_held);
	assert_true(was_checked);
	target_close(&target);
	child_end(child);
	pipe_close(bell);
}

static void a_period_begins_before_a_hold(void **state)
{
	(void)state;
	run_dry();
	assert_false(is_check_old);
	assert_int_equal(periods_after_check, 0);
}

/* A check that uses up most of a quota would leave the hold its rest. */
static void a_long_check_is_followed_by_a_period(void **state)
{
	(void)state;
	least_us = 1;
	run_dry();
	assert_true(periods_after_check > 0);
}

static void no_more_than_the_longest_period_is_waited_for(void **state)
{
	(void)state;
	period_us = LONG_US;
	assert_int_equal(flmem_own_quota_await().least_ns, least_us * 1000);
	assert_int_equal(longest_s, 1);
	period_us = PERIOD_US;
}

__attribute__((noinline, no_sanitize("address", "undefined"))) static void take_time(void)
{
	struct timespec time = {.tv_nsec = CALL_US * 1000L};

	(*calls)++;
	syscall(SYS_nanosleep, &time, NULL);
}

/* Has the child call a function; returns the result of flmem_borrow_run(). */
static int run_call(struct flmem_borrow_result *ret_result, struct flmem_error *err)
{
	uint64_t checked_us = 0;
	struct flmem_borrow_options options = {
		.timeout_us = 20000000, .recheck = note_check, .checked_us = &checked_us};
	struct flmem_chain chain = {0};
	struct target target;
	int rc;

	assert_int_equal(pipe(bell), 0);
	assert_int_equal(child_open(be_child, sizeof(*calls), &calls, &child), 0);
	await_true(is_blocked_in(child, SYS_read));
	target_open(child, &target);
	flmem_chain_add(&chain, "call", (uint64_t)(uintptr_t)&take_time);
	rc = flmem_borrow_run(&target.view, &chain, &options, ret_result, err);
	if (rc == FLMEM_EPERM || rc == FLMEM_EUNSUPPORTED)
		expect_borrowed(rc, err);
	assert_int_equal(*calls, 1);
	await_true(is_blocked_in(child, SYS_read));
	target_close(&target);
	child_close(child, (void *)(uintptr_t)calls, sizeof(*calls));
	pipe_close(bell);
	return rc;
}

/* The wait for the calls leaves the processor time for the second hold. */
static void a_wait_uses_little_of_a_quota(void **state)
{
	struct flmem_borrow_result result;
	struct flmem_error err = {0};

	(void)state;
	least_us = 10000000; /* more than this machine needs, however busy it is */
	short_pauses = 0;
	expect_borrowed(run_call(&result, &err), &err);
	assert_int_equal(short_pauses, 0);
}

/* Where it was used nevertheless, the thread is not held again: it restores itself. */
static void a_second_hold_needs_a_quota(void **state)
{
	struct flmem_borrow_result result;
	struct flmem_error err = {0};

	(void)state;
	least_us = 1;
	assert_int_equal(run_call(&result, &err), FLMEM_EFAILED);
	assert_true(result.self_restored);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_period_begins_before_a_hold),
		cmocka_unit_test(a_long_check_is_followed_by_a_period),
		cmocka_unit_test(no_more_than_the_longest_period_is_waited_for),
		cmocka_unit_test(a_wait_uses_little_of_a_quota),
		cmocka_unit_test(a_second_hold_needs_a_quota),
	};

	return cmocka_run_group_tests_name("borrow_quota", tests, NULL, NULL);
}
#else
int main(void)
{
	puts("SKIP: threads are not borrowed on this processor yet");
	return 77;
}
#endif
