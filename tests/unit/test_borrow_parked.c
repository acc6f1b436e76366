/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A core dump begins when the calls of a borrowed thread have returned. If that thread wrote it,
 * the stop in the park would truncate it (tests/cli/silent.bats has a dump that lasts).
 */
#include "borrowed.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "proc/process.h"
#include "proc/status.h"

#define ANSWER UINT64_C(0x7061726b65642e2e)

static void *page;
static pid_t child;
static int bell[2];
static bool has_returned, is_dumping;
static long late_ns;	/* how long flmem has no processor then, by its clock */
static int signal_then; /* the signal that the child gets then; 0: none */

int __real_flmem_process_read_pinned(const struct flmem_process *process, uint64_t address,
				     void *ret_bytes, size_t length);
int __wrap_flmem_process_read_pinned(const struct flmem_process *process, uint64_t address,
				     void *ret_bytes, size_t length);
int __real_flmem_status_read_number(pid_t number, struct flmem_status *ret_status);
int __wrap_flmem_status_read_number(pid_t number, struct flmem_status *ret_status);
int __real_clock_gettime(clockid_t clock, struct timespec *ret_now);
int __wrap_clock_gettime(clockid_t clock, struct timespec *ret_now);

/* The thread stays in its park, however busy the machine is. */
int __wrap_clock_gettime(clockid_t clock, struct timespec *ret_now)
{
	int rc = __real_clock_gettime(clock, ret_now);

	if (rc || !has_returned)
		return rc;
	ret_now->tv_nsec += late_ns;
	ret_now->tv_sec += ret_now->tv_nsec / 1000000000;
	ret_now->tv_nsec %= 1000000000;
	return 0;
}

/* The signal waits in the park, or has ended the child before flmem can stop it there. */
static bool has_taken_signal(void)
{
	struct flmem_status status;

	return __real_flmem_status_read_number(child, &status) || status.state == 'Z' ||
	       (status.sig_blocked.value & UINT64_C(1) << (signal_then - 1));
}

/* Reads the results, for the first time when the calls have returned. */
int __wrap_flmem_process_read_pinned(const struct flmem_process *process, uint64_t address,
				     void *ret_bytes, size_t length)
{
	const uint64_t answer = ANSWER;
	int rc = __real_flmem_process_read_pinned(process, address, ret_bytes, length);

	if (rc || has_returned || length < sizeof(answer) ||
	    memcmp(ret_bytes, &answer, sizeof(answer)) != 0)
		return rc;
	has_returned = true;
	if (signal_then) {
		(void)kill(child, signal_then);
		await_true(has_taken_signal());
	}
	return __real_flmem_process_read_pinned(process, address, ret_bytes, length);
}

int __wrap_flmem_status_read_number(pid_t number, struct flmem_status *ret_status)
{
	int rc = __real_flmem_status_read_number(number, ret_status);

	if (is_dumping && has_returned && number == child)
		ret_status->core_dumping.value = 1;
	return rc;
}

#if defined(__x86_64__) || defined(__aarch64__)
__attribute__((noinline, no_sanitize("address", "undefined"))) static void
give_answer(uint64_t *answer)
{
	*answer = ANSWER;
}

static const int fatal[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP};

/* cmocka has handlers for some of these signals. */
static void be_child(void)
{
	char byte;

	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(fatal); i++)
		(void)signal(fatal[i], SIG_DFL);
	while (read(bell[0], &byte, 1) == 1)
		continue;
}

static int start_child(void **state)
{
	(void)state;
	has_returned = is_dumping = false;
	late_ns = 0;
	signal_then = 0;
	return pipe(bell) || child_open(be_child, 4096, &page, &child);
}

static int end_child(void **state)
{
	(void)state;
	pipe_close(bell);
	return child_close(child, page, 4096);
}

static int borrow_child(struct flmem_borrow_result *ret_result, struct flmem_error *err)
{
	const struct flmem_borrow_options options = {.timeout_us = 20000000};
	struct flmem_chain chain = {0};
	struct flmem_call *call;
	struct target target;
	int rc;

	await_true(is_blocked_in(child, SYS_read));
	target_open(child, &target);
	call = flmem_chain_add(&chain, "give_answer", (uint64_t)(uintptr_t)&give_answer);
	call->args[0] = flmem_chain_put(&chain, NULL, sizeof(uint64_t));
	call->data_args = 1U;
	rc = flmem_borrow_run(&target.view, &chain, &options, ret_result, err);
	target_close(&target);
	return rc;
}

/* The thread handles the signal as soon as it is back in its call. */
static void a_signal_with_a_core_waits_for_the_end_of_the_park(void **state)
{
	struct flmem_borrow_result result;
	struct flmem_error err;
	int status;

	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(fatal); i++) {
		if (i) {
			end_child(state);
			assert_int_equal(start_child(state), 0);
		}
		err = (struct flmem_error){0};
		signal_then = fatal[i];
		expect_borrowed(borrow_child(&result, &err), &err);
		assert_true(has_returned);
		assert_true(result.complete);
		assert_int_equal(waitpid(child, &status, 0), child);
		assert_true(WIFSIGNALED(status) && WTERMSIG(status) == fatal[i]);
	}
}

/* The thread may be back in its program, which may have ended. */
static void a_dump_is_awaited_where_flmem_is_late(void **state)
{
	struct flmem_borrow_result result;
	struct flmem_error err = {0};

	(void)state;
	is_dumping = true;
	late_ns = 30000000;
	assert_int_not_equal(borrow_child(&result, &err), 0);
	assert_true(has_returned);
	assert_true(result.self_restored);
	await_true(is_blocked_in(child, SYS_read));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_signal_with_a_core_waits_for_the_end_of_the_park,
						start_child, end_child),
		cmocka_unit_test_setup_teardown(a_dump_is_awaited_where_flmem_is_late, start_child,
						end_child),
	};

	return cmocka_run_group_tests_name("borrow_parked", tests, NULL, NULL);
}
#else
int main(void)
{
	puts("SKIP: threads are not borrowed on this processor yet");
	return 77;
}
#endif
