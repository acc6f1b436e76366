/* SPDX-License-Identifier: Apache-2.0 */
/* Tests answers that a call writes while flmem reads them, before the last clock reading. */
#include "borrowed.h"

#include <stdio.h>
#include <string.h>

#include "proc/process.h"
#include "proc/status.h"

#define BEFORE UINT64_C(0x6265666f72652e2e)
#define ANSWER UINT64_C(0x616e737765722e2e)

static void *page;
static pid_t child;
static int bell[2];
static unsigned torn;

int __real_flmem_process_read_pinned(const struct flmem_process *process, uint64_t address,
				     void *ret_bytes, size_t length);
int __wrap_flmem_process_read_pinned(const struct flmem_process *process, uint64_t address,
				     void *ret_bytes, size_t length);

/* A copy made while the thread runs has the memory of the moment before the call. */
int __wrap_flmem_process_read_pinned(const struct flmem_process *process, uint64_t address,
				     void *ret_bytes, size_t length)
{
	int rc = __real_flmem_process_read_pinned(process, address, ret_bytes, length);
	const uint64_t before = BEFORE, answer = ANSWER;
	struct flmem_status status;

	if (rc || length < sizeof(answer) || memcmp(ret_bytes, &answer, sizeof(answer)) != 0 ||
	    flmem_status_read_thread(process, process->pid, &status) || status.tracer.value)
		return rc;
	memcpy(ret_bytes, &before, sizeof(before));
	torn++;
	return 0;
}

#if defined(__x86_64__) || defined(__aarch64__)
/* Called by the chain in the child; the test is the same program, so the address is the child's. */
__attribute__((noinline)) static void give_answer(uint64_t *answer)
{
	*answer = ANSWER;
}

static void be_child(void)
{
	char byte;

	while (read(bell[0], &byte, 1) == 1)
		continue;
}

static int start_child(void **state)
{
	(void)state;
	return pipe(bell) || child_open(be_child, 4096, &page, &child);
}

static int end_child(void **state)
{
	(void)state;
	pipe_close(bell);
	return child_close(child, page, 4096);
}

static void answers_are_those_of_the_stopped_thread(void **state)
{
	const struct flmem_borrow_options options = {.timeout_us = 20000000, .repeatable = true};
	const uint64_t before = BEFORE, answer = ANSWER;
	struct flmem_borrow_result result = {0};
	struct flmem_chain chain = {0};
	struct flmem_error err = {0};
	struct flmem_call *call;
	struct target target;
	uint64_t at;

	(void)state;
	await_true(is_blocked_in(child, SYS_read));
	target_open(child, &target);
	at = flmem_chain_put(&chain, &before, sizeof(before));
	assert_int_equal(at, 0);
	call = flmem_chain_add(&chain, "give_answer", (uint64_t)(uintptr_t)&give_answer);
	call->args[0] = at;
	call->data_args = 1U;
	expect_borrowed(flmem_borrow_run(&target.view, &chain, &options, &result, &err), &err);
	target_close(&target);
	assert_true(result.complete);
	assert_true(torn > 0); /* otherwise this test has shown nothing */
	assert_memory_equal(result.data, &answer, sizeof(answer));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(answers_are_those_of_the_stopped_thread,
						start_child, end_child),
	};

	return cmocka_run_group_tests_name("borrow_torn", tests, NULL, NULL);
}
#else
int main(void)
{
	puts("SKIP: threads are not borrowed on this processor yet");
	return 77;
}
#endif
